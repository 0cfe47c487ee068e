//! `retake debug`: real gdb on replays of small programs.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{PLAIN, compile, gdb, in_order, record};
use retake_testing::needs;

/// Three threads take turns to change a variable. Before that, a signal comes.
const THREADS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int shared, handled;
__thread int mine;
static void handler(int number) { handled = number; }
static void *worker(void *argument)
{
	mine = (int)(long)argument;
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&lock);
		shared += mine;
		pthread_mutex_unlock(&lock);
		usleep(100);
	}
	return NULL;
}
int main(void)
{
	pthread_t threads[3];
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return shared;
}
"#;

#[test]
fn breakpoints_values_and_the_end() {
    needs!("gdb");
    let place = Place::new("debug-plain");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let commands = [
        "break twice",
        "continue",
        "continue",
        "backtrace",
        "print x",
        "print counter",
        "finish",
        "delete",
        "continue",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "twice (x=0)",
            "twice (x=1)",
            "#0",
            "twice (x=1)",
            "#1",
            "main (argc=1",
            "= 1",
            "= 1",
            "Value returned is $3 = 2",
        ],
    );
    in_order(&text, &["No more reverse-execution history", "exited with code 03"]);
}

#[test]
fn a_crash_is_seen_where_it_happens() {
    needs!("gdb");
    let place = Place::new("debug-crash");
    let program = compile(&place, "plain", PLAIN, &["-O1", "-fno-inline"]);
    record(&place, &[&program, "crash"]);
    let text =
        gdb(&place, &[], &["continue", "backtrace", "print counter", "continue", "continue"]);
    in_order(
        &text,
        &[
            "SIGSEGV",
            "#0",
            "plain.c",
            "main",
            "= 10",
            "No more reverse-execution history",
            "terminated with signal SIGSEGV",
        ],
    );
}

#[test]
fn the_runtime_is_invisible() {
    needs!("gdb");
    let place = Place::new("debug-runtime");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let commands = [
        "break main",
        "continue",
        "break getpid",
        "continue",
        "x/2i $pc",
        "set $start = $pc",
        "stepi",
        "print $pc - $start",
        "stepi",
        "print $rax > 1",
        "x/x 0x550000000000",
        "info proc mappings",
        "info threads",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(&text, &["mov    $0x27,%eax", "syscall", "= 5", "= 1", "Cannot access memory"]);
    let is_ours = |line: &str| line.trim_start().starts_with("0x550") && line.contains("-p");
    assert!(!text.lines().any(is_ours) && text.contains("-p"), "{text}");
    // Each mapping has the name and the offset that the program mapped there, whether or not the
    // text is patched.
    let end_of = |line: &&str| line.trim_end().rsplit('/').next().map(str::to_owned);
    let code: Vec<&str> = text.lines().filter(|line| line.contains("r-xp")).collect();
    let of = |name: &str| {
        code.iter().filter(|line| end_of(line).is_some_and(|end| end.starts_with(name))).count()
    };
    assert!(
        of("plain") > 0 && of("libc") > 0 && of("ld-") > 0 && text.contains("[stack]"),
        "{text}"
    );
    let is_first_part =
        |line: &&&str| line.contains(".so") && line.split_whitespace().nth(3) == Some("0x0");
    assert_eq!(code.iter().filter(is_first_part).count(), 0, "{text}");
}

#[test]
fn threads_signals_and_watchpoints() {
    needs!("gdb");
    let place = Place::new("debug-threads");
    let program = compile(&place, "threads", THREADS, &[]);
    record(&place, &[&program]);
    let commands = [
        "continue",
        "break handler",
        "continue",
        "backtrace",
        "break worker",
        "continue",
        "info threads",
        "backtrace",
        "delete",
        "watch shared",
        "continue",
        "continue",
        "delete",
        "next",
        "next",
        "continue",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "received signal SIGUSR1",
            "handler (number=10)",
            "<signal handler called>",
            "main ()",
            "worker (argument=",
        ],
    );
    in_order(
        &text,
        &[
            "worker (argument=",
            "Thread 1.",
            "start_thread",
            "Old value = 0",
            "New value",
            "exited with code 036",
        ],
    );
}

#[test]
fn backwards_over_breakpoints_and_steps() {
    needs!("gdb");
    let place = Place::new("debug-back");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program, "crash"]);
    let commands = [
        "continue",
        "break twice",
        "reverse-continue",
        "print x",
        "reverse-continue",
        "print x",
        "continue",
        "print x",
        "delete",
        "reverse-finish",
        "reverse-next",
        "print i",
        "break main",
        "reverse-continue",
        "info breakpoints",
        "delete",
        "reverse-continue",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "SIGSEGV",
            "twice (x=9)",
            "= 9",
            "twice (x=8)",
            "= 8",
            "twice (x=9)",
            "= 9",
            "main (argc=2",
        ],
    );
    in_order(
        &text,
        &[
            "breakpoint already hit 1 time",
            "No more reverse-execution history",
            "_start",
            "SIGSEGV",
        ],
    );
}

#[test]
fn backwards_one_instruction_at_a_time() {
    needs!("gdb");
    let place = Place::new("debug-back-steps");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    // Forwards over a system call and back again, the registers must be the same at the same
    // places.
    let show = "printf \"at %lx %lx %lx %lx\\n\", $pc, $rsp, $rax, $rdi";
    let steps = 6;
    let mut commands = vec!["break getpid", "continue", show];
    commands.extend(["stepi", show].repeat(steps));
    commands.push("echo and back\\n");
    commands.extend(["reverse-stepi", show].repeat(steps));
    let text = gdb(&place, &[], &commands);
    let (forth, back) = text.split_once("and back").unwrap();
    let places = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("at ")).map(str::to_owned).collect()
    };
    let (forth, mut back) = (places(forth), places(back));
    back.reverse();
    assert_eq!((forth.len(), &forth[..steps]), (steps + 1, &back[..]), "{text}");
}

#[test]
fn backwards_to_what_wrote_a_variable() {
    needs!("gdb");
    let place = Place::new("debug-last");
    let program = compile(&place, "threads", THREADS, &[]);
    record(&place, &[&program]);
    let commands = [
        "seek end",
        "print shared",
        "watch shared",
        "reverse-continue",
        "reverse-continue",
        "info threads",
        "delete",
        "last shared",
        "print mine >= 1 && mine <= 3",
        "last handled",
        "backtrace",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "= 30",
            "Old value = 30",
            "New value = 2",
            "Old value = 2",
            "New value = 2",
            "worker",
            "handler (number=10)",
        ],
    );
    in_order(
        &text,
        &[
            "handler (number=10)",
            "<signal handler called>",
            "main ()",
            "No more reverse-execution history",
        ],
    );
}

#[test]
fn places_by_event_and_checkpoints() {
    needs!("gdb");
    let place = Place::new("debug-seek");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let commands = [
        "break twice",
        "continue",
        "checkpoint",
        "seek end",
        "when",
        "seek 10",
        "when",
        "seek 20",
        "when",
        "seek begin",
        "when",
        "restart 1",
        "print x",
        "info checkpoints",
        "seek nowhere",
        "info recording",
        "continue",
        "print x",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "twice (x=0)",
            "checkpoint 1 at event",
            "_exit",
            "event 10 of thread",
            "event 20 of thread",
            "_start",
            "event 2 of",
        ],
    );
    in_order(
        &text,
        &["event 2 of thread", "twice (x=0)", "= 0", "1  event", "plain", "twice (x=1)", "= 1"],
    );
    assert!(text.contains("is not a place"), "{text}");
}

#[test]
fn a_process_of_a_tree_is_chosen() {
    needs!("gdb");
    let place = Place::new("debug-tree");
    let program = compile(&place, "plain", PLAIN, &[]);
    let script = format!("true; {program}; {program} crash; exit 0");
    record(&place, &["sh", "-c", &script]);
    // Without `-p`, the process that crashed is debugged.
    let text = gdb(&place, &[], &["continue", "backtrace 1"]);
    in_order(&text, &["SIGSEGV", "follow (node="]);
    let text = gdb(
        &place,
        &["-p", "plain"],
        &["break twice", "continue", "delete", "continue", "continue"],
    );
    in_order(&text, &["twice (x=0)", "exited with code 03"]);
    let text = gdb(&place, &["-p", "sh"], &["continue", "continue"]);
    assert!(text.contains("exited normally"), "{text}");
    place.run_badly(&["debug", "-p", "nobody"], 125, &["no process", "retake ps"]);
}

const LAZY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
char *text;
int length(void) { return strlen(text); }
int main(void)
{
	text = strdup("three");
	printf("%d\n", length());
	fflush(stdout);
	text = NULL;
	return length();
}
"#;

/// The dynamic linker binds each function at its first call. Going back begins where gdb's
/// breakpoints are in code that is not mapped yet.
#[test]
fn back_over_calls_that_are_bound_on_the_way() {
    needs!("gdb");
    let place = Place::new("debug-lazy");
    let program = compile(&place, "lazy", LAZY, &["-Wl,-z,lazy"]);
    record(&place, &[&program]);
    let back = ["reverse-next"; 4];
    let text = gdb(
        &place,
        &[],
        &[
            &["break main", "continue", "next", "next", "next", "next"][..],
            &back,
            &["next", "print text", "bt"],
        ]
        .concat(),
    );
    in_order(&text, &["text = strdup", "printf", "fflush", "text = NULL", "return length"]);
    in_order(
        &text,
        &[
            "return length",
            "text = NULL",
            "fflush",
            "printf",
            "text = strdup",
            "printf",
            "\"three\"",
            "main () at",
        ],
    );
}
