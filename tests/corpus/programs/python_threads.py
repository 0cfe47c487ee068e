"""Threads with a queue, a lock, and a number that they race for."""
import queue
import threading

work, total, racy = queue.Queue(), 0, 0
lock = threading.Lock()


def worker():
    global total, racy
    while (item := work.get()) is not None:
        value = sum(number * item % 7 for number in range(2000))
        racy += 1
        with lock:
            total += value


threads = [threading.Thread(target=worker) for _ in range(6)]
for thread in threads:
    thread.start()
for item in range(300):
    work.put(item)
for _ in threads:
    work.put(None)
for thread in threads:
    thread.join()
print(total, racy)
