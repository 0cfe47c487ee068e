"""Threads that hand each other work, and print."""
import queue
import threading
import time

work = queue.Queue(4)


def produce(number):
    for item in range(60):
        work.put((number, item))
        time.sleep(0.005)
    work.put(None)


def consume():
    ended = 0
    while ended < 3:
        item = work.get()
        if item is None:
            ended += 1
        else:
            print(*item, flush=True)


threads = [threading.Thread(target=produce, args=(number,)) for number in range(3)]
threads.append(threading.Thread(target=consume))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
