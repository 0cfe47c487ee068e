# At many moments tells its own stacks as faulthandler sees them, and waits until others have looked, too.
import asyncio, ctypes, faulthandler, functools, os, sys, threading

out, back = 1, 0
runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
os.write(out, b"%d %d\n" % (sys.version_info[1], runtime))


# fmt: off
def moment(): faulthandler.dump_traceback(out, True); os.write(out, b"look\n"); os.read(back, 1)
# fmt: on


def recurse(depth, *rest, flag=True, **more):
    if depth:
        moment()
        return recurse(depth - 1, depth, flag=not flag, depth_before=depth)
    return max([2, 1],
               key=lambda item: (
                   moment(),
                   item)[1])


def generate(count):
    for number in range(count):
        inner = [deeper for deeper in range(number)
                 if moment() is None]
        yield inner
    yield from another(count)


def another(count):
    yield count
    moment()


class Shape:
    corners = [number for number in (1, 2)]
    moment()

    def __init__(self):
        self.area = 1.5
        moment()

    def __lt__(self, other):
        moment()
        return False

    @property
    def size(self):
        moment()
        return functools.reduce(self.add, [1, 2, 3])

    def add(self, one, two):
        try:
            raise ValueError
        except ValueError:
            moment()
        finally:
            moment()
        return one + two


async def wait(name):
    await asyncio.sleep(0)
    moment()
    return name


async def gather():
    return await asyncio.gather(wait("a"), wait("b"))


def values(count, text="ab\u00e9\u20ac", *, ratio=0.1):
    none, yes, data, items = None, True, b"\x00a\xff", [1, (2,), {"k": [3]}]
    large, negative, wide, table = 1 << 100, -5, "\U0001f600'", {1: "one", "two": 2.0}

    def inner():
        nonlocal count
        count += 1
        moment()
        return text

    del none
    none = None
    return inner(), yes, data, items, large, negative, wide, table, ratio


def in_thread(begun, ended):
    begun.set()
    ended.wait()


begun, ended = threading.Event(), threading.Event()
thread = threading.Thread(target=in_thread, args=(begun, ended))
thread.start()
begun.wait()
recurse(4)
list(generate(4))
sorted([Shape(), Shape(), Shape()])
Shape().size
asyncio.run(gather())
values(1)
exec("moment()\n\nmoment()")
for unused in range(3): moment()
ended.set()
thread.join()
moment()
