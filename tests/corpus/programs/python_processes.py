"""Processes that share memory, a lock and a pool."""
import multiprocessing
from multiprocessing import shared_memory


def count(value, name, rounds):
    memory = shared_memory.SharedMemory(name)
    for _ in range(rounds):
        with value.get_lock():
            value.value += 1
        memory.buf[0] = (memory.buf[0] + 1) % 256
    memory.close()


def square(number):
    return number * number


if __name__ == "__main__":
    value = multiprocessing.Value("i", 0)
    memory = shared_memory.SharedMemory(create=True, size=4096)
    children = [multiprocessing.Process(target=count, args=(value, memory.name, 500)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    with multiprocessing.Pool(3) as pool:
        print(value.value, memory.buf[0], sum(pool.map(square, range(1000))))
    memory.close()
    memory.unlink()
