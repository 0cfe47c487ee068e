# Commands for gdb on a Python program. `retake debug` loads this file.
import gdb

# The most instructions of Python that a step goes over.
MOST_INSTRUCTIONS = 100000


class Selected:
    """The frame of Python that the user has selected, by thread and number. Forgotten when the program goes on."""

    def __init__(self):
        self.forget()
        gdb.events.stop.connect(self.forget)

    def forget(self, stop=None):
        self.tid, self.number = None, 0

    def frames(self):
        """The frames of the current thread."""
        thread = gdb.selected_thread()
        if thread is None:
            raise gdb.GdbError("the program is not being run")
        tid = thread.ptid[1]
        if self.tid != tid:
            self.tid, self.number = tid, 0
        frames = [frame for entry in python_entries(tid) for frame in entry["frames"]]
        if not frames:
            raise gdb.GdbError("thread %d does not run Python here" % tid)
        return frames

    def frame(self):
        frames = self.frames()
        self.number = min(self.number, len(frames) - 1)
        return frames[self.number]

    def move(self, count):
        frames = self.frames()
        number = self.number + count
        if not 0 <= number < len(frames):
            raise gdb.GdbError("this is the %s frame in Python" % ("newest" if number < 0 else "oldest"))
        self.number = number
        self.show()

    def show(self):
        print(numbered(self.number, self.frame()))


def numbered(number, frame):
    arguments = ", ".join("%s=%s" % (one["name"], one["value"]) for one in frame["arguments"])
    return "#%-3d%s (%s) at %s:%s" % (number, frame["function"], arguments, frame["file"], frame["line"] or "?")


selected = Selected()


class PyBt(gdb.Command):
    """Show the frames of the current thread in Python, the newest first: py-bt [full] [COUNT].
With `full`, show the variables, too. `bt` shows them between the native frames."""

    def __init__(self):
        super().__init__("py-bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = argument.split()
        is_full = "full" in words
        counts = [word for word in words if word != "full"]
        if len(counts) > 1 or any(not one.isdecimal() for one in counts):
            raise gdb.GdbError("py-bt takes `full`, and a number of frames")
        frames = selected.frames()
        for number, frame in enumerate(frames[:int(counts[0])] if counts else frames):
            print(numbered(number, frame))
            for one in frame["locals"] if is_full else ():
                print("        %s = %s" % (one["name"], one["value"]))


class PyLocals(gdb.Command):
    """Show the variables of the selected frame in Python: py-locals."""

    def __init__(self):
        super().__init__("py-locals", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        frame = selected.frame()
        variables = frame["arguments"] + frame["locals"]
        for one in variables:
            print("%s = %s" % (one["name"], one["value"]))
        if not variables:
            print("no variables here")


class PyPrint(gdb.Command):
    """Show a variable of the selected frame in Python, or of its module: py-print NAME."""

    def __init__(self):
        super().__init__("py-print", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        name, frame = argument.strip(), selected.frame()
        if not name.isidentifier():
            raise gdb.GdbError("py-print takes the name of a variable")
        older = [one for one in selected.frames()[selected.number:] if one["function"] == "<module>" and one["file"] == frame["file"]]
        for one in frame["arguments"] + frame["locals"] + (older[0]["locals"] if older else []):
            if one["name"] == name:
                print("%s = %s" % (name, one["value"]))
                return
        raise gdb.GdbError("%s has no variable %s here" % (frame["function"], name))


class PyMove(gdb.Command):
    """A command that selects another frame."""

    def __init__(self, name, direction, about):
        self.__doc__ = about
        self.direction = direction
        super().__init__(name, gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        count = argument.strip() or "1"
        if not count.isdecimal():
            raise gdb.GdbError("%r is not a number of frames" % count)
        selected.move(self.direction * int(count))


class PyStep(gdb.Command):
    """A command that goes to another line of the newest frame in Python, or to its caller."""

    def __init__(self, name, command, is_out, about):
        self.__doc__ = about
        self.command, self.is_out = command, is_out
        super().__init__(name, gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        frames = selected.frames()
        tid, frame, callers = selected.tid, frames[0], frames[1:2]
        if self.is_out and not callers:
            raise gdb.GdbError("%s is the oldest frame in Python" % frame["function"])
        # A frame that returns no longer changes its place. Its caller does.
        watches = [self.watch(one) for one in (callers if self.is_out else [frame] + callers)]
        try:
            reason = self.go(tid, frame, watches)
        finally:
            for watch in watches:
                watch.delete()
        if reason:
            print(reason)
        selected.forget()
        selected.show()

    @staticmethod
    def watch(frame):
        expression = "*(unsigned char (*)[%d]) %d" % (frame["place_bytes"], frame["place"])
        watch = gdb.Breakpoint(expression, gdb.BP_WATCHPOINT, gdb.WP_WRITE, internal=True)
        watch.silent = True
        return watch

    def go(self, tid, frame, watches):
        """Goes there. Returns why it is somewhere else, if it is."""
        for _ in range(MOST_INSTRUCTIONS):
            before = sum(watch.hit_count for watch in watches)
            text = gdb.execute(self.command, to_string=True).strip()
            if sum(watch.hit_count for watch in watches) == before:
                return text
            now = [one for one in python_frames(tid) if one["place"] == frame["place"]]
            if not now or now[0]["function"] != frame["function"]:
                return None
            if not self.is_out and now[0]["line"] not in (None, frame["line"]):
                return None
        return "stopped after %d instructions in this line" % MOST_INSTRUCTIONS


class PyRaise(gdb.Command):
    """A command that goes to where an exception was raised that comes into the user's code."""

    # The function that Python calls for each frame through which an exception comes, the innermost first.
    FUNCTION = "*PyTraceBack_Here"

    def __init__(self, name, goes_back, about):
        self.__doc__ = about
        self.goes_back = goes_back
        super().__init__(name, gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        if not is_python():
            raise gdb.GdbError("this program does not run Python here")
        stop = gdb.Breakpoint(self.FUNCTION, internal=True)
        stop.silent = True
        try:
            raised = self.go_back(stop, set()) if self.goes_back else self.go_on(stop)
        finally:
            stop.delete()
        if raised:
            selected.forget()
            print("raises " + raised["text"])
            selected.show()

    def go_on(self, stop):
        """Goes on until an exception comes into the user's code, and back to where it was raised."""
        types = set()
        while True:
            raised, is_own = self.next(stop, "continue")
            if not raised or raised["is_new"] and is_own:
                return raised
            if raised["is_new"]:
                types.add(self.type(raised))
            elif is_own and self.type(raised) in types:
                return self.go_back(stop, {self.type(raised)})

    def go_back(self, stop, types):
        """Goes back to where an exception was raised. `types` has the exceptions that come into the user's code later."""
        while True:
            raised, is_own = self.next(stop, "reverse-continue")
            if not raised or raised["is_new"] and (is_own or self.type(raised) in types):
                return raised
            if is_own:
                types.add(self.type(raised))

    @staticmethod
    def type(raised):
        return raised["text"].split("(")[0]

    @staticmethod
    def next(stop, command):
        """The exception at the next stop, and whether it comes through a frame of the user's. None if the program stopped for another reason."""
        before = stop.hit_count
        text = gdb.execute(command, to_string=True).strip()
        if stop.hit_count == before:
            print(text)
            return None, False
        state = ask_python(gdb.selected_thread().ptid[1])
        frames = [frame for entry in state["entries"] for frame in entry["frames"]]
        is_own = bool(frames) and is_own_script(frames[0])
        return state["raised"] or {"text": "an exception", "is_new": False}, is_own


PyBt()
PyLocals()
PyPrint()
PyMove("py-up", 1, "Select the frame in Python that called the selected one: py-up [COUNT].")
PyMove("py-down", -1, "Select the frame in Python that the selected one called: py-down [COUNT].")
PyStep("py-next", "continue", False, "Go on to the next line of the newest frame in Python, over calls, or to its caller: py-next.")
PyStep("py-reverse-next", "reverse-continue", False, """Go back to the line of the newest frame in Python before this one, over calls, or to its caller: py-reverse-next.
The program then stands at the end of that line.""")
PyRaise("py-raise", False, """Go on to where the next exception is raised: py-raise.
Exceptions that Python's own modules raise and catch themselves do not count.""")
PyRaise("py-reverse-raise", True, """Go back to where the last exception was raised: py-reverse-raise.
Exceptions that were caught count, too, but not those that Python's own modules raise and catch themselves.""")
PyStep("py-finish", "continue", True, "Go on until the newest frame in Python has returned to its caller: py-finish.")
PyStep("py-reverse-finish", "reverse-continue", True, "Go back to where the newest frame in Python was called: py-reverse-finish.")
