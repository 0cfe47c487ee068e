//! `retake debug` across the execution of programs, in both directions.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs::is_lacking;

/// Executes the program in its argument, from its first thread. A variant does so from another
/// thread.
const FIRST: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
char **rest;
int prepared;
static void *execute(void *unused)
{
	prepared = 7;
	execv(rest[0], rest);
	perror(rest[0]);
	return NULL;
}
int main(int argc, char **argv)
{
	rest = argv + 1;
	printf("first\n");
	fflush(stdout);
#ifdef THREAD
	pthread_t thread;
	pthread_create(&thread, NULL, execute, NULL);
	pthread_join(thread, NULL);
#else
	execute(NULL);
#endif
	return 1;
}
"#;

const SECOND: &str = r#"
#include <stdio.h>
int calls;
int called(int x)
{
	calls++;
	return x;
}
int main(int argc, char **argv)
{
	for (int i = 0; i < 3; i++)
		called(i);
	printf("second %d\n", argc);
	return 4;
}
"#;

fn executing(test: &str, options: &[&str]) -> Option<Place> {
    if is_lacking("gdb") {
        return None;
    }
    let place = Place::new(test);
    let first = compile(&place, "first", FIRST, options);
    let second = compile(&place, "second", SECOND, &[]);
    let shell = place.work("start");
    std::fs::write(&shell, format!("exec {first} {second} argument\n")).unwrap();
    record(&place, &["sh", &shell.to_string_lossy()]);
    Some(place)
}

#[test]
fn the_programs_of_a_process_follow_each_other() {
    let Some(place) = executing("exec-forwards", &[]) else { return };
    let commands = [
        "catch exec",
        "continue",
        "break main",
        "continue",
        "print prepared",
        "delete 2",
        "continue",
    ];
    let rest =
        ["break called", "continue", "continue", "print calls", "delete", "continue", "continue"];
    let text = gdb(&place, &["-p", "sh"], &[&commands[..], &rest].concat());
    in_order(
        &text,
        &[
            "is executing new program",
            "/first",
            "(exec'd",
            "main (argc=3",
            "$1 = 0",
            "/second",
            "(exec'd",
            "called (x=0)",
            "called (x=1)",
        ],
    );
    in_order(
        &text,
        &["called (x=1)", "$2 = 1", "No more reverse-execution history", "exited with code 04"],
    );
}

#[test]
fn without_a_catchpoint_programs_just_go_on() {
    let Some(place) = executing("exec-on", &[]) else { return };
    let text = gdb(
        &place,
        &["-p", "first"],
        &[
            "set breakpoint pending on",
            "break called",
            "continue",
            "print calls",
            "reverse-continue",
        ],
    );
    in_order(
        &text,
        &["executing new program", "called (x=0)", "$1 = 0", "No more reverse-execution history"],
    );
}

#[test]
fn back_over_the_programs_of_a_process() {
    let Some(place) = executing("exec-backwards", &[]) else { return };
    let back = [
        "catch exec",
        "reverse-continue",
        "print prepared",
        "bt",
        "break execute",
        "reverse-continue",
        "reverse-next",
        "print prepared",
    ];
    let again = [
        "delete 2",
        "reverse-continue",
        "info inferiors",
        "reverse-continue",
        "reverse-continue",
        "continue",
        "continue",
        "continue",
        "stdout",
    ];
    let text = gdb(&place, &["--at", "exit"], &[&back[..], &again].concat());
    in_order(
        &text,
        &[
            "(exec'd",
            "/first",
            "$1 = 7",
            "execute (",
            "main (argc=3",
            "execute (",
            "$2 = 0",
            "(exec'd",
            "/sh",
            "No more reverse",
        ],
    );
    in_order(&text, &["No more reverse", "/first", "/second", "No more reverse", "second 2"]);
}

/// The executing thread's stream goes on, and the first thread's stream ends.
#[test]
fn a_thread_that_is_not_the_first_executes() {
    let Some(place) = executing("exec-thread", &["-DTHREAD"]) else { return };
    let commands = [
        "catch exec",
        "reverse-continue",
        "print prepared",
        "bt",
        "continue",
        "break called",
        "continue",
        "print calls",
    ];
    let text = gdb(&place, &["--at", "exit"], &commands);
    in_order(
        &text,
        &[
            "(exec'd",
            "/first",
            "$1 = 7",
            "execute (",
            "(exec'd",
            "/second",
            "called (x=0)",
            "$2 = 0",
        ],
    );
    let text = gdb(
        &place,
        &["-p", "first"],
        &[
            "break main",
            "continue",
            "break execute",
            "set breakpoint pending on",
            "break called",
            "continue",
            "print prepared",
            "continue",
            "continue",
            "print calls",
        ],
    );
    in_order(&text, &["execute (", "$1 = 0", "executing new program", "called (x=0)", "$2 = 0"]);
}

/// A forked child without an exec reads through a null pointer, three functions deep. It is forked
/// by the first thread or by another one.
const FORKED: &str = r#"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static int *volatile nothing;
__attribute__((noinline)) static int innermost(int value) { return *nothing + value; }
__attribute__((noinline)) static int middle(int value) { return innermost(value + 1) + 1; }
__attribute__((noinline)) static int outermost(int value) { return middle(value + 1) + 1; }
static void *make(void *unused)
{
	pid_t child = fork();
	if (!child)
		_exit(outermost(1));
	waitpid(child, NULL, 0);
	return unused;
}
int main(int argc, char **argv)
{
	(void)argv;
	pthread_t thread;
	if (argc < 2)
		return make(NULL) != NULL;
	pthread_create(&thread, NULL, make, NULL);
	return pthread_join(thread, NULL);
}
"#;

/// The auxiliary vector is not at the child's stack pointer.
#[test]
fn a_forked_child_has_the_symbols_of_its_program() {
    if is_lacking("gdb") {
        return;
    }
    let place = Place::new("debug-forked");
    let program = compile(&place, "forked", FORKED, &["-pie", "-fpie"]);
    for arguments in [&[program.as_str()][..], &[&program, "thread"]] {
        record(&place, arguments);
        let text = gdb(&place, &["--at", "crash"], &["backtrace", "print nothing"]);
        in_order(
            &text,
            &["innermost (value=3)", "middle (value=2)", "outermost (value=1)", "make"],
        );
        assert!(text.contains("= (int * volatile) 0x0"), "{text}");
        let text = place.run(&["backtrace"]).stdout;
        in_order(&text, &["innermost", "middle", "outermost", "make"]);
    }
}
