# Finds out with gdb which threads wait for which. The scripts after this one use it.
import json
import os
import re
import time

import gdb

# The number of frames examined to find out in what a thread waits.
WAIT_FRAMES = 24
# The most frames that are examined, even if the user's own code is further down.
MOST_FRAMES_TO_OWN = 512
# The number of writes to go back over to find the holder of something.
MOST_WRITES = 60
# The longest recording that is searched. Going back in a longer one takes too long.
LONGEST_SEARCH = 60.0
# How long to search for the holders of all objects, in seconds. Who waits for whom is of use without them, too.
MOST_SECONDS = 20.0

SYSTEM = re.compile(r"^(/usr)?/lib(32|64|x32)?/|/ld-linux|/ld-musl|^/usr/lib")
NOT_OWN = re.compile(r"^(<?\(?(std|core|alloc|parking_lot\w*|crossbeam\w*)::|<(std|core|alloc)|__|_start$|_dl_|rust_|start_thread$|clone3?$|syscall$|runtime\.|sync\.)")

KINDS = (
    ("mutex", re.compile(r"pthread_mutex_\w*lock|lll_mutex_lock|_L_lock")),
    ("rwlock", re.compile(r"pthread_rwlock_\w*(rd|wr)lock")),
    ("condition", re.compile(r"pthread_cond_\w*wait")),
    ("join", re.compile(r"pthread_\w*join|thrd_join")),
    ("semaphore", re.compile(r"(^|_)sem_\w*wait")),
    ("barrier", re.compile(r"pthread_barrier_wait")),
    ("once", re.compile(r"pthread_once|call_once|__cxa_guard_acquire")),
    ("rust condition", re.compile(r"std::sys.*[Cc]ondvar|std::sync.*[Cc]ondvar")),
    ("rust rwlock", re.compile(r"std::sys.*rwlock|std::sync.*RwLock")),
    ("rust mutex", re.compile(r"std::sys.*mutex|std::sync.*Mutex")),
    ("park", re.compile(r"std::thread.*park|parking::|Parker")),
)


def quietly(command):
    """The command, without gdb's own message about the stop. gdb before version 11 cannot suppress it."""
    try:
        gdb.parameter("suppress-cli-notifications")
    except RuntimeError:
        return command
    return "with suppress-cli-notifications on -- " + command


def older_frames(limit):
    """The frames of the selected thread, as far as they can be followed."""
    try:
        frame = gdb.newest_frame()
        for _ in range(limit):
            if frame is None:
                return
            yield frame
            frame = frame.older()
    except (gdb.error, RuntimeError):
        return


def is_own(frame):
    """Whether a frame is in the user's code, not in a library of the system or of the language."""
    library = gdb.solib_name(frame.pc())
    if re.search(r"(^|/)(lib)?python[\d.]*(\.so[\d.]*)?$", library or gdb.current_progspace().filename or ""):
        return False
    if library and SYSTEM.search(library.replace("target:", "", 1)):
        return False
    name = frame.name()
    return name is not None and not NOT_OWN.search(name)


def frame_text(frame):
    place = frame.find_sal()
    where = " at %s:%d" % (os.path.basename(place.symtab.filename), place.line) if place.symtab and place.line else ""
    return "%s%s" % (frame.name() or hex(frame.pc()), where)


def own_text():
    """Where the selected thread is in the user's code, in words."""
    newest = None
    for frame in older_frames(MOST_FRAMES_TO_OWN):
        newest = newest or frame
        if is_own(frame):
            return frame_text(frame)
    scripts = [one for one in python_frames(gdb.selected_thread().ptid[1]) if is_own_script(one)]
    if scripts:
        return python_frame_text(scripts[0])
    return frame_text(newest) if newest else None


def is_own_script(frame):
    """Whether a frame in Python is in the user's code, not in Python's own modules."""
    return not re.search(r"/lib(64)?/python3[\d.]*/(?!site-packages|dist-packages)|^<frozen", frame["file"])


def word(address, size=4):
    try:
        return int.from_bytes(gdb.selected_inferior().read_memory(address, size).tobytes(), "little")
    except (gdb.error, gdb.MemoryError):
        return None


def kind_of_wait():
    """The kind of wait, found by the name of an inner function, and that name."""
    for frame in older_frames(WAIT_FRAMES):
        name = frame.name() or ""
        for kind, pattern in KINDS:
            if pattern.search(name):
                return kind, name
        if is_own(frame):
            break
    return None, ""


def symbol_at(address):
    """`0x55d0 <second>`."""
    try:
        text = gdb.execute("info symbol %d" % address, to_string=True).strip()
    except gdb.error:
        text = ""
    match = re.match(r"(\S+)( \+ \d+)? in section", text)
    return "%#x <%s%s>" % (address, match.group(1), (match.group(2) or "").replace(" ", "")) if match else "%#x" % address


def helper(pid, tid, how, since=None):
    found = {"pid": pid, "tid": tid, "how": how}
    if since:
        found["since"] = since
    return found


class Futex:
    """What a thread waits for at a futex: the object, who can end the wait, and where to look for the holder."""

    def __init__(self, wait, tids):
        self.address, self.pid, self.tid = wait["futex"], wait["pid"], wait["tid"]
        self.tids = tids
        self.kind, function = kind_of_wait()
        self.what, self.helpers, self.search = "futex " + symbol_at(self.address), self.others("that could be woken by"), None
        getattr(self, (self.kind or "unknown").replace(" ", "_"))(function)

    def others(self, how):
        return [helper(self.pid, tid, how) for tid in self.tids if tid != self.tid]

    def held_by(self, owner):
        if owner in self.tids:
            self.helpers = [helper(self.pid, owner, "held by")]
            return True
        return False

    def unknown(self, function):
        # A mutex in glibc's form, of a library without symbols.
        if word(self.address) == 2 and word(self.address + 8) in self.tids:
            self.mutex(function)

    def mutex(self, function):
        value, owner = word(self.address), word(self.address + 8)
        self.what = "mutex " + symbol_at(self.address)
        if value is not None and value & 0x3fffffff in self.tids:
            # Mutexes of musl, and those with priority inheritance, have the owner in the word itself.
            self.held_by(value & 0x3fffffff)
            self.what = "mutex " + symbol_at(self.address - 4 if "timedlock" in function and owner not in self.tids else self.address)
        elif self.held_by(owner):
            self.search = ("owner", self.address + 8)
        else:
            self.search = ("taken", self.address)

    def rwlock(self, function):
        # glibc's layout: readers, writers, two futex words, and the writer.
        base = self.address - (8 if self.address % 8 == 0 else 12)
        self.what = "rwlock " + symbol_at(base)
        writer, readers = word(base + 24), word(base)
        if self.held_by(writer):
            self.search = ("owner", base + 24)
        elif readers is not None and readers >> 3:
            self.helpers = self.others("held for reading by one of")
            self.search = ("readers", base)

    def condition(self, function):
        # The futex words are 40 bytes after the beginning, or 32 from glibc 2.41 on.
        first = self.address - self.address % 8
        names = [symbol_at(first - 40), symbol_at(first - 32)]
        self.what = "condition variable " + next((name for name in names if "<" in name and "+" not in name), names[0])
        self.helpers = self.others("that could be signalled by")

    def semaphore(self, function):
        self.what = "semaphore " + symbol_at(self.address)
        self.helpers = self.others("that could be posted by")
        self.search = ("semaphore", self.address)

    def barrier(self, function):
        self.what = "barrier " + symbol_at(self.address)
        self.helpers = self.others("that could be reached by")

    def once(self, function):
        self.what = "the first run of an initialisation " + symbol_at(self.address)

    def join(self, function):
        tid = word(self.address)
        self.what = "the end of a thread"
        self.helpers = [helper(self.pid, tid, "that is")] if tid in self.tids else []

    def park(self, function):
        self.what = "being unparked"
        self.helpers = self.others("that could be done by")

    def rust_mutex(self, function):
        self.what = "mutex " + symbol_at(self.address)
        self.search = ("taken", self.address)

    def rust_rwlock(self, function):
        self.what = "rwlock " + symbol_at(self.address)
        self.search = ("taken", self.address)

    def rust_condition(self, function):
        self.what = "condition variable " + symbol_at(self.address)
        self.helpers = self.others("that could be signalled by")

    def wait(self, wait):
        return dict(wait, what=self.what, helpers=self.helpers)


def writes_of(address, until):
    """Goes back over the writes of a word, the last one first, but not after the time `until`. For each: the thread, the place, the old and the new value."""
    pointer = gdb.Value(address).cast(gdb.selected_inferior().architecture().integer_type(32, False).pointer())
    gdb.set_convenience_variable("retake_word", pointer)
    after = word(address)
    enabled = [one for one in gdb.breakpoints() or () if one.enabled]
    for one in enabled:
        one.enabled = False
    watch = gdb.Breakpoint("*$retake_word", gdb.BP_WATCHPOINT, gdb.WP_WRITE, internal=True)
    watch.silent = True
    try:
        for _ in range(MOST_WRITES):
            if time.monotonic() > until:
                return
            hits, before_place = watch.hit_count, where()
            gdb.execute(quietly("reverse-continue"), to_string=True)
            if watch.hit_count == hits:
                # A signal on the way is not a write. At the beginning, the search ends.
                if where() == before_place or is_at_begin():
                    return
                continue
            before = word(address)
            yield gdb.selected_thread().ptid[1], own_text(), before, after
            after = before
    except gdb.error:
        return
    finally:
        watch.delete()
        for one in enabled:
            one.enabled = True


def monitor(command):
    return gdb.execute("monitor " + command, to_string=True).strip()


def where():
    return monitor("place")


def is_at_begin():
    return monitor("begins") == "yes"


def search(futex, until):
    """Finds in the past who holds an object, and since when, unless that takes too long."""
    how, address = futex.search
    current = {}
    for tid, place, before, after in writes_of(address, until):
        since = "taken in " + place if place else None
        if how == "owner":
            if after != 0 and before == 0:
                futex.helpers = [helper(futex.pid, after, "held by", since)]
                return
        elif how == "taken":
            if before == 0 and after:
                futex.helpers = [helper(futex.pid, tid, "held by", since)]
                return
        elif how == "semaphore":
            if before is not None and after is not None and before & 0xffffffff == after + 1:
                for one in futex.helpers:
                    if one["tid"] == tid:
                        one["since"] = "who took it last, in " + place if place else "who took it last"
                futex.helpers.sort(key=lambda one: "since" not in one)
                return
        elif how == "readers":
            change = (after >> 3) - (before >> 3)
            count, first = current.get(tid, (0, None))
            current[tid] = (count + change, first or since)
            if before >> 3 == 0:
                break
    holders = [(tid, first) for tid, (count, first) in current.items() if count > 0]
    if how == "readers" and holders:
        futex.helpers = [helper(futex.pid, tid, "held for reading by", first) for tid, first in holders]


def find_waits(may_go_back):
    """What the threads wait for, and who could end the waits. A search in the past leaves the current place."""
    waits = json.loads(monitor("waits"))
    tids = [one.ptid[1] for one in gdb.selected_inferior().threads()]
    selected = gdb.selected_thread()
    futexes = {}
    for thread in gdb.selected_inferior().threads():
        for at, wait in enumerate(waits):
            if wait["tid"] == thread.ptid[1] and "futex" in wait:
                thread.switch()
                futexes[at] = Futex(wait, tids)
    selected.switch()
    if may_go_back:
        until = time.monotonic() + MOST_SECONDS
        for at, futex in futexes.items():
            if futex.search and time.monotonic() < until:
                with at_this_place() as is_possible:
                    if is_possible:
                        search(futex, until)
    return [futexes[at].wait(wait) if at in futexes else wait for at, wait in enumerate(waits)]


class at_this_place:
    """Whether the program can come back to the current place, and soon. Comes back when the block ends."""

    def __enter__(self):
        self.number = None
        elapsed = re.search(r"ended at ([\d.]+) s", monitor("elapsed"))
        if not elapsed or float(elapsed.group(1)) > LONGEST_SEARCH:
            return False
        self.thread = gdb.selected_thread().ptid[1]
        number = re.match(r"checkpoint (\d+)", monitor("checkpoint"))
        self.number = number.group(1) if number else None
        return self.number is not None

    def __exit__(self, *what):
        if self.number is not None:
            if not monitor("restart " + self.number):
                gdb.execute(quietly("continue"), to_string=True)
            monitor("forget " + self.number)
            for thread in gdb.selected_inferior().threads():
                if thread.ptid[1] == self.thread:
                    thread.switch()
