//! `retake debug`: the ends of threads, and what follows them.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs;

/// One thread computes for some tenths of a second and ends. Another waits for it, and then ends
/// the process. With an argument, the first thread is the one that computes.
const ENDS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
unsigned long total;
static void *compute(void *unused)
{
	(void)unused;
	for (unsigned long i = 0; i < 100000000; i++)
		total += i ^ total;
	return NULL;
}
static void *last(void *thread)
{
	pthread_join(*(pthread_t *)thread, NULL);
	total++;
	_exit(total & 1);
}
int main(int argc, char **argv)
{
	static pthread_t thread, other;
	if (argc == 1) {
		pthread_create(&thread, NULL, compute, NULL);
		pthread_join(thread, NULL);
		_exit(total & 1);
	}
	thread = pthread_self();
	pthread_create(&other, NULL, last, &thread);
	compute(NULL);
	pthread_exit(NULL);
}
"#;

/// A copy made while a thread runs has only that thread at first, and still exists when the thread
/// has ended. One instruction before the exit is the system call that ends the process, in the
/// thread that makes it.
#[test]
fn the_way_back_from_the_end_leads_over_ends_of_threads() {
    needs!("gdb");
    let place = Place::new("debug-threads-end");
    let program = compile(&place, "ends", ENDS, &[]);
    for (arguments, who) in [(vec![], "main"), (vec!["main-first"], "last")] {
        record(&place, &[vec![program.as_str()], arguments].concat());
        let commands = [
            "reverse-stepi",
            "x/i $pc",
            "up",
            "info frame",
            "break compute",
            "reverse-continue",
            "continue",
            "reverse-stepi",
            "x/i $pc",
            "up",
        ];
        let text = gdb(&place, &["--at", "exit"], &commands);
        in_order(
            &text,
            &[
                "syscall",
                who,
                "hit Breakpoint 1, compute",
                "No more reverse-execution history",
                "syscall",
                who,
            ],
        );
    }
}

/// One thread locks without a system call. The other one wants the baton now and then.
const LOCKS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static unsigned long taken, seen;
static volatile int done;
static void *sleeper(void *unused)
{
	(void)unused;
	for (int i = 0; i < 100; i++) {
		usleep(1000);
		pthread_mutex_lock(&mutex);
		seen = seen * 31 + taken;
		pthread_mutex_unlock(&mutex);
	}
	done = 1;
	return NULL;
}
unsigned long lock_often(unsigned long times)
{
	for (unsigned long i = 0; i < times; i++) {
		pthread_mutex_lock(&other);
		pthread_mutex_unlock(&other);
	}
	return times;
}
void reached(void)
{
	__asm__ volatile("");
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, sleeper, NULL);
	while (!done) {
		pthread_mutex_lock(&mutex);
		taken++;
		pthread_mutex_unlock(&mutex);
		if (taken % 200000 == 0)
			reached();
	}
	pthread_join(thread, NULL);
	printf("%lu of %lu\n", seen, taken + lock_often(1));
	return 0;
}
"#;

/// Called by the debugger, a function passes the call of the lock at which the recorded thread gave
/// the baton away. The thread itself must not pass it.
#[test]
fn functions_that_lock_can_be_called_before_a_passage() {
    needs!("gdb");
    let place = Place::new("debug-threads-locks");
    let program = compile(&place, "locks", LOCKS, &[]);
    record(&place, &[program.as_str()]);
    let call = "print lock_often(2000000)";
    let text = gdb(
        &place,
        &[],
        &[
            "break reached",
            "continue",
            call,
            "continue",
            call,
            "reverse-continue",
            call,
            "delete",
            "continue",
        ],
    );
    in_order(
        &text,
        &[
            "reached",
            "$1 = 2000000",
            "reached",
            "$2 = 2000000",
            "reached",
            "$3 = 2000000",
            "No more reverse-execution history",
        ],
    );
}

/// One thread waits for its slow vfork child, and another thread works meanwhile.
const WAITS: &str = r#"
#include <pthread.h>
#include <unistd.h>
int works, ended;
static void *spawn(void *unused)
{
	(void)unused;
	if (vfork() == 0) {
		for (int i = 0; i < 20; i++)
			usleep(10000);
		_exit(0);
	}
	ended = 1;
	return NULL;
}
int work(int number)
{
	works += number;
	usleep(10000);
	return works;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, spawn, NULL);
	for (int i = 0; i < 10; i++)
		work(i);
	pthread_join(thread, NULL);
	return ended;
}
"#;

/// The kernel does not stop a thread that waits for its vfork child. The child may wait for a
/// thread that is stopped.
#[test]
fn a_thread_that_waits_for_its_child_is_not_waited_for() {
    needs!("gdb");
    let place = Place::new("debug-threads-wait");
    let program = compile(&place, "waits", WAITS, &[]);
    record(&place, &[&program]);
    let forth = ["break work", "continue", "watch ended", "continue", "delete 1", "continue"];
    let back = ["reverse-continue", "delete", "break work", "reverse-continue", "print number"];
    let text = gdb(&place, &[], &[&forth[..], &back].concat());
    in_order(
        &text,
        &["work (number=0)", "New value = 1", "No more reverse", "Old value = 1", "New value = 0"],
    );
    in_order(&text, &["New value = 0", "work (number=0)", "$1 = 0"]);
}

/// Two threads take turns. The second finds the right value only if it waits for its turn.
const TAKES_TURNS: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static long *shared;
static volatile int ready;
static void *other(void *unused)
{
	(void)unused;
	printf("%d\n", ready);
	return NULL;
}
void end(void) {}
int main(int argc, char **argv)
{
	(void)argc;
	int file = open(argv[1], O_CREAT | O_RDWR, 0600);
	ftruncate(file, 4096);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		ready = 0;
		pthread_create(&thread, NULL, other, NULL);
		for (volatile long j = 0; j < 500000; j++)
			shared[0] += j;
		ready = 1;
		pthread_join(thread, NULL);
	}
	end();
	return 0;
}
"#;

/// The turn count of a process with shared mappings is outside of its memory. It must go back with
/// the process.
#[test]
fn turns_are_taken_again_after_going_back() {
    needs!("gdb");
    let place = Place::new("debug-threads-turns");
    let program = compile(&place, "turns", TAKES_TURNS, &["-pthread"]);
    record(&place, &[&program, &place.work("file").display().to_string()]);
    let commands =
        ["break end", "continue", "reverse-continue", "continue", "print ready", "continue"];
    let text = gdb(&place, &[], &[&commands[..], &commands[2..]].concat());
    in_order(
        &text,
        &[
            "Breakpoint 1, end",
            "No more reverse-execution history",
            "Breakpoint 1, end",
            "$1 = 1",
            "No more reverse-execution history",
        ],
    );
}

/// In the kernel, a shell waits for each vfork child until the child executes a program. Before
/// that, each child stops at places where the debugger must act.
#[test]
fn children_in_the_memory_of_one_that_is_stopped() {
    needs!("gdb");
    let place = Place::new("debug-threads-children");
    let script = "i=0; while [ $i -lt 30 ]; do /bin/true; i=$((i+1)); done; exit 0";
    record(&place, &["sh", "-c", script]);
    for _ in 0..3 {
        let text = gdb(&place, &["-p", "sh"], &["continue", "continue"]);
        in_order(&text, &["No more reverse-execution history", "exited normally"]);
    }
}

/// Threads yield to each other until one of them ends the program.
const YIELDS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
int shared;
static int add(int number)
{
	int now = __atomic_add_fetch(&shared, number, __ATOMIC_SEQ_CST);
	sched_yield();
	return now;
}
static void *worker(void *argument)
{
	for (;;) {
		int now = add((int)(long)argument);
		if (now > 300)
			exit(3);
	}
	return NULL;
}
int main(void)
{
	pthread_t threads[3];
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
	for (;;)
		sched_yield();
}
"#;

/// Going back from the exit works, whatever the other threads do.
#[test]
fn back_from_an_exit_among_threads_that_yield() {
    needs!("gdb");
    let place = Place::new("debug-threads-yield");
    let program = compile(&place, "yields", YIELDS, &[]);
    record(&place, &[&program]);
    let commands = [
        "continue",
        "set $exit = $pc",
        "reverse-stepi",
        "reverse-stepi",
        "print $pc != $exit",
        "break add",
        "reverse-continue",
        "print shared > 290",
        "delete",
        "continue",
        "continue",
    ];
    let text = gdb(&place, &[], &commands);
    assert!(!text.contains("has not gone back"), "{text}");
    in_order(
        &text,
        &[
            "No more reverse",
            "$1 = 1",
            "hit Breakpoint",
            "$2 = 1",
            "No more",
            "exited with code 03",
        ],
    );
}

/// Each step back is complete before the next command. This includes the beginning of a thread,
/// where no step leads further back, and the debugger may be stepping off a breakpoint.
#[test]
fn steps_back_to_where_a_thread_begins() {
    needs!("gdb");
    let place = Place::new("debug-threads-begin");
    let program = compile(&place, "yields", YIELDS, &[]);
    record(&place, &[&program]);
    let script = place.work("steps.py");
    std::fs::write(
        &script,
        "import gdb\n\
         before, steps = None, 0\n\
         while steps < 500 and before != str(gdb.parse_and_eval('$pc')):\n\
         \x20   before, steps = str(gdb.parse_and_eval('$pc')), steps + 1\n\
         \x20   gdb.execute('reverse-stepi')\n\
         gdb.execute('reverse-stepi')\n\
         print('begins after', 10 < steps < 500, gdb.selected_frame().name())\n",
    )
    .unwrap();
    let source = format!("source {}", script.display());
    let forth = ["break add if shared > 200", "continue", "delete"];
    let lines = ["reverse-next", "print 1", "reverse-next", "print 2", "reverse-step", "print 3"];
    let begin = ["break worker", "continue", "delete", &source, "break exit", "continue"];
    let text = gdb(&place, &[], &[&forth[..], &lines, &["seek begin"], &begin].concat());
    in_order(&text, &["hit Breakpoint 1", "worker (", "$1 = 1", "$2 = 2", "$3 = 3"]);
    in_order(
        &text,
        &[
            "$3 = 3",
            "No more reverse",
            "begins after True clone",
            "hit Breakpoint",
            "exit (status=3)",
        ],
    );
    assert!(!text.contains("Cannot execute") && !text.contains("SIGINT"), "{text}");
}

/// A new thread that had not begun when the process ended never begins. The debugger must not wait
/// for it.
#[test]
fn back_from_an_exit_before_a_thread_begins() {
    needs!("gdb");
    let place = Place::new("debug-threads-unborn");
    let source = YIELDS.replace("\tfor (;;)\n\t\tsched_yield();\n}\n", "\t_exit(3);\n}\n");
    let source = source.replace("#include <sched.h>", "#include <sched.h>\n#include <unistd.h>");
    assert!(source.contains("_exit(3)"));
    let program = compile(&place, "unborn", &source, &[]);
    let commands = ["continue", "reverse-stepi", "reverse-stepi", "break main", "reverse-continue"];
    for _ in 0..3 {
        // On one core the new threads have to wait.
        record(&place, &["taskset", "-c", "0", &program]);
        let text = gdb(&place, &["-p", "unborn"], &commands);
        assert!(!text.contains("has not gone back"), "{text}");
        in_order(&text, &["No more reverse-execution history", "Breakpoint 1, main"]);
    }
}

/// Makes short-lived threads beside one that computes.
const BRIEF: &str = r#"
#include <pthread.h>
#include <unistd.h>
static volatile int done;
static void *compute(void *unused)
{
	unsigned long value = 1;
	while (!done)
		value = value * 3 + 1;
	return unused;
}
static void *end(void *unused) { return unused; }
int main(void)
{
	pthread_t thread, brief;
	pthread_create(&thread, NULL, compute, NULL);
	for (int i = 0; i < 200; i++) {
		pthread_create(&brief, NULL, end, NULL);
		pthread_join(brief, NULL);
		usleep(1000);
	}
	done = 1;
	pthread_join(thread, NULL);
	return 0;
}
"#;

/// The debugger searches backwards with copies, which end where the program makes a thread. It once
/// waited many seconds in vain for each such end.
#[test]
fn the_way_back_leads_over_threads_that_are_made() {
    needs!("gdb");
    let place = Place::new("debug-threads-brief");
    let program = compile(&place, "brief", BRIEF, &["-pthread"]);
    record(&place, &[&program]);
    let commands = ["reverse-continue", "info registers rip", "continue"];
    let told = gdb(&place, &["--at", "exit"], &commands);
    in_order(&told, &["No more reverse-execution history", "rip", "_exit"]);
}
