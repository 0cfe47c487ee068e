//! `retake debug`: signals and watchpoints, also during single steps.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs;

/// Sends itself a signal, and dies of a second one.
const SIGNALLED: &str = r#"
#include <signal.h>
#include <unistd.h>
int self, handled, watched;
void handler(int number) { handled = number; }
int main(void)
{
	self = getpid();
	signal(SIGUSR1, handler);
	watched = 1;
	kill(self, SIGUSR1);
	watched = 2;
	*(volatile int *)0x10 = 0;
	return 0;
}
"#;

/// gdb shows the recorded siginfo of a signal, whichever way the program got there.
#[test]
fn what_the_kernel_said_about_a_signal() {
    needs!("gdb");
    let place = Place::new("debug-siginfo");
    let program = compile(&place, "signalled", SIGNALLED, &[]);
    record(&place, &[&program]);
    let sent = [
        "print $_siginfo.si_signo",
        "print $_siginfo.si_code",
        "print $_siginfo._sifields._kill.si_pid == self",
    ];
    let crashed = [
        "print $_siginfo.si_signo",
        "print $_siginfo.si_code",
        "print $_siginfo._sifields._sigfault.si_addr",
    ];
    let commands = [
        &["break main", "continue", "print $_siginfo", "continue"],
        &sent[..],
        &["continue"],
        &crashed,
        &["reverse-continue"],
        &sent,
        &["continue"],
        &crashed,
    ]
    .concat();
    let text = gdb(&place, &[], &commands);
    in_order(
        &text,
        &[
            "SIGUSR1",
            "$1 = 10\n",
            "$2 = 0\n",
            "$3 = 1\n", // forwards
            "SIGSEGV",
            "$4 = 11\n",
            "$5 = 1\n",
            "$6 = (void *) 0x10\n", //
            "SIGUSR1",
            "$7 = 10\n",
            "$8 = 0\n",
            "$9 = 1\n", // after going back
            "SIGSEGV",
            "$10 = 11\n",
            "$11 = 1\n",
            "$12 = (void *) 0x10\n",
        ],
    );
    assert!(text.contains("Unable to read siginfo"), "{text}");
}

/// Single steps back report the same signals and watchpoints as other ways back.
#[test]
fn single_steps_back_tell_of_signals_and_watchpoints() {
    needs!("gdb");
    let place = Place::new("debug-steps-tell");
    let program = compile(&place, "signalled", SIGNALLED, &["-Wl,-z,now"]);
    record(&place, &[&program]);
    let script = place.work("steps.py");
    std::fs::write(
        &script,
        "import gdb\n\
         for _ in range(200):\n\
         \x20   gdb.execute('reverse-stepi')\n\
         \x20   if gdb.parse_and_eval('watched') == 0:\n\
         \x20       break\n",
    )
    .unwrap();
    let source = format!("source {}", script.display());
    let forth = ["break main", "continue", "delete", "watch watched", "continue", "continue"];
    let text = gdb(&place, &[], &[&forth[..], &["continue", "continue", &source]].concat());
    in_order(
        &text,
        &[
            "New value = 2",
            "SIGSEGV",
            "Old value = 2",
            "New value = 1",
            "handler (number=10)",
            "SIGUSR1",
            "Old value = 1",
            "New value = 0",
        ],
    );
}

/// Uses up its stack, at an instruction that it has executed many times before.
const OVERFLOW: &str = r#"
int depth;
__attribute__((noinline)) int down(int n)
{
	volatile char room[4096];
	room[0] = n;
	depth++;
	return down(n + 1) + room[0];
}
int main(void) { return down(0); }
"#;

/// An instruction that a probe has displaced faults at its own address.
#[test]
fn back_from_where_the_stack_is_used_up() {
    needs!("gdb");
    let place = Place::new("debug-overflow");
    let program = compile(&place, "overflow", OVERFLOW, &["-O0"]);
    record(&place, &[&program]);
    let commands = [
        "continue",
        "set $crash = $pc",
        "set $depth = depth",
        "reverse-stepi",
        "print $pc == $crash",
        "reverse-stepi",
        "print $pc < $crash",
        "break down if depth == 3",
        "reverse-continue",
        "print depth",
        "delete",
        "continue",
        "print $pc == $crash && depth == $depth",
    ];
    let text = gdb(&place, &[], &commands);
    assert!(!text.contains("has not gone back"), "{text}");
    in_order(&text, &["SIGSEGV", "$1 = 1", "$2 = 1", "$3 = 3", "SIGSEGV", "$4 = 1"]);
}
