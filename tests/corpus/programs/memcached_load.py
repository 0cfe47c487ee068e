"""Clients of memcached: PORT, how many, and how many rounds each makes."""
import socket
import sys
import threading

port, clients, rounds = (int(word) for word in sys.argv[1:4])


def client(number):
    connection = socket.create_connection(("127.0.0.1", port))
    answers = connection.makefile("rb")
    for turn in range(rounds):
        key, value = b"key%d" % (turn % 100), b"%d_%d" % (number, turn)
        connection.sendall(b"set %s 0 0 %d\r\n%s\r\nget %s\r\nincr count 1\r\n" % (key, len(value), value, key))
        assert answers.readline() == b"STORED\r\n"
        if answers.readline().startswith(b"VALUE"):
            answers.readline()
            answers.readline()
        answers.readline()


threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
