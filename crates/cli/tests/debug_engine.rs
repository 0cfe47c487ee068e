//! `retake debug`: what only the engine behind gdb can do.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, left_behind, record};
use retake_testing::needs;
use std::collections::BTreeSet;

/// Functions that a user may call.
const CALLED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
int counter = 10;
double half(double x) { return x / 2; }
int add(int x)
{
	counter += x;
	return counter;
}
int say(const char *text)
{
	char line[64];
	snprintf(line, sizeof line, "said %s\n", text);
	return write(1, line, strlen(line));
}
int leave(const char *path) { return open(path, O_CREAT | O_WRONLY, 0600); }
int large(void)
{
	char *bytes = malloc(1 << 20);
	memset(bytes, 1, 1 << 20);
	return bytes[4096];
}
int quit(void) { exit(9); }
int stop(int x) { return x + 1; }
int main(void)
{
	char *text = strdup("program");
	int pid = getpid();
	stop(pid);
	printf("%s %d\n", text, counter);
	return counter;
}
"#;

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

/// What is on the stack below `main` while it computes.
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

/// gdb keeps the breakpoint at which such a function would have returned: on the stack, where the
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

/// Computes for long without an event.
const BUSY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int once;
unsigned long rounds, total;
unsigned long mix(unsigned long x, unsigned long i)
{
	return x * 6364136223846793005UL + i;
}
int done(unsigned long x) { return x & 7; }
int main(int argc, char **argv)
{
	unsigned long x = 1;
	rounds = strtoul(argv[1], NULL, 10);
	getpid();
	for (unsigned long i = 0; i < rounds; i++) {
		x = mix(x, i);
		if (i == rounds / 50)
			once = 1;
	}
	total = x;
	getpid();
	return done(x);
}
"#;

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

/// Walks about in a recording and compares the state at each place with what it was there before;
/// the number of moves that found a place known.
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

/// 100 seeks; with RETAKE_SEEKS=10000 that many.
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

/// The part of a debugger that these tests need: packets over a socket.
struct Client(std::net::TcpStream);

impl Client {
    fn send(&mut self, body: &str) {
        use std::io::Write;
        let sum = body.bytes().fold(0u8, u8::wrapping_add);
        self.0.write_all(format!("${body}#{sum:02x}").as_bytes()).unwrap();
    }

    /// The next packet that is not output.
    fn receive(&mut self) -> String {
        use std::io::{Read, Write};
        let mut byte = [0];
        loop {
            let mut packet = Vec::new();
            while self.0.read(&mut byte).unwrap() == 1 && byte[0] != b'$' {}
            while self.0.read(&mut byte).unwrap() == 1 && byte[0] != b'#' {
                packet.push(byte[0]);
            }
            self.0.read_exact(&mut [0; 2]).unwrap();
            self.0.write_all(b"+").unwrap();
            if packet.first() != Some(&b'O') {
                return String::from_utf8_lossy(&packet).into_owned();
            }
        }
    }

    fn ask(&mut self, body: &str) -> String {
        self.send(body);
        self.receive()
    }
}

/// A served session on the latest recording, and a connection to it.
fn serve(place: &Place) -> (std::process::Child, Client) {
    use std::io::{BufRead, BufReader};
    let mut child = place
        .command(&["debug", "--at", "begin", "--serve", "127.0.0.1:0"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    let address = line.rsplit(' ').next().unwrap().to_owned();
    let stream = std::net::TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    (child, Client(stream))
}

/// Sends an interrupt some time after a command; how long the stop took.
fn interrupted(client: &mut Client, command: &str) -> std::time::Duration {
    use std::io::Write;
    client.send(command);
    std::thread::sleep(std::time::Duration::from_millis(60));
    client.0.write_all(&[3]).unwrap();
    let since = std::time::Instant::now();
    let reply = client.receive();
    // A quick machine may be at an end before.
    assert!(reply.starts_with("T02") || reply.contains("replaylog"), "{command}: {reply}");
    since.elapsed()
}

#[test]
fn an_interrupt_stops_what_takes_long() {
    let place = Place::new("debug-interrupt");
    let program = compile(&place, "busy", BUSY, &[]);
    record(&place, &[&program, "100000000"]);
    let (mut child, mut client) = serve(&place);
    // The machine may be busy with other things: one of a few tries must be quick.
    let quickest = |client: &mut Client, command: &str| {
        (0..3).map(|_| interrupted(client, command)).min().unwrap()
    };
    let forth = quickest(&mut client, "vCont;c");
    let back = quickest(&mut client, "bc");
    // An interrupt that came too late is answered when it is read.
    let mut registers = client.ask("g");
    while registers.starts_with('T') {
        registers = client.receive();
    }
    // Runs of equal digits are packed.
    assert!(registers.len() > 100 && !registers.starts_with('E'), "{registers}");
    assert!(forth.as_millis() < 300 && back.as_millis() < 300, "{forth:?} {back:?}");
    drop(client);
    child.wait().unwrap();
}

/// Writes some five milliseconds apart, a little more each time: as often as a debugger's wish to
/// stop the program is looked for.
const WRITES: &str = r#"
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static void compute(long rounds)
{
	for (volatile long i = 0; i < rounds; i++)
		;
}
static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}
int main(void)
{
	volatile long *watched = mmap((void *)0x20000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	double since = now();
	compute(100000000);
	double in_a_second = 100000000 / (now() - since);
	for (int i = 1; i <= 500; i++) {
		compute(in_a_second * (4.75e-3 + i * 1e-6));
		*watched = i;
	}
	return 0;
}
"#;

/// What stops the program in the moment in which it is interrupted is a stop like others.
#[test]
fn an_interrupt_hides_no_stop() {
    use std::io::Write;
    let place = Place::new("debug-coincidence");
    let program = compile(&place, "writes", WRITES, &["-O1"]);
    record(&place, &[&program]);
    let (mut child, mut client) = serve(&place);
    client.send("Z2,20000000,8"); // its answer is taken for output
    let (mut hits, mut interrupts) = (0, 0);
    loop {
        client.send("vCont;c");
        client.0.write_all(&[3]).unwrap();
        let stop = client.receive();
        if stop.contains("replaylog") {
            break;
        }
        hits += u32::from(stop.contains("watch:"));
        interrupts += u32::from(stop.starts_with("T02"));
        // An interrupt that came too late is answered when it is read.
        let mut answer = client.ask("qAttached");
        while answer.starts_with('T') {
            answer = client.receive();
        }
        assert!(hits <= 500 && interrupts < 5000, "{hits} {interrupts}");
    }
    assert_eq!(hits, 500, "with {interrupts} interrupts");
    drop(client);
    child.wait().unwrap();
}

/// A debugger that has waited for long asks for the answer once more.
#[test]
fn impatience_is_no_end() {
    let place = Place::new("debug-impatient");
    let program = compile(&place, "called", CALLED, &[]);
    record(&place, &[&program]);
    let (mut child, mut client) = serve(&place);
    std::io::Write::write_all(&mut client.0, b"-").unwrap();
    let stopped = client.ask("?");
    assert!(stopped.starts_with('T'), "{stopped}");
    drop(client);
    assert!(child.wait().unwrap().success());
}

#[test]
fn nobody_is_left_when_gdb_or_we_are_killed() {
    needs!("gdb");
    let place = Place::new("debug-killed");
    let program = compile(&place, "busy", BUSY, &[]);
    record(&place, &[&program, "100000000"]);
    for kills_gdb in [true, false] {
        let mut child = place
            .command(&[
                "debug",
                "--at",
                "begin",
                "--",
                "-nx",
                "-batch",
                "-ex",
                "continue",
                "-ex",
                "reverse-continue",
                "-ex",
                "continue",
                "-ex",
                "shell sleep 5",
            ])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The one that stays, not one that is asked for its version.
        let mut before = None;
        let gdb = loop {
            std::thread::sleep(std::time::Duration::from_millis(300));
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
            let children: String = tasks
                .map(|task| {
                    std::fs::read_to_string(task.path().join("children")).unwrap_or_default()
                })
                .collect();
            let is_gdb = |pid: &&str| {
                std::fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name.trim() == "gdb")
            };
            let found = children.split_whitespace().find(is_gdb).map(str::to_owned);
            match found {
                Some(gdb) if before.as_ref() == Some(&gdb) => break gdb,
                found => before = found,
            }
        };
        let victim = if kills_gdb { gdb } else { child.id().to_string() };
        let killed = std::process::Command::new("kill").args(["-9", &victim]).status().unwrap();
        assert!(killed.success(), "{victim:?}");
        // As it ends, so do we.
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
        if kills_gdb {
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
            assert!(!said.contains("error:"), "{said}");
        }
        let since = std::time::Instant::now();
        while since.elapsed().as_secs() < 10 && !left_behind(&place).is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(left_behind(&place).is_empty(), "{:?}", left_behind(&place));
    }
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

/// A register points to the handler while the loop waits to be stopped in the midst of it.
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

/// Breakpoints are bytes in memory. Where the recorded program was stopped between events memory is
/// compared; code must not be.
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
    // The copies that were made on the way here are of a program that is looking for where a signal
    // came.
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

/// Works in memory that children are not to have, or are to have empty: as V8 does.
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

/// Four threads that wait, a stop, and four more.
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

/// What the threads of a copy have of the runtime's is theirs again, though the process was where
/// they had not begun.
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

/// Counts in memory that others could see.
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

/// A mapping that is shared with nobody is copied with the process; one that is, is not, and who
/// wants to go back is told.
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
    // The copy of the file is not what an earlier way through the program left.
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
    // Others beside it have nothing of it, unless they map the same file.
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

/// Code that is made at run time, and keeps what CPUID says of the core it runs on.
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

/// The program is on the same core, whatever way it comes.
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
