//! Copies of a replayed process, with which a debugger goes back.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs;

/// Works in memory that children do not get or get zeroed, as V8 does.
const UNSHARED: &str = r#"
#include <sys/mman.h>
#include <unistd.h>
static unsigned long *memory(int advice)
{
	unsigned long *found = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(found, 1 << 20, advice);
	return found;
}
void half(unsigned long *one, unsigned long *other) { one[1] = other[1] = 7; }
int main(void)
{
	unsigned long *one = memory(MADV_DONTFORK), *other = memory(MADV_WIPEONFORK);
	for (unsigned long i = 0; i < 100000000; i++) {
		*one += i;
		*other += 2;
		if (i == 50000000)
			half(one, other);
	}
	_exit(one[1] + other[1] + *other / 100000000);
}
"#;

#[test]
fn copies_have_the_memory_that_children_do_not_get() {
    needs!("gdb");
    let place = Place::new("debug-unshared");
    let program = compile(&place, "unshared", UNSHARED, &[]);
    record(&place, &[&program]);
    let commands =
        ["break half", "reverse-continue", "print *one", "print *other", "continue", "print $rdi"];
    let text = gdb(&place, &["--at", "exit"], &commands);
    in_order(
        &text,
        &[
            "half (one=",
            "$1 = 1250000025000000",
            "$2 = 100000002",
            "No more reverse-execution history",
        ],
    );
}

/// Starts four threads that wait, stops, and starts four more.
const IN_TWO_LOTS: &str = r#"
#include <pthread.h>
#include <unistd.h>
int ends[2], done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *wait_for_byte(void *unused)
{
	char byte;
	read(ends[0], &byte, 1);
	pthread_mutex_lock(&lock);
	done++;
	pthread_mutex_unlock(&lock);
	return unused;
}
int half(void) { return done; }
int both(void) { return done; }
int end(void) { return done; }
int main(void)
{
	pthread_t threads[8];
	pipe(ends);
	for (int i = 0; i < 8; i++) {
		if (i == 4)
			half();
		pthread_create(&threads[i], 0, wait_for_byte, 0);
	}
	both();
	write(ends[1], "12345678", 8);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], 0);
	return end();
}
"#;

/// A copy's threads get their runtime data back, even from a process in which they have not begun.
#[test]
fn threads_of_a_checkpoint_come_back_from_before_their_beginning() {
    needs!("gdb");
    let place = Place::new("debug-lots");
    let program = compile(&place, "lots", IN_TWO_LOTS, &["-pthread"]);
    record(&place, &[&program]);
    let commands = [
        "break half",
        "continue",
        "checkpoint",
        "delete",
        "reverse-continue",
        "restart 1",
        "break both",
        "continue",
        "checkpoint",
        "break end",
        "continue",
        "print done + 100",
        "reverse-continue",
        "print done + 200",
    ];
    let printed = gdb(&place, &[], &commands);
    in_order(
        &printed,
        &[
            "No more reverse-execution history",
            "Breakpoint 2, both",
            "heckpoint 2",
            "= 108",
            "Breakpoint 2, both",
            "= 200",
        ],
    );
}

/// Counts in memory that other processes could map.
const COUNTERS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int step(long *counters) { return ++counters[0]; }
int main(int argc, char **argv)
{
	int file = open(argv[1], O_CREAT | O_RDWR, 0600);
	ftruncate(file, 4096);
	long *counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (argc > 2 && fork() == 0) {
		counters[1] = 5;
		_exit(0);
	}
	for (int i = 0; i < 3; i++)
		step(counters);
	if (argc > 2)
		wait(NULL);
	return counters[0] + counters[1];
}
"#;

/// A shared mapping that only this process maps is copied with it. One that others map is not
/// copied, and gdb reports that it cannot go back.
#[test]
fn shared_memory_that_nobody_shares_is_no_obstacle() {
    needs!("gdb");
    let place = Place::new("debug-alone");
    let program = compile(&place, "counters", COUNTERS, &[]);
    let (file, counter) = (place.work("file").display().to_string(), "print counters[0]");
    record(&place, &[&program, &file]);
    let back = ["reverse-continue", counter];
    let text = gdb(
        &place,
        &["--at", "exit"],
        &[&["break step"][..], &back, &back, &back, &["continue", counter]].concat(),
    );
    in_order(&text, &["$1 = 2", "$2 = 1", "$3 = 0", "$4 = 1"]);
    // The copied file does not have the data of an earlier pass through the program.
    let text = gdb(
        &place,
        &["--at", "exit"],
        &["break step", "seek begin", "continue", counter, "delete", "continue", "continue"],
    );
    in_order(&text, &["$1 = 0", "exited with code 03"]);
    record(&place, &[&program, &file, "child"]);
    let text = gdb(
        &place,
        &[],
        &[
            "break step",
            "continue",
            "continue",
            "reverse-stepi",
            "reverse-continue",
            "delete",
            "continue",
            "continue",
        ],
    );
    in_order(&text, &["No more reverse-execution history", "exited with code 013"]);
    assert_eq!(text.matches("has not gone back: it shares writable memory").count(), 2, "{text}");
    // Other processes matter only if they map the same file.
    let beside = |other: &str| {
        record(&place, &["sh", "-c", &format!("rm {file}; {program} {file}; {other}; exit 3")]);
        gdb(&place, &["--at", "exit", "-p", "counters"], &[&["break step"][..], &back].concat())
    };
    in_order(&beside("/bin/true"), &["$1 = 2"]);
    assert!(
        beside(&format!("{program} {file}"))
            .contains("has not gone back: it shares writable memory")
    );
}
