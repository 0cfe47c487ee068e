# The frames of a Python program. Retake reads them; here they get their places among the native frames. The scripts after this one use it.
import json
import os

import gdb
from gdb.FrameDecorator import FrameDecorator

# The function that evaluates frames. Up to 3.9, one call of it evaluates one frame.
EVALUATION = "_PyEval_EvalFrameDefault"


def is_python():
    """Whether there may be frames of Python. Other programs are asked once for each file that they load."""
    count = len(gdb.objfiles())
    if is_python.known[0] != count:
        try:
            gdb.parse_and_eval("(unsigned long) &_PyRuntime")
            is_python.known = count, True
        except gdb.error:
            is_python.known = count, False
    return is_python.known[1]


is_python.known = -1, False


def ask_python(tid):
    """What a thread does in Python: its exception, and its entries, which are the frames by the native calls that evaluate them. An error of
    Retake's is an error."""
    if not is_python():
        return {"entries": [], "raised": None}
    answer = gdb.execute("monitor python %d" % tid, to_string=True).strip()
    if answer.startswith("error: "):
        raise gdb.GdbError(answer[len("error: "):])
    return json.loads(answer)


def python_entries(tid):
    return ask_python(tid)["entries"]


def python_frames(tid):
    """The frames of a thread in Python, the innermost first. None without a known version of Python."""
    try:
        return [frame for entry in python_entries(tid) for frame in entry["frames"]]
    except (gdb.error, gdb.GdbError, ValueError):
        return []


def python_frame_text(frame):
    return "%s at %s:%s" % (frame["function"], os.path.basename(frame["file"]), frame["line"] or "?")


class Interleaving:
    """Gives native frames, from the innermost outwards, the frames of Python that they evaluate."""

    def __init__(self, tid):
        self.entries, self.refused = [], None
        try:
            self.entries = python_entries(tid)
        except (gdb.error, gdb.GdbError, ValueError) as error:
            self.refused = str(error)

    def may_find(self):
        return bool(self.entries) or walks.may_find()

    def of(self, native):
        """The frames that this native frame executes. The outermost native frame gets all of Python that are left."""
        step = walks.of(native)
        if step is not None:
            return step["frames"]
        if not self.entries:
            return []
        older = older_frame(native)
        end = stack_pointer(older) if older is not None else None
        is_free = native.name() == EVALUATION
        found = []
        while self.entries:
            stack = self.entries[0]["stack"]
            if end is None or stack is not None and stack < end:
                found += self.entries.pop(0)["frames"]
            elif stack is None and is_free:
                is_free = False
                found += self.entries.pop(0)["frames"]
            else:
                break
        return found


def python_stack(number):
    """As JSON, the frames of a thread in Python or another language, with the levels of the native frames that evaluate them."""
    selected, found = gdb.selected_thread(), []
    for thread in gdb.selected_inferior().threads():
        if thread.num == number:
            thread.switch()
            interleaving = Interleaving(thread.ptid[1])
            native = gdb.newest_frame() if interleaving.may_find() else None
            while native is not None and interleaving.may_find():
                found += [dict(one, level=native.level()) for one in interleaving.of(native)]
                native = older_frame(native)
    selected.switch()
    return json.dumps(found)


def older_frame(frame):
    try:
        return frame.older()
    except gdb.error:
        return None  # the stack cannot be followed any further


def stack_pointer(frame):
    try:
        return int(frame.read_register("rsp"))
    except (gdb.error, ValueError):
        return None


class Texts:
    """Values that are texts already, for gdb to print. It takes only values of types, and leaves out arguments that are arrays."""

    # The values are pointers to arrays of this size, which no program has.
    SIZE = 0x7e7a5e1
    MOST = 4096

    def __init__(self):
        self.texts = {}
        self.next = 1

    def value(self, text):
        """A value that gdb prints as this text."""
        number, self.next = self.next, self.next % self.MOST + 1
        self.texts[number] = text
        byte = gdb.selected_inferior().architecture().integer_type(8, False)
        return gdb.Value(number).cast(byte.array(self.SIZE - 1).pointer())

    def printer(self, value):
        if value.type.code == gdb.TYPE_CODE_PTR and value.type.target().code == gdb.TYPE_CODE_ARRAY \
                and value.type.target().sizeof == self.SIZE:
            return Printed(self.texts.get(int(value), "?"))
        return None


class Printed:
    def __init__(self, text):
        self.text = text

    def to_string(self):
        return self.text


texts = Texts()


class Named:
    """A variable of a frame, as decorators give it."""

    def __init__(self, variable):
        self.variable = variable

    def symbol(self):
        return self.variable["name"]

    def value(self):
        return texts.value(self.variable["value"])


class PythonFrame(FrameDecorator):
    """A native frame shown as a frame of Python, or of another language, that it executes."""

    # What stands where gdb prints a number. It prints none for the second of several frames at one native frame.
    INDENT = "    "

    def __init__(self, base, frame, is_first):
        super().__init__(base)
        self.frame, self.is_first = frame, is_first

    def function(self):
        return ("" if self.is_first else self.INDENT) + self.frame["function"]

    def address(self):
        return None

    def filename(self):
        return self.frame["file"]

    def line(self):
        return self.frame["line"]

    def elided(self):
        return None

    def frame_args(self):
        return [Named(one) for one in self.frame["arguments"]] or None

    def frame_locals(self):
        return [Named(one) for one in self.frame["locals"]] or None


class NamelessFrame(FrameDecorator):
    """A native frame without a symbol. Without this, gdb leaves its name out where filters act."""

    def function(self):
        return walks.name_of(self.inferior_frame()) or "??"


class PythonFilter:
    """Shows frames of Python and other languages in place of the native frames that execute them."""

    name, enabled, priority = "python", True, 100

    def filter(self, frames):
        interleaving = Interleaving(gdb.selected_thread().ptid[1])
        if interleaving.refused:
            print("(no frames of Python: %s)" % interleaving.refused)
        for refused in walks.refused():
            print("(no frames of %s)" % refused)
        return self.shown(frames, interleaving) if interleaving.may_find() else frames

    def shown(self, frames, interleaving):
        for decorated in frames:
            found = interleaving.of(decorated.inferior_frame())
            if not found:
                yield decorated if decorated.inferior_frame().name() else NamelessFrame(decorated)
            for at, frame in enumerate(found):
                yield PythonFrame(decorated, frame, at == 0)


gdb.frame_filters[PythonFilter.name] = PythonFilter()
gdb.pretty_printers.append(texts.printer)
