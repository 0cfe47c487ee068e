# Commands for gdb on a replay. `retake debug` loads this file.
import contextlib
import os

import gdb

# The number of bytes that the processor's watchpoints can watch.
WATCHED_BYTES = 32


def ask(command):
    try:
        answer = gdb.execute("monitor " + command, to_string=True).rstrip()
    except gdb.error as error:
        if gdb.selected_inferior().pid:
            raise
        raise gdb.GdbError("the process has ended, and this session with it: %s\n  try       retake debug, once more" % error)
    if answer.startswith("error: "):
        raise gdb.GdbError(answer[len("error: "):])
    return answer


def go(command):
    """Moves the program to another place with a request to Retake, and shows the new place."""
    answer = ask(command)
    if answer:
        print(answer)
        return
    # Only the target moves; gdb sees the end of a recorded history. Breakpoints are disabled, because gdb would first step off the one at
    # this place.
    with disabled_breakpoints():
        gdb.execute(quietly("continue"), to_string=True)
    gdb.execute("sharedlibrary", to_string=True)
    show()


def show():
    """Prints the place of the program."""
    load_symbols()
    gdb.execute("with print entry-values no -- frame")


def load_symbols():
    """Has gdb read the symbols of the innermost frames. If gdb reads them while it prints a frame, it loses the frame, and crashes."""
    try:
        frame = gdb.newest_frame()
        for _ in range(8):
            if frame is None:
                break
            frame.find_sal()
            frame = frame.older()
    except (gdb.error, RuntimeError):
        pass  # the stack cannot be followed any further
    gdb.invalidate_cached_frames()


@contextlib.contextmanager
def disabled_breakpoints():
    enabled = [one for one in gdb.breakpoints() or () if one.enabled]
    for one in enabled:
        one.enabled = False
    try:
        yield
    finally:
        for one in enabled:
            one.enabled = True


def watched(argument):
    """The value that an expression stands for, and the expression that watches its memory."""
    if not argument:
        raise gdb.GdbError("name a variable, or an expression with an address")
    try:
        value = gdb.parse_and_eval(argument)
    except gdb.error as error:
        raise gdb.GdbError(str(error))
    if value.address is None:
        raise gdb.GdbError(argument + " has no address")
    size = value.type.sizeof
    if size > WATCHED_BYTES:
        raise gdb.GdbError("%s has %d bytes, but only %d bytes can be watched: name a part of it, such as a member or an element"
                           % (argument, size, WATCHED_BYTES))
    # Use the processor's type. A library's type does not exist where the library is not loaded yet, and gdb crashes.
    byte = gdb.selected_inferior().architecture().integer_type(8, False)
    pointer = gdb.Value(int(value.address)).cast(byte.array(size - 1).pointer())
    gdb.set_convenience_variable("retake_watched", pointer)
    return value, "*$retake_watched"


def back_to_write(argument):
    """Goes back to the last write of memory. Returns the value, and whether there was a write."""
    value, expression = watched(argument)
    with disabled_breakpoints():
        watch = gdb.Breakpoint(expression, gdb.BP_WATCHPOINT, gdb.WP_WRITE, internal=True)
        watch.silent = True
        try:
            # Signals on the way are not writes.
            while True:
                before = ask("place")
                gdb.execute("reverse-continue", to_string=True)
                hit = watch.hit_count > 0
                if hit or ask("place") == before or ask("begins") == "yes":
                    break
        finally:
            watch.delete()
    return value, hit


class Simple(gdb.Command):
    """A command that shows what Retake answers."""

    def __init__(self, name, question, about):
        self.__doc__ = about
        self.question = question
        super().__init__(name, gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        text = ask(" ".join((self.question, argument)).strip())
        if text:
            print(text)


class Moving(gdb.Command):
    """A command that goes somewhere else."""

    def __init__(self, name, question, about):
        self.__doc__ = about
        self.question = question
        super().__init__(name, gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        go(self.question + " " + argument)


class Last(gdb.Command):
    """Go back to where a variable, or any memory, was last written: last EXPRESSION.
The program then stands before the instruction or the system call that wrote it."""

    def __init__(self):
        super().__init__("last", gdb.COMMAND_RUNNING, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        _, hit = back_to_write(argument)
        if not hit:
            print("it was not written since the beginning")
        show()


class Origin(gdb.Command):
    """Go back to where a variable, or any memory, was last written, and show what wrote it: origin EXPRESSION.
For a system call, show its arguments, and which bytes of its data these are."""

    def __init__(self):
        super().__init__("origin", gdb.COMMAND_RUNNING, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        value, hit = back_to_write(argument)
        if not hit:
            print("it was not written since the beginning: its value comes from the program's file, or from what started the program")
        else:
            call = ask("origin %d %d" % (int(value.address), value.type.sizeof))
            print(call or "written by the instruction that comes next\n" + gdb.execute("x/i $pc", to_string=True).rstrip())
        show()


def begin_again(arguments):
    if arguments.strip():
        raise gdb.GdbError("a replay takes no arguments: the program gets the recorded arguments")
    ask("seek begin")
    with disabled_breakpoints():
        gdb.execute(quietly("continue"), to_string=True)
    gdb.execute("sharedlibrary", to_string=True)


class Waits(gdb.Command):
    """Show what the threads of the program wait for here, who could end that, and who waits for each other: waits.
`deadlock` is another name for it."""

    def __init__(self, name):
        super().__init__(name, gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        print(ask("deadlocks " + json.dumps(find_waits(may_go_back=True))))


class Run(gdb.Command):
    """Begin the replay again from its start, and run to the first breakpoint: run.
The program gets the arguments and the input that it got while it was recorded."""

    def __init__(self):
        super().__init__("run", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        begin_again(argument)
        gdb.execute("continue")


class Start(gdb.Command):
    """Begin the replay again from its start, and run to the beginning of main: start."""

    def __init__(self):
        super().__init__("start", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        begin_again(argument)
        try:
            gdb.execute("tbreak main")
        except gdb.error:
            raise gdb.GdbError("there is no symbol for main; the program stands at its first instruction")
        gdb.execute("continue")


Simple("when", "when", "Show where in the recording the program is: the thread, how many events it has consumed, and when that was.")
Simple("elapsed", "elapsed", "Show how long after the beginning of the recording this place is, as exactly as the recording knows.")
Simple("events", "events", """Show the events of the thread before and after here, mostly system calls: events [COUNT].
The numbers are those of `retake dump`.""")
Simple("stdout", "stdout", "Show what the program wrote to its standard output up to here.")
Simple("stderr", "stderr", "Show what the program wrote to its standard error up to here.")
Simple("output", "output", "Show what the program wrote to its standard output and error up to here.")
Simple("checkpoint", "checkpoint", "Remember this place. Go back to it with `restart NUMBER`.")
Simple("info checkpoints", "checkpoints", "List the remembered places.")
Simple("delete checkpoint", "forget", "Forget a remembered place: delete checkpoint NUMBER.")
Simple("info recording", "info", "Show which recording this is, and which process of it.")
Moving("restart", "restart", "Go back to a remembered place: restart NUMBER.")
Moving("seek", "seek", """Go to a place of the recording, forwards or backwards.
seek EVENT         where the current thread has consumed this many events
seek THREAD:EVENT  the same for another thread, by the number the program knows
seek 1.5s          this long after recording began (also ms, us, min)
seek begin         the first instruction of the program
seek exit, crash   the end""")
Last()
Origin()
Run()
Start()
Waits("waits")
Waits("deadlock")


class Caught:
    """Has the target report new processes, and go back over execs, only while a catchpoint wants that: each report costs a stop."""

    def __init__(self):
        self.are_on = {}
        self.update()
        gdb.events.breakpoint_created.connect(lambda one: self.update())
        gdb.events.breakpoint_modified.connect(lambda one: self.update())
        gdb.events.breakpoint_deleted.connect(lambda one: self.update(gone=one.number))

    def update(self, gone=None):
        lines = gdb.execute("info breakpoints", to_string=True).splitlines()
        caught = [(int(words[0]), words[4].rstrip(",")) for words in map(str.split, lines) if words[1:2] == ["catchpoint"] and words[3] == "y"]
        caught = [(number, what) for number, what in caught if number != gone]
        for command, kinds in (("forks", ("fork", "vfork")), ("execs", ("exec",))):
            is_on = any(what in kinds for _, what in caught)
            if is_on != self.are_on.get(command):
                ask(command + (" on" if is_on else " off"))
                self.are_on[command] = is_on


def function_around():
    """The entry, beginning and end of the current function, if symbols tell them. With these, the target also passes over rounds with calls."""
    try:
        frame = gdb.newest_frame()
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        function, block = frame.function(), gdb.block_for_pc(frame.pc())
        if function is None:
            return ""
        # Compare names, since gdb makes new symbol objects for each query.
        while block.function is None or block.function.linkage_name != function.linkage_name:
            block = block.superblock
        return "%d %d %d" % (int(function.value().address), block.start, block.end)
    except (gdb.error, RuntimeError, AttributeError):
        return ""


def by_line(is_so):
    """Tells the target whether gdb steps back to the beginning of a line. gdb does so by single instructions; the target then skips rounds of loops."""
    try:
        ask("lines on " + function_around() if is_so else "lines off")
        by_line.is_on = is_so
    except gdb.error:
        pass  # without a replay there is no way back, and the next command says so


by_line.is_on = False


def hook_lines():
    for command in ("reverse-step", "reverse-next"):
        gdb.execute("define hook-%s\npython by_line(True)\nend" % command)
    # A hook after these commands does not work: at a prompt it runs before the program has stopped.
    gdb.events.stop.connect(lambda stop: by_line(False) if by_line.is_on else None)
    # Some errors cause no stop event.
    for command in ("reverse-stepi", "reverse-nexti"):
        gdb.execute("define hook-%s\npython by_line(False)\nend" % command)


def connect():
    # Hide the list of files that gdb reads from the recording.
    gdb.execute("target remote " + os.environ["RETAKE_SOCKET"], to_string=True)
    died = ask("crash")
    if died and ask("ends") == "yes":
        print(died)
    Caught()
    hook_lines()


connect()
