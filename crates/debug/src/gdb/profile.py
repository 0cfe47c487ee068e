# Counts the stacks at places spread over a replay. `retake replay --profile` loads this file.
import collections
import os

import gdb

MOST_FRAMES = 128


def monitor(command):
    return gdb.execute("monitor " + command, to_string=True).strip()


def clean(name):
    # Replace the separators of the output.
    return name.replace(";", ":").replace("\n", " ")


def stack():
    """The names of the functions of the current thread, the outermost first."""
    names = []
    try:
        frame = gdb.newest_frame()
        while frame is not None and len(names) < MOST_FRAMES:
            library = gdb.solib_name(frame.pc())
            unknown = "[%s]" % os.path.basename(library) if library else "[%s]" % hex(frame.pc())
            names.append(clean(frame.name() or unknown))
            # The kernel is the caller of this function, whatever the stack looks like.
            frame = frame.older() if frame.name() != "_start" else None
    except gdb.error:
        pass  # the stack cannot be followed any further
    return ";".join(reversed(names))


gdb.execute("set width 0")
gdb.execute("set pagination off")
gdb.execute("target remote " + os.environ["RETAKE_SOCKET"], to_string=True)
counts = collections.Counter()
for place in monitor("samples " + os.environ["RETAKE_SAMPLES"]).splitlines():
    if monitor("seek " + place):
        continue
    gdb.execute("continue", to_string=True)
    gdb.execute("sharedlibrary", to_string=True)
    folded = stack()
    if folded:
        counts[folded] += 1
with open(os.environ["RETAKE_OUTPUT"], "w") as output:
    for folded, count in sorted(counts.items()):
        output.write("%s %d\n" % (folded, count))
