//! `retake debug`: stops at system calls, signals, children and exceptions, in both directions.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, compile_cpp, gdb, in_order, record};
use retake_testing::needs;
use retake_testing::needs::is_lacking;

/// Makes children by fork and vfork with writes between, and gets signals.
const CAUGHT: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int born, handled;
static void handler(int number) { handled++; }
int stop(int x) { return x + 1; }
int main(void)
{
	signal(SIGUSR1, handler);
	signal(SIGALRM, handler);
	for (int i = 0; i < 3; i++) {
		if (fork() == 0)
			_exit(i);
		born++;
		wait(NULL);
	}
	write(1, "between\n", 8);
	if (vfork() == 0)
		_exit(0);
	wait(NULL);
	for (int i = 0; i < 3; i++) {
		raise(SIGALRM);
		raise(SIGUSR1);
	}
	write(1, "done\n", 5);
	return stop(handled);
}
"#;

const QUIET: &str = "handle SIGUSR1 nostop noprint pass";

fn caught(test: &str) -> Option<Place> {
    if is_lacking("gdb") {
        return None;
    }
    let place = Place::new(test);
    let program = compile(&place, "caught", CAUGHT, &[]);
    record(&place, &[&program]);
    Some(place)
}

#[test]
fn system_calls_are_caught_both_ways() {
    let Some(place) = caught("catch-calls") else { return };
    let commands = [
        QUIET,
        "catch syscall write",
        "continue",
        "print $rdi",
        "continue",
        "print $rax",
        "continue",
        "continue",
        "break stop",
        "continue",
        "delete 2",
        "reverse-continue",
        "print $rax",
        "reverse-continue",
        "reverse-stepi",
        "x/i $pc",
        "continue",
        "reverse-continue",
        "reverse-continue",
        "delete",
        "catch syscall",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "(call to syscall write)",
            "$1 = 1",
            "(returned from syscall write)",
            "$2 = 8",
            "(call to",
            "(returned from",
            "stop (x=6)",
        ],
    );
    in_order(
        &text,
        &[
            "stop (x=6)",
            "(returned from syscall write)",
            "$3 = 5",
            "(call to syscall write)",
            "syscall",
            "(call to syscall write)",
        ],
    );
    in_order(
        &text,
        &[
            "$3 = 5",
            "(call to",
            "(call to",
            "(returned from syscall write)",
            "(call to syscall write)",
            "any syscall",
            "(returned from syscall write)",
        ],
    );
}

#[test]
fn children_are_caught_both_ways() {
    let Some(place) = caught("catch-children") else { return };
    let forth = [
        QUIET,
        "catch fork",
        "catch vfork",
        "continue",
        "print born",
        "continue",
        "continue",
        "print born",
        "continue",
        "continue",
    ];
    let back = [
        "reverse-continue",
        "reverse-continue",
        "print born",
        "reverse-stepi",
        "continue",
        "delete",
        "break main",
        "reverse-continue",
    ];
    let text = gdb(&place, &[], &[&forth[..], &back].concat());
    in_order(
        &text,
        &[
            "(forked process",
            "$1 = 0",
            "(forked process",
            "(forked process",
            "$2 = 2",
            "(vforked process",
            "No more reverse",
        ],
    );
    in_order(
        &text,
        &[
            "No more reverse",
            "(vforked process",
            "(forked process",
            "$3 = 2",
            "(forked process",
            "main () at",
        ],
    );
}

/// SIGALRM is a signal that gdb passes on silently.
#[test]
fn signals_are_caught_both_ways() {
    let Some(place) = caught("catch-signals") else { return };
    let forth = [
        QUIET,
        "catch signal SIGUSR1",
        "continue",
        "print handled",
        "continue",
        "print handled",
        "delete",
    ];
    let back = [
        "continue",
        "reverse-continue",
        "catch signal SIGALRM",
        "continue",
        "continue",
        "reverse-continue",
        "print handled",
        "stepi",
        "print $pc == handler",
    ];
    let text = gdb(&place, &[], &[&forth[..], &back].concat());
    in_order(
        &text,
        &[
            "(signal SIGUSR1)",
            "$1 = 1",
            "(signal SIGUSR1)",
            "$2 = 3",
            "No more reverse",
            "No more reverse",
        ],
    );
    in_order(
        &text,
        &["$2 = 3", "(signal SIGALRM)", "(signal SIGALRM)", "(signal SIGALRM)", "$3 = 0", "$4 = 1"],
    );
}

const THROWS: &str = r#"
#include <stdexcept>
int caught;
int risky(int x)
{
	if (x % 2)
		throw std::runtime_error("odd");
	return x;
}
int main()
{
	int sum = 0;
	for (int i = 0; i < 4; i++) {
		try {
			sum += risky(i);
		} catch (const std::exception &) {
			caught++;
		}
	}
	return sum;
}
"#;

#[test]
fn exceptions_are_caught_both_ways() {
    needs!("gdb");
    let place = Place::new("catch-exceptions");
    let program = compile_cpp(&place, "throws", THROWS, &[]);
    record(&place, &[&program]);
    let forth = [
        "break main",
        "continue",
        "catch throw",
        "catch catch",
        "continue",
        "up",
        "print x",
        "continue",
        "print caught",
        "continue",
    ];
    let back = [
        "continue",
        "print caught",
        "reverse-continue",
        "print caught",
        "reverse-continue",
        "reverse-continue",
        "print caught",
    ];
    let text = gdb(&place, &[], &[&forth[..], &back].concat());
    in_order(
        &text,
        &[
            "(exception thrown)",
            "risky",
            "$1 = 1",
            "(exception caught)",
            "$2 = 0",
            "(exception thrown)",
            "(exception caught)",
            "$3 = 1",
        ],
    );
    in_order(
        &text,
        &[
            "$3 = 1",
            "(exception thrown)",
            "$4 = 1",
            "(exception caught)",
            "(exception thrown)",
            "$5 = 0",
        ],
    );
}

/// A hit of one of several breakpoints must not make the debugger skip stretches with others. This
/// holds in both directions, and when they alternate.
#[test]
fn stretches_that_are_passed_over_have_no_stop() {
    let Some(place) = caught("catch-passed") else { return };
    let all = ["reverse-continue"; 8];
    let count = |commands: &[&str], what: &str| {
        gdb(&place, &["--at", "exit"], commands).matches(what).count()
    };
    assert_eq!(count(&[&[QUIET, "break handler"], &all[..]].concat(), "handler (number="), 6);
    let both = [
        &[
            QUIET,
            "break handler",
            "break stop",
            "reverse-continue",
            "seek begin",
            "continue",
            "seek exit",
        ],
        &all[..],
    ]
    .concat();
    assert_eq!(count(&both, "handler (number="), 1 + 6);
    // Signals before a breakpoint are found, even if gdb has not yet seen any.
    let signals = [
        &[QUIET, "break stop", "reverse-continue", "delete", "handle SIGUSR1 stop print"],
        &all[..],
    ]
    .concat();
    assert_eq!(count(&signals, "received signal SIGUSR1"), 3);
    let other = [
        QUIET,
        "break handler",
        "reverse-continue",
        "delete",
        "break main",
        "reverse-continue",
        "reverse-continue",
    ];
    assert_eq!(count(&other, "main () at"), 1);
}

#[test]
fn one_instruction_back_from_where_a_signal_came() {
    let Some(place) = caught("catch-signal-steps") else { return };
    let text = gdb(
        &place,
        &[],
        &["continue", "reverse-stepi", "x/i $pc", "stepi", "stepi", "print $pc == handler"],
    );
    in_order(
        &text,
        &[
            "received signal SIGUSR1",
            "syscall",
            "received signal SIGUSR1",
            "handler (number=",
            "= 1",
        ],
    );
}
