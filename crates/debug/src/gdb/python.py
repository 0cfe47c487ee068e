# Finds the place of a Python program in its script: reads CPython's frames from memory. The scripts after this one use it.
import os

import gdb

# The offsets of fields, by minor version of Python 3. Without symbols, nothing else tells them.
PYTHONS = {
    11: dict(interpreters=40, threads=16, tid=160, cframe=56, current=8, code=32, previous=48, instruction=56, owner=69,
             name=128, first=72, bytecode=184, text=48),
    12: dict(interpreters=40, threads=72, tid=144, cframe=56, current=0, code=0, previous=8, instruction=56, owner=70,
             name=128, first=68, bytecode=192, text=40),
    13: dict(interpreters=632, threads=7344, tid=160, cframe=None, current=72, code=0, previous=8, instruction=56, owner=70,
             name=128, first=68, bytecode=200, text=40),
}
NEXT_THREAD, FILE_NAME, LINE_TABLE = 8, 112, 136
# The owner of frames that only represent a call from C.
OWNED_BY_C = 3
MOST_PYTHON_FRAMES = 256
MOST_PYTHON_THREADS = 4096
LONGEST_TEXT = 65536


def memory(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def number(address, size=8):
    return int.from_bytes(memory(address, size), "little")


def python_symbol(name):
    symbol = gdb.lookup_minimal_symbol(name) if hasattr(gdb, "lookup_minimal_symbol") else None
    if symbol is None:
        try:
            return int(gdb.parse_and_eval("(unsigned long) &" + name))
        except gdb.error:
            return None
    return int(symbol.value().address)


def python_text(address, layout):
    """The text of a Python string object."""
    length, state = number(address + 16), number(address + 32, 4)
    # The bits of the state: 2 or 3 for interning, 3 for the size, then "compact" and "ASCII".
    size, is_ascii = state >> 2 & 7, state >> 6 & 1
    start = address + layout["text"] + (0 if is_ascii else 24 if layout["text"] == 48 else 16)
    if length > LONGEST_TEXT or size not in (1, 2, 4):
        return "?"
    return memory(start, length * size).decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[size], "replace")


def python_line(code, offset, layout):
    """The line of an instruction, from the table of places in a code object (Python 3.11 and later)."""
    table = number(code + LINE_TABLE)
    bytes_of_table = memory(table + 32, min(number(table + 16), LONGEST_TEXT))
    line, at, covered = number(code + layout["first"], 4), 0, 0

    def variable():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = bytes_of_table[at]
            at += 1
            value |= (byte & 0x3f) << shift
            shift += 6
            if not byte & 0x40:
                return value

    def signed():
        value = variable()
        return -(value >> 1) if value & 1 else value >> 1

    while at < len(bytes_of_table):
        first = bytes_of_table[at]
        at += 1
        kind, length = first >> 3 & 15, ((first & 7) + 1) * 2
        has_line = kind != 15
        if kind == 14:
            line += signed()
            for _ in range(3):
                variable()
        elif kind == 13:
            line += signed()
        elif 10 <= kind <= 12:
            line += kind - 10
            at += 2
        elif kind < 10:
            at += 1
        if covered <= offset < covered + length:
            return line if has_line else None
        covered += length
    return None


def python_frames(tid):
    """The frames of a thread in Python, the innermost first: function, file, line. None without a known version of Python."""
    try:
        version, runtime = python_symbol("Py_Version"), python_symbol("_PyRuntime")
        if version is None or runtime is None:
            return []
        version = number(version, 4)
        layout = PYTHONS.get(version >> 16 & 0xff)
        if version >> 24 != 3 or layout is None:
            return []
        interpreter = number(runtime + layout["interpreters"])
        thread = number(interpreter + layout["threads"]) if interpreter else 0
        for _ in range(MOST_PYTHON_THREADS):
            if not thread or number(thread + layout["tid"]) == tid:
                break
            thread = number(thread + NEXT_THREAD)
        return list(frames_of_python_thread(thread, layout)) if thread else []
    except (gdb.error, gdb.MemoryError, IndexError, OverflowError):
        return []


def frames_of_python_thread(thread, layout):
    holder = number(thread + layout["cframe"]) if layout["cframe"] is not None else thread
    frame = number(holder + layout["current"]) if holder else 0
    for _ in range(MOST_PYTHON_FRAMES):
        if not frame:
            return
        if number(frame + layout["owner"], 1) != OWNED_BY_C:
            code = number(frame + layout["code"])
            offset = number(frame + layout["instruction"]) - (code + layout["bytecode"])
            yield {
                "function": python_text(number(code + layout["name"]), layout),
                "file": python_text(number(code + FILE_NAME), layout),
                "line": python_line(code, max(offset, 0), layout),
            }
        frame = number(frame + layout["previous"])


def python_frame_text(frame):
    return "%s at %s:%s" % (frame["function"], os.path.basename(frame["file"]), frame["line"] or "?")
