# Writes as JSON what gdb knows about the place of a replay. `retake backtrace` loads this file.
import json
import os

import gdb

MOST_FRAMES = 64
MOST_FRAMES_OF_OTHERS = 16
# The limits above count native frames. This one counts those that execute another language, too.
MOST_WITH_MANAGED = 512
LONGEST_VALUE = 400


def text(symbol, frame):
    try:
        value = symbol.value(frame)
        shown = value.format_string(max_elements=32, max_depth=3, repeat_threshold=8)
    except (gdb.error, gdb.MemoryError, ValueError) as error:
        shown = "<%s>" % error
    shown = " ".join(shown.split())
    return shown if len(shown) <= LONGEST_VALUE else shown[:LONGEST_VALUE] + "..."


def variables(frame):
    """Arguments, and local variables from the inside out."""
    arguments, local, seen = [], [], set()
    try:
        block = frame.block()
    except RuntimeError:
        return arguments, local
    while block is not None and not block.is_global and not block.is_static:
        for symbol in block:
            if symbol.name in seen or not (symbol.is_argument or symbol.is_variable):
                continue
            if not symbol.is_argument and symbol.addr_class == gdb.SYMBOL_LOC_STATIC:
                continue
            seen.add(symbol.name)
            (arguments if symbol.is_argument else local).append({"name": symbol.name, "value": text(symbol, frame)})
        if block.function:
            break
        block = block.superblock
    return arguments, local


def describe(frame, with_values, interleaving):
    place = frame.find_sal()
    arguments, local = variables(frame) if with_values else ([], [])
    executed = interleaving.of(frame)
    return {
        "level": frame.level(),
        "function": frame.name() or walks.name_of(frame),
        "address": hex(frame.pc()),
        "file": place.symtab.filename if place.symtab else None,
        "line": place.line if place.symtab and place.line else None,
        "library": gdb.solib_name(frame.pc()),
        "arguments": arguments,
        "locals": local,
        "own": is_own(frame),
        "python": [one for one in executed if "language" not in one],
        "managed": [one for one in executed if "language" in one],
    }


def frames(limit, with_values, interleaving):
    """The frames of the selected thread, and whether there are more."""
    found, native, has_own = [], 0, False
    try:
        frame = gdb.newest_frame()
        # Include a frame of the user's own code, if there is one.
        while frame is not None and (native < limit or not has_own and native < MOST_FRAMES_TO_OWN) and len(found) < MOST_WITH_MANAGED:
            found.append(describe(frame, with_values, interleaving))
            native += not found[-1]["managed"]
            has_own = has_own or found[-1]["own"]
            frame = frame.older()
    except gdb.error:
        return found, False  # the stack cannot be followed any further
    return found, frame is not None


def threads():
    current = gdb.selected_thread()
    found = []
    others = [one for one in gdb.selected_inferior().threads() if one.num != current.num]
    for thread in [current] + sorted(others, key=lambda one: one.num):
        thread.switch()
        is_current = thread.num == current.num
        interleaving = Interleaving(thread.ptid[1])
        scripts = [frame for entry in interleaving.entries for frame in entry["frames"]]
        stack, is_cut = frames(MOST_FRAMES if is_current else MOST_FRAMES_OF_OTHERS, is_current, interleaving)
        found.append({"tid": thread.ptid[1], "name": thread.name, "current": is_current, "frames": stack, "more_frames": is_cut,
                      "python": scripts, "no_python": interleaving.refused,
                      "managed": [one for frame in stack for one in frame["managed"]], "no_managed": walks.refused()})
    return found


gdb.execute("set width 0")
gdb.execute("target remote " + os.environ["RETAKE_SOCKET"], to_string=True)
seen = {"threads": threads(), "waits": []}
if os.environ.get("RETAKE_WAITS"):
    gdb.selected_inferior().threads()[0].switch()
    try:
        seen["waits"] = find_waits(may_go_back=True)
    except (gdb.error, gdb.MemoryError, RuntimeError):
        # gdb cannot tell, but the recording can.
        seen["waits"] = json.loads(monitor("waits"))
with open(os.environ["RETAKE_OUTPUT"], "w") as output:
    json.dump(seen, output)
