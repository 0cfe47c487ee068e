//! While the program goes forwards, the debugger finds out which instructions are executed. On the
//! way back it skips stretches that did not execute a breakpoint's instruction.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs;
use std::time::Instant;

/// Computes in one or two threads that take turns, with some system calls and signals. It calls
/// `once` once, in the middle.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long total, handled, turns;
int mode;
__attribute__((noinline)) void never(void) { total++; }
__attribute__((noinline)) void once(void) { total += 2; }
__attribute__((noinline)) unsigned long mix(unsigned long x) { return x * 6364136223846793005UL + 1442695040888963407UL; }
static void handler(int number) { handled++; }
static void *other(void *unused)
{
	for (int i = 0; i < 20; i++) {
		for (unsigned long j = 0; j < 3000000; j++)
			total = mix(total);
		turns++;
		getpid();
	}
	return 0;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	struct timespec now;
	signal(SIGUSR1, handler);
	if (argc > 1)
		pthread_create(&thread, 0, other, 0);
	for (int i = 0; i < 100; i++) {
		for (unsigned long j = 0; j < 10000000; j++)
			total = mix(total);
		if (total == 7)
			never();
		if (i == 40)
			once();
		if (i % 2)
			kill(getpid(), SIGUSR1);
		if (argc > 1 || i % 3 == 0) {
			clock_gettime(CLOCK_REALTIME, &now);
			printf("%d %ld\n", i, now.tv_nsec & 1);
		}
	}
	if (argc > 1)
		pthread_join(thread, 0);
	return 0;
}
"#;

/// Records the program.
fn recorded(test: &str, options: &[&str], arguments: &[&str]) -> Place {
    let place = Place::new(test);
    let program = compile(&place, "computing", PROGRAM, options);
    record(&place, &[&[program.as_str()], arguments].concat());
    place
}

/// Waits until everything possible is known about the stretches. Prints whether that is most of
/// them, whether there are many, and whether several are known.
const WAIT: &str = "python
import gdb, time
known, since = -1, time.time()
while time.time() - since < 5:
    text = gdb.execute('monitor followed', to_string=True)
    now, all = [int(word) for word in text.split() if word.isdigit()]
    if now != known:
        known, since = now, time.time()
    if known == all:
        break
    time.sleep(0.05)
print('enough', known * 2 > all, 'many', all > 5, 'several', known > 2)";

fn walk(place: &Place) -> String {
    let back = "reverse-continue";
    let quiet = "handle SIGUSR1 nostop noprint pass";
    let commands = [
        quiet,
        WAIT,
        "break never",
        back,
        "seek exit",
        "break once",
        back,
        "bt 2",
        back,
        "seek exit",
        "delete",
        "break handler",
        back,
    ];
    gdb(place, &["--at", "exit", "--no-checkpoints"], &commands)
}

#[test]
fn what_was_not_executed_is_passed_over() {
    needs!("gdb", "two cores");
    let place = recorded("debug-executed", &["-O1"], &[]);
    let text = walk(&place);
    in_order(
        &text,
        &[
            "enough True many True",
            "No more reverse-execution history",
            "Breakpoint 2, once",
            "main (",
            "No more reverse",
        ],
    );
    in_order(&text, &["Breakpoint 3, handler"]);
}

/// Copies cannot go through all stretches of several threads. Those are searched as before, so that
/// no stop is missed.
#[test]
fn nothing_is_missed_where_threads_take_turns() {
    needs!("gdb");
    let place = recorded("debug-executed-threads", &["-O1", "-pthread"], &["threads"]);
    let text = walk(&place);
    in_order(
        &text,
        &[
            "enough",
            "No more reverse-execution history",
            "Breakpoint 2, once",
            "main (",
            "No more reverse",
            "Breakpoint 3, handler",
        ],
    );
}

/// A session uses what an earlier session found out.
#[test]
fn another_session_knows_it_too() {
    needs!("gdb", "two cores");
    let place = recorded("debug-executed-kept", &["-O1"], &[]);
    gdb(&place, &["--at", "exit", "--checkpoint-after", "0"], &[WAIT]);
    let past = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".past");
    let folder = place.recording("computing-1").join("checkpoints");
    let written = std::fs::read_dir(&folder)
        .unwrap()
        .filter(|entry| past(&entry.as_ref().unwrap().file_name()))
        .count();
    assert!(written > 3, "{written}");
    let commands = [
        "handle SIGUSR1 nostop noprint pass",
        "break never",
        "reverse-continue",
        "seek exit",
        "break once",
        "reverse-continue",
        "bt 2",
    ];
    let text = gdb(&place, &["--at", "exit"], &commands);
    assert!(text.contains("begins at checkpoint"), "{text}");
    in_order(&text, &["No more reverse-execution history", "Breakpoint 2, once", "main ("]);
    // A file that belongs to another checkpoint is not used.
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if past(path.file_name().unwrap()) {
            std::fs::copy(folder.join("2.past"), path.with_extension("copied")).unwrap();
            std::fs::rename(path.with_extension("copied"), &path).unwrap();
        }
    }
    let text = gdb(
        &place,
        &["--at", "exit"],
        &["handle SIGUSR1 nostop noprint pass", "break once", "reverse-continue", "bt 2"],
    );
    in_order(&text, &["Breakpoint 1, once", "main ("]);
    place.run_well(&["rm", "latest"]);
    assert!(!folder.exists());
}

/// Computes for long without an event, so most checkpoints are somewhere in the computation. How
/// many million rounds it takes is its argument.
const EVENTLESS: &str = r#"
#include <stdlib.h>
#include <unistd.h>
unsigned long total;
__attribute__((noinline)) void never(void) { total++; }
int main(int argc, char **argv)
{
	unsigned long rounds = atol(argv[1]) * 1000000;
	for (unsigned long i = 0; i < rounds; i++)
		total = total * 5 + i;
	if (total == 7)
		never();
	_exit(3);
}
"#;

/// How many million rounds take two seconds here. Checkpoints are made by time.
fn rounds_of_two_seconds(program: &str) -> String {
    const TRIED: u128 = 300;
    let quickest = |_| {
        let since = Instant::now();
        std::process::Command::new(program).arg(TRIED.to_string()).status().unwrap();
        since.elapsed().as_millis()
    };
    let quickest = (0..3).map(quickest).min().unwrap();
    (TRIED * 2000 / quickest).to_string()
}

/// Copies find the ends of stretches that end at no event.
#[test]
fn stretches_without_events_are_followed_too() {
    needs!("gdb", "two cores");
    let place = Place::new("debug-executed-eventless");
    let program = compile(&place, "eventless", EVENTLESS, &["-O1"]);
    record(&place, &[&program, &rounds_of_two_seconds(&program)]);
    let commands = [WAIT, "break never", "reverse-continue"];
    let text = gdb(&place, &["--at", "exit", "--no-checkpoints"], &commands);
    in_order(&text, &["several True", "No more reverse-execution history"]);
}
