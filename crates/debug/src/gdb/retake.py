# Commands for gdb on a replay. `retake debug` loads this file.
import contextlib

import gdb


def ask(command):
    answer = gdb.execute("monitor " + command, to_string=True).strip()
    if answer.startswith("error: "):
        raise gdb.GdbError(answer[len("error: "):])
    return answer


def go(command):
    """The program is asked to run, and is somewhere else when it stops."""
    answer = ask(command)
    if answer:
        print(answer)
        return
    # It is the target that goes anywhere; to gdb it looks like the end of a recorded history. Without breakpoints, because gdb would first
    # step off the one that it stands at.
    with disabled_breakpoints():
        gdb.execute("continue", to_string=True)
    gdb.execute("sharedlibrary", to_string=True)
    gdb.execute("frame")


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


class When(gdb.Command):
    """Show where in the recording the program is: the event, and of which thread."""

    def __init__(self):
        super().__init__("when", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        print(ask("when"))


class Seek(gdb.Command):
    """Go to a place of the recording, forwards or backwards.
seek EVENT         where the current thread has consumed that many events
seek THREAD:EVENT  the same for another thread, by the number the program knows
seek begin         the first instruction of the program
seek end           the end: an exit, or the crash"""

    def __init__(self):
        super().__init__("seek", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        go("seek " + argument)


class Checkpoint(gdb.Command):
    """Remember this place. Go back to it with `restart NUMBER`."""

    def __init__(self):
        super().__init__("checkpoint", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        print(ask("checkpoint"))


class InfoCheckpoints(gdb.Command):
    """List the remembered places."""

    def __init__(self):
        super().__init__("info checkpoints", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        print(ask("checkpoints"))


class Restart(gdb.Command):
    """Go back to a remembered place: restart NUMBER."""

    def __init__(self):
        super().__init__("restart", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        go("restart " + argument)


class InfoRecording(gdb.Command):
    """Show which recording this is, and which process of it."""

    def __init__(self):
        super().__init__("info recording", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        print(ask("info"))


class Last(gdb.Command):
    """Go back to where a variable, or any memory, was last written: last EXPRESSION.
The program then stands before the instruction that wrote it."""

    def __init__(self):
        super().__init__("last", gdb.COMMAND_RUNNING, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("last what? Name a variable, or an expression with an address")
        value = gdb.parse_and_eval(argument)
        if value.address is None:
            raise gdb.GdbError(argument + " has no address")
        kind = value.type.strip_typedefs()
        with disabled_breakpoints():
            watch = gdb.Breakpoint("*(%s *) %d" % (kind, int(value.address)), gdb.BP_WATCHPOINT, gdb.WP_WRITE, internal=True)
            watch.silent = True
            try:
                gdb.execute("reverse-continue", to_string=True)
                hit = watch.hit_count > 0
            finally:
                watch.delete()
        if not hit:
            print("it was not written since the beginning")
        gdb.execute("frame")


for command in (When, Seek, Checkpoint, InfoCheckpoints, Restart, InfoRecording, Last):
    command()
