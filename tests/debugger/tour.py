# A tour of a program in gdb: `cargo xtask debugger` runs it on a recording and, where all runs behave alike, on the program itself.
#
# A program's file names the functions below to run. What they see going forwards is the truth: the program itself must show the same. What they
# see going backwards must equal what they saw going forwards, to the last byte of memory and registers.
import json
import os
import random
import re
import sys
import time

import gdb

LIVE = "RETAKE_LIVE" in os.environ
SEEKS = int(os.environ.get("RETAKE_SEEKS", "0"))
# The file that passes what was seen from one session to another.
STATES = os.environ.get("RETAKE_STATES")
# The number of seeks to each place: it must be reached from several sides.
VISITS = 4
MOST_PLACES = 250
STEPS_FROM_PLACE = 3
# The runtime's own addresses, which must not show.
HIDDEN = re.compile(r"\b0x0*55[0-4][0-9a-f]{9}\b")
SYMBOL = re.compile(r" <[^<>]*>$", re.MULTILINE)
checks, slowest, hit = 0, (0.0, "nothing"), None


def say(kind, text):
    print("\ntour: %s %s" % (kind, " ".join(text.split())), flush=True)


def check(is_right, text):
    global checks
    checks += 1
    if not is_right:
        say("wrong", text)


def run(command):
    """Runs a command, and measures its time."""
    global slowest, hit
    since, hit = time.time(), None
    try:
        return gdb.execute(command, to_string=True)
    finally:
        slowest = max(slowest, (time.time() - since, command))


def note_stop(event):
    """The breakpoint or signal of the user that stopped the program, if one did."""
    global hit
    hit = event if isinstance(event, (gdb.BreakpointEvent, gdb.SignalEvent)) else None


def ask(question):
    return gdb.execute("monitor " + question, to_string=True).strip()


def position():
    """Function and line, as far as the debugger knows them."""
    frame = gdb.newest_frame()
    line = frame.find_sal().line
    return "%s:%d" % (frame.name() or "?", line)


def state():
    """All that must be the same whenever the program is here. Symbols of addresses are left out: they depend on what the debugger has read so far."""
    return ask("when"), ask("hash"), SYMBOL.sub("", gdb.execute("info all-registers", to_string=True))


def told(one, other):
    """The difference of two states."""
    if one[:2] != other[:2]:
        return "%s and %s" % (one[:2], other[:2])
    lines = zip(one[2].splitlines(), other[2].splitlines())
    return "; ".join("%s and %s" % pair for pair in lines if pair[0] != pair[1])[:300]


def check_same(seen, now, what):
    check(seen == now, "%s: state differs: %s" % (what, told(seen, now)))


def fact(what, shown=()):
    values = ["%s = %s" % (one, gdb.parse_and_eval(one)) for one in shown]
    say("fact", " ".join([what, position()] + values))


def begin():
    gdb.execute("delete")
    if LIVE:
        run("starti")
    else:
        run("seek begin")


def go_to(function, count=1):
    begin()
    run("break " + function)
    for _ in range(count):
        run("continue")
    gdb.execute("delete")


def passes(signals):
    """From here on, these signals do not stop the program."""
    gdb.execute("handle %s nostop noprint pass" % signals, to_string=True)


def stops(function, count, *shown):
    """Stops at a function a number of times. Goes back over these stops to the beginning, and forwards again."""
    begin()
    run("break " + function)
    seen = []
    for number in range(count):
        run("continue")
        if LIVE:
            fact(function, shown)
            continue
        if hit is None:
            return check(False, "break %s: stop %d of %d is not come to, but %s" % (function, number, count, position()))
        fact(function, shown)
        seen.append((state(), run("backtrace 5")))
    if LIVE:
        return
    for number in reversed(range(count - 1)):
        run("reverse-continue")
        now = state()
        check_same(seen[number][0], now, "back to stop %d of %s" % (number, function))
        trace = run("backtrace 5")
        check(trace == seen[number][1], "back at stop %d of %s the backtrace is %s not %s" % (number, function, trace, seen[number][1]))
    run("reverse-continue")
    check(hit is None and ask("begins") == "yes", "before the first stop at %s there is not the beginning but %s" % (function, position()))
    run("continue")
    check_same(seen[0][0], state(), "to the first stop of %s again" % function)


def instructions(command, count, function, visit=1):
    """Goes on from a visit of a function by a number of instructions, or as many as there are, and back to exactly the same places."""
    if LIVE:
        return
    go_to(function, visit)
    caller = gdb.newest_frame().older()
    behind = caller and caller.pc()
    seen = [state()]
    for _ in range(count):
        run(command)
        if gdb.newest_frame().pc() == behind:
            run("reverse-stepi")
            break
        seen.append(state())
    for number in reversed(range(len(seen) - 1)):
        run("reverse-" + command)
        check_same(seen[number], state(), "reverse-%s %d of %d from %s" % (command, number, len(seen), function))


def lines(command, count, function, visit=1, shown=()):
    """Goes on from a visit of a function line by line, and back. Only a debugger knows where lines begin when it goes backwards: gdb shows that where
    it records the program itself."""
    go_to(function, visit)
    if LIVE:
        run("record full")
    for _ in range(count):
        run(command)
        fact(command, shown)
    # Not to the first stop: gdb has recorded nothing before it.
    for _ in range(count - 1):
        before = None if LIVE else state()
        place = position()
        run("reverse-" + command)
        fact("reverse-" + command, shown)
        check(LIVE or state() != before, "reverse-%s from %s stays where it is" % (command, place))
    if LIVE:
        run("record stop")


def finishes(function, visit=1, value=True):
    """Goes out of a function, forwards and backwards."""
    go_to(function, visit)
    caller = gdb.newest_frame().older().name()
    run("finish")
    if value:
        say("fact", "finish %s" % gdb.history(0))
    check(gdb.newest_frame().name() == caller, "finish of %s leads to %s" % (function, position()))
    if LIVE:
        return
    go_to(function, visit)
    run("reverse-finish")
    check(gdb.newest_frame().name() == caller, "reverse-finish of %s leads to %s" % (function, position()))
    run("stepi")
    # A call through a table of addresses enters the table first.
    check(gdb.newest_frame().name() in (function, function + "@plt"), "behind reverse-finish of %s comes %s" % (function, position()))


def runs_until(function, visit=1):
    """`until` leaves a loop, `advance` comes to a line."""
    go_to(function, visit)
    for _ in range(4):
        run("until")
        fact("until")


def watches(expression, count):
    """A variable changes a number of times: it has the same values forwards and backwards."""
    go_to("main")
    run("watch -location " + expression)
    values = [str(gdb.parse_and_eval(expression))]
    seen = []
    for _ in range(count):
        run("continue")
        check(hit is not None, "watch %s from %s: %s" % (expression, values[-1], position()))
        values.append(str(gdb.parse_and_eval(expression)))
        fact("watch", [expression])
        seen.append(None if LIVE else state())
    if LIVE:
        return
    for old, new in reversed(list(zip(values, values[1:]))):
        run("reverse-continue")
        check(hit is not None, "watch %s backwards from %s: %s" % (expression, new, position()))
        now = str(gdb.parse_and_eval(expression))
        check(now == old, "watch %s backwards: %s, not %s" % (expression, now, old))
    for one in seen:
        run("continue")
        check_same(one, state(), "watch %s forwards again" % expression)


def corrupted(expression, culprit, crash="crash"):
    """Goes from the end back to the last write of this expression."""
    if LIVE:
        return
    gdb.execute("delete")
    run("seek " + crash)
    end = state()
    run("watch -location " + expression)
    # The signal in between is one more stop.
    for _ in range(2):
        run("reverse-continue")
        if isinstance(hit, gdb.BreakpointEvent):
            break
    names, frame = [], gdb.newest_frame()
    while frame is not None:
        names.append(frame.name())
        frame = frame.older()
    check(culprit in names, "the last write to %s is in %s" % (expression, names))
    gdb.execute("delete")
    run("seek " + crash)
    check_same(end, state(), "the end again")


def calls(function, expression, value, visit=1):
    """A function of the program, called by hand, returns this value and changes nothing."""
    go_to(function, visit)
    seen = None if LIVE else state()
    got = str(gdb.parse_and_eval(expression))
    check(got == value, "%s is %s, not %s" % (expression, got, value))
    if not LIVE:
        run("stepi")
        run("reverse-stepi")
        check_same(seen, state(), "call %s" % expression)


def shows(function, expression, value, visit=1):
    """A value, such as that of a register, at a visit of a function."""
    go_to(function, visit)
    got = str(gdb.parse_and_eval(expression))
    check(got == value, "%s is %s, not %s" % (expression, got, value))


def looks(function, visit=1, threads=1):
    """Threads, registers and mappings show nothing of the runtime."""
    if LIVE:
        return
    go_to(function, visit)
    text = run("info threads")
    check(len(gdb.selected_inferior().threads()) >= threads, "threads: " + text)
    every = run("thread apply all backtrace 4")
    mappings = run("info proc mappings")
    registers = run("info registers")
    check("rip" in registers and int(gdb.parse_and_eval("$gs_base")) == 0, "registers: " + registers)
    check("[stack]" in mappings and "r-xp" in mappings, mappings)
    for name, printed in (("threads", text), ("backtraces", every), ("mappings", mappings), ("registers", registers)):
        hidden = HIDDEN.search(printed)
        check(hidden is None, "%s show the runtime at %s" % (name, hidden and hidden.group()))


def known_states():
    """What another session of the same recording saw, by place."""
    if not STATES or not os.path.exists(STATES):
        return {}
    with open(STATES) as file:
        return {(mark, trail): tuple(seen) for mark, trail, seen in json.load(file)}


def keep_states(seen):
    if STATES and not os.path.exists(STATES):
        with open(STATES, "w") as file:
            json.dump([[mark, trail, now] for (mark, trail), now in seen.items()], file)


def seeks():
    """Goes to random places, and from each some instructions on and back. At equal marks the states must be equal."""
    chosen = random.Random(7)
    gdb.execute("delete")
    run("seek exit")
    length = float(re.search(r"ended at ([\d.]+) s", ask("elapsed")).group(1))
    first = float(re.search(r"about ([\d.]+) s", (run("seek begin"), ask("elapsed"))[1]).group(1))
    places = ["%fs" % chosen.uniform(first, length) for _ in range(min(MOST_PLACES, SEEKS // VISITS + 1))]
    seen, again = known_states(), 0
    for _ in range(SEEKS):
        run("seek " + chosen.choice(places))
        # Two places have the number of the last event.
        when = ask("when")
        mark = when + (", the end" if ask("ends") == "yes" else "")
        for trail in list(range(STEPS_FROM_PLACE)) + list(reversed(range(STEPS_FROM_PLACE - 1))):
            now = state()
            again += (mark, trail) in seen
            check_same(seen.setdefault((mark, trail), now), now, "seek to %s and %d on" % (mark, trail))
            # Nothing comes after the end.
            if trail == STEPS_FROM_PLACE - 1 or now[0] != when or ask("ends") == "yes":
                break
            run("stepi")
        if again % 2:
            run("reverse-stepi")
    keep_states(seen)
    say("seeks", "%d places %d known %d" % (SEEKS, len(seen), again))


def main():
    gdb.events.stop.connect(note_stop)
    gdb.execute("set width 0")
    gdb.execute("set height 0")
    gdb.execute("set confirm off")
    gdb.execute("set breakpoint pending on")
    try:
        with open(os.environ["RETAKE_TOUR"]) as tour:
            for line in tour.read().splitlines():
                try:
                    exec(line, globals())
                except gdb.error as error:
                    check(False, "%s: %s" % (line, error))
                    if LIVE or not gdb.selected_inferior().pid:
                        break
        if SEEKS and not LIVE:
            seeks()
    except Exception as error:
        check(False, "%s: %s" % (type(error).__name__, error))
    say("slowest", "%.2f %s" % slowest)
    say("checks", str(checks))
    if LIVE:
        gdb.execute("kill")
    sys.stdout.flush()


main()
