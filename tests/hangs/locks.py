# Two threads take two locks in opposite orders.
import threading

first, second = threading.Lock(), threading.Lock()
both = threading.Barrier(2)


def take(one, other):
    with one:
        if both.wait() == 0:
            print("ready", flush=True)
        with other:
            pass


thread = threading.Thread(target=take, args=(second, first))
thread.start()
take(first, second)
