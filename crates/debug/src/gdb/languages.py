# Native frames of code that a language has made while the program runs, such as Java's. Retake follows them; here gdb learns how. The
# scripts after this one use it.
import json

import gdb
from gdb.unwinder import Unwinder, register_unwinder


class Walks:
    """What Retake tells about such frames, until the program goes on."""

    def __init__(self):
        self.files, self.languages = -1, []
        self.forget()
        for event in gdb.events.cont, gdb.events.memory_changed, gdb.events.register_changed:
            event.connect(self.forget)

    def forget(self, event=None):
        self.code, self.steps = None, {}

    def ask(self):
        """Where such code lies. Programs without such languages are asked once for each file that they load."""
        files = len(gdb.objfiles())
        if self.code is None and (self.languages or self.files != files):
            told = json.loads(gdb.execute("monitor languages", to_string=True))
            self.files, self.languages, self.code = files, told["names"], told["code"]
        return self.code or []

    def may_find(self):
        return bool(self.ask())

    def refused(self):
        """The languages whose frames are not known here, with the reason."""
        self.ask()
        return ["%s: %s" % (name, reason) for name, reason in self.languages if reason]

    def step(self, pc, sp, fp):
        """What is known of the native frame with these registers. None if it is another one."""
        if not any(start <= pc < end for start, end in self.ask()):
            return None
        if (pc, sp) not in self.steps:
            tid = gdb.selected_thread().ptid[1]
            walk = json.loads(gdb.execute("monitor walk %d %d %d %d" % (tid, pc, sp, fp), to_string=True))
            self.steps[pc, sp] = None
            for step in walk["steps"]:
                step["frames"] = [dict(frame, language=walk["language"]) for frame in step["frames"]]
                self.steps[step["registers"]["pc"], step["registers"]["sp"]] = step
        return self.steps[pc, sp]

    def of(self, frame):
        """The same of a frame of gdb's."""
        if not self.may_find():
            return None
        try:
            return self.step(frame.pc(), *(int(frame.read_register(name)) & MASK for name in ("rsp", "rbp")))
        except (gdb.error, ValueError):
            return None

    def name_of(self, frame):
        """The language's name for the code of a frame."""
        step = self.of(frame)
        return step and step["name"]


MASK = (1 << 64) - 1
walks = Walks()


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = gdb.Value(sp), gdb.Value(pc)


class Made(Unwinder):
    """Follows the stack through code that a language has made."""

    def __init__(self):
        super().__init__("retake")

    def __call__(self, pending):
        try:
            pc, sp, fp = (int(pending.read_register(name)) & MASK for name in ("rip", "rsp", "rbp"))
            step = walks.step(pc, sp, fp)
        except (gdb.error, ValueError):
            return None
        if step is None:
            return None
        caller = step["caller"]
        info = pending.create_unwind_info(FrameId(caller["sp"], step["code"]))
        registers = dict(step["kept"], rip=caller["pc"], rsp=caller["sp"], rbp=caller["fp"])
        for name, value in registers.items():
            info.add_saved_register(name, gdb.Value(value))
        return info


register_unwinder(None, Made(), replace=True)
