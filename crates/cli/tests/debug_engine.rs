//! `retake debug`: features that only the engine behind gdb has.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{BUSY, CALLED, compile, gdb, in_order, record};
use retake_testing::needs;
use std::collections::BTreeSet;

#[test]
fn changes_and_calls_go_to_a_copy() {
    needs!("gdb");
    let place = Place::new("debug-diversion");
    let program = compile(&place, "called", CALLED, &[]);
    record(&place, &[&program]);
    let left = place.work("left");
    let leave = format!("print leave(\"{}\")", left.display());
    let commands = [
        "break stop",
        "continue",
        "print add(5)",
        "print counter",
        "print half(3.0)",
        "print say(\"hello\")",
        &leave,
        "print large()",
        "print (int)strlen(\"four\")",
        "print $xmm3.v4_int32[1] = 77",
        "print $xmm3.v4_int32[1]",
        "print x = 3",
        "set var counter = 70",
        "print add(x)",
        "break add",
        "print add(1)",
        "finish",
        "delete",
        "reverse-stepi",
        "print counter",
        "call quit()",
        "continue",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "stop (x=", "= 15", "= 15", "= 1.5", "= 11", "= -1", "= 1\n", "= 4", "= 77", "= 77",
            "= 3", "= 73",
        ],
    );
    in_order(
        &text,
        &["= 73", "add (x=1)", "Value returned", "= 74", "= 10\n", "exited with code 012"],
    );
    assert!(
        text.contains("said hello")
            && text.contains("openat is not executed")
            && text.contains("exit_group would end the program"),
        "{text}"
    );
    assert!(!left.exists());
}

/// Keeps data on the stack below `main` while it computes.
const STACKED: &str = r#"
int add(int x) { return x + 1; }
int stop(int x) { return x; }
__attribute__((noinline)) int deep(void)
{
	volatile char area[4096];
	int sum = 0;
	for (int i = 0; i < 4096; i++)
		area[i] = 1;
	stop(1);
	for (int i = 0; i < 4096; i++)
		sum += area[i];
	return sum;
}
int main(void)
{
	stop(0);
	return deep() / 64;
}
"#;

/// gdb keeps the breakpoint at such a function's return address. It is on the stack, where the
/// program has data.
#[test]
fn a_called_function_that_never_returns_leaves_no_trap() {
    needs!("gdb");
    let place = Place::new("debug-unreturned");
    let program = compile(&place, "stacked", STACKED, &[]);
    record(&place, &[&program]);
    let commands = [
        "break stop",
        "continue",
        "up",
        "break add",
        "print add(5)",
        "continue",
        "continue",
        "finish",
        "finish",
        "continue",
    ];
    let text = gdb(&place, &[], &[&commands[..], &["continue", "print $_exitcode"]].concat());
    in_order(
        &text,
        &[
            "stop (x=0)",
            "add (x=5)",
            "stop (x=1)",
            "Value returned is $1 = 1",
            "Value returned is $2 = 4096",
            "exited with code 0100",
        ],
    );
}

#[test]
fn backwards_in_a_busy_computation() {
    needs!("gdb");
    let place = Place::new("debug-busy");
    let program = compile(&place, "busy", BUSY, &[]);
    record(&place, &[&program, "5000000"]);
    let commands = [
        "break done",
        "continue",
        "delete",
        "reverse-finish",
        "reverse-stepi",
        "break mix",
        "reverse-continue",
        "print i",
        "reverse-continue",
        "print i",
        "delete",
        "reverse-stepi",
        "reverse-stepi",
        "stepi",
        "stepi",
        "print $pc == mix || i == 4999998",
        "reverse-finish",
        "reverse-next",
        "reverse-next",
        "print i",
        "last once",
        "print i",
        "break mix if i == 7",
        "reverse-continue",
        "print i",
        "delete",
        "break mix if x == 1 && i == 77",
        "break done",
        "continue",
        "print total != 0",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "done (x=",
            "mix (x=",
            "i=4999999",
            "= 4999999",
            "i=4999998",
            "= 4999998",
            "= 1\n",
            "= 4999997",
        ],
    );
    in_order(&text, &["= 4999997", "= 100000\n", "mix (x=", "i=7)", "= 7\n", "done (x=", "= 1\n"]);
}

/// Moves about in a recording at random, and compares the state at each place with the state on
/// earlier visits. Returns the number of moves that came to a known place.
fn walk(place: &Place, events: u64, seeks: u64) -> u64 {
    let script = place.work("walk.py");
    let text = format!(
        r#"
import gdb, random
random.seed(7)
known, again = {{}}, 0
def ask(what):
    return gdb.execute("monitor " + what, to_string=True).strip()
def note():
    global again
    key = (event, trail)
    state = (ask("hash"), ask("when"), int(gdb.parse_and_eval("$pc")))
    if known.setdefault(key, state) != state:
        raise gdb.GdbError("another state at %s: %s %s" % (key, known[key], state))
    again += 1
for number in range({seeks}):
    event = random.choice(range(2, {events}))
    gdb.execute("seek %d" % event, to_string=True)
    trail = 0
    note()
    forth = random.randrange(4)
    for trail in range(1, forth + 1):
        gdb.execute("stepi", to_string=True)
        note()
    for trail in range(forth - 1, -1, -1):
        gdb.execute("reverse-stepi", to_string=True)
        note()
print("walked %d known %d" % (again, again - len(known)))
"#
    );
    std::fs::write(&script, text).unwrap();
    let source = format!("source {}", script.display());
    let printed = gdb(place, &[], &[&source]);
    let Some((_, rest)) = printed.split_once("walked ") else { panic!("{printed}") };
    let known = rest
        .split_once("known ")
        .and_then(|(_, number)| number.split_whitespace().next())
        .and_then(|number| number.parse().ok());
    known.unwrap_or_else(|| panic!("{printed}"))
}

/// Makes 100 seeks, or the number in RETAKE_SEEKS.
#[test]
fn the_state_is_the_same_at_the_same_place() {
    needs!("gdb");
    let place = Place::new("debug-walk");
    let program = compile(&place, "called", CALLED, &[]);
    record(&place, &[&program]);
    let seeks =
        std::env::var("RETAKE_SEEKS").ok().and_then(|count| count.parse().ok()).unwrap_or(100);
    let known = walk(&place, 30, seeks);
    assert!(known > seeks, "{known} of {seeks} seeks came to a known place");
}

const NAMED: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>
double wide[4] = { 1.5, 2.5, 3.5, 4.5 };
void here(void) {}
static void *worker(void *argument)
{
	prctl(PR_SET_NAME, "the-worker");
	here();
	return argument;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, worker, NULL);
	pthread_join(thread, NULL);
#ifdef __AVX__
	__asm__ volatile("vmovupd %0, %%ymm3" : : "m"(wide) : "xmm3");
#endif
	here();
	return 0;
}
"#;

#[test]
fn threads_have_names_and_vectors_are_whole() {
    needs!("gdb");
    let place = Place::new("debug-named");
    let has_avx = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" avx "));
    let options: &[&str] = if has_avx { &["-mavx"] } else { &[] };
    let program = compile(&place, "named", NAMED, options);
    record(&place, &[&program]);
    let commands = ["break here", "continue", "info threads", "continue", "print $ymm3.v4_double"];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["here ()", "(named)", "(the-worker)"]);
    assert!(!has_avx || text.contains("{1.5, 2.5, 3.5, 4.5}"), "{text}");
}

/// A register points to the handler while a signal interrupts the loop.
const ALARMS: &str = r#"
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>
volatile int hits;
static void handler(int number) { hits++; }
int main(void)
{
	struct itimerval timer = { { 0, 60000 }, { 0, 60000 } };
	volatile unsigned long rounds = 1;
	setitimer(ITIMER_REAL, &timer, NULL);
	signal(SIGALRM, handler);
	while (hits < 5)
		rounds++;
	return rounds == 0;
}
"#;

/// Breakpoints change bytes of memory. At a place between events, replay compares memory near the
/// registers; code must be left out.
#[test]
fn breakpoints_do_not_hide_where_a_signal_came() {
    needs!("gdb");
    let place = Place::new("debug-alarms");
    let program = compile(&place, "alarms", ALARMS, &[]);
    record(&place, &[&program]);
    let forth = [
        "handle SIGALRM nostop noprint pass",
        "break handler",
        "ignore 1 3",
        "continue",
        "print hits",
        "continue",
        "print hits",
    ];
    let back = [
        "delete",
        "continue",
        "print hits >= 5",
        "break handler",
        "reverse-continue",
        "print hits >= 4",
    ];
    // The copies made on the way are of a program that searches for the place of a signal.
    let further = [
        "set $n = hits",
        "reverse-continue",
        "print hits == --$n",
        "reverse-continue",
        "print hits == --$n",
    ];
    let last = ["reverse-continue", "print hits == --$n", "reverse-continue", "print hits == --$n"];
    let text = gdb(&place, &[], &[&forth[..], &back, &further, &last].concat());
    in_order(
        &text,
        &[
            "handler (number=14)",
            "$1 = 3\n",
            "$2 = 4\n",
            "No more reverse-execution history",
            "$3 = 1\n",
            "handler (number=14)",
            "$4 = 1\n",
        ],
    );
    in_order(&text, &["$4 = 1\n", "$5 = 1\n", "$6 = 1\n", "$7 = 1\n", "$8 = 1\n"]);
}

/// Makes code at run time that stores what CPUID says about its core.
const NOTICES_CORE: &str = r#"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static unsigned cores[8];
void end(void) {}
int main(void)
{
	/* push %rbx; mov $1,%eax; cpuid; mov %ebx,%eax; pop %rbx; ret */
	static const unsigned char code[] = "\x53\xb8\x01\x00\x00\x00\x0f\xa2\x89\xd8\x5b\xc3";
	void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(made, code, sizeof code);
	for (int i = 0; i < 8; i++) {
		cores[i] = ((unsigned (*)(void))made)();
		getpid();
	}
	end();
	return 0;
}
"#;

/// The program finds the same core, whichever way it gets there.
#[test]
fn code_that_notices_its_core_finds_one() {
    needs!("gdb");
    let place = Place::new("debug-core");
    let program = compile(&place, "core", NOTICES_CORE, &[]);
    record(&place, &[&program]);
    let again = ["seek begin", "continue", "monitor hash"];
    let text = gdb(&place, &[], &[&["break end"][..], &again.repeat(12)].concat());
    let hashes: BTreeSet<&str> = text
        .lines()
        .filter(|line| line.len() == 16 && line.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .collect();
    assert_eq!(hashes.len(), 1, "{text}");
    let text = gdb(
        &place,
        &["--at", "exit"],
        &[&["break end", "reverse-continue"][..], &["reverse-stepi"; 30], &["continue"]].concat(),
    );
    in_order(&text, &["Breakpoint 1, end", "Breakpoint 1, end"]);
}

/// After a called function has crashed, gdb keeps a breakpoint on the stack. That address is not
/// mapped where the program begins.
#[test]
fn breakpoints_after_a_called_function_has_crashed() {
    needs!("gdb");
    let place = Place::new("debug-crashed-call");
    let source = STACKED.replace("int add(int x) {", "int add(int x) { if (x < 0) *(int *)0 = 1;");
    let program = compile(&place, "stacked", &source, &[]);
    record(&place, &[&program]);
    let commands = [
        "break stop",
        "continue",
        "print add(-1)",
        "seek begin",
        "continue",
        "print x",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["SIGSEGV", "No more reverse-execution history", "stop (x=0)", "= 0"]);
    in_order(&text, &["= 0", "stop (x=1)"]);
    assert!(!text.contains("Cannot insert"), "{text}");
}

/// gdb lets go of a process that has exited.
#[test]
fn commands_after_the_exit_say_that_it_is_over() {
    needs!("gdb");
    let place = Place::new("debug-after-exit");
    let program = compile(&place, "stacked", STACKED, &[]);
    record(&place, &[&program]);
    let text = gdb(&place, &[], &["checkpoint", "continue", "continue", "restart 1", "seek begin"]);
    assert_eq!(
        text.matches("the process has ended, and this session with it").count(),
        2,
        "{text}"
    );
    assert!(!text.contains("Python Exception") && !text.contains("Traceback"), "{text}");
}
