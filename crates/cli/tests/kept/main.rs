//! Checkpoints that outlive the session: those of `retake checkpoint`, and those that sessions
//! leave and use automatically.

#[path = "../cli_support/mod.rs"]
mod cli_support;
mod hostile;
mod kernel_state;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Three threads that compute, allocate and print in turns.
const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread unsigned long own;
unsigned long total;
int rounds;
char *map;
static void *work(void *argument)
{
	unsigned long x = own = (unsigned long)argument;
	for (int i = 0; i < rounds; i++) {
		for (int j = 0; j < 20000; j++)
			x = x * 6364136223846793005UL + j;
		char *block = malloc(3000 + i % 5000);
		memset(block, i, 3000 + i % 5000);
		pthread_mutex_lock(&lock);
		total += x;
		map[4096 * (i % 100)] = (char)x;
		if (i % 50 == 0) {
			printf("round %d of %lu\n", i, own);
			fflush(stdout);
		}
		pthread_mutex_unlock(&lock);
		if (i % 10)
			free(block);
		getppid();
	}
	return NULL;
}
int done(unsigned long x) { return x & 7; }
int main(int argc, char **argv)
{
	pthread_t threads[3];
	rounds = atoi(argv[1]);
	map = mmap(NULL, 4096 * 200, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(map + 4096 * 150, 4096 * 10, PROT_NONE);
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("total %lx\n", total);
	fflush(stdout);
	return done(total);
}
"#;

/// Computes, maps a file and changes the mapped data. A signal ends it.
const CRASH: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
unsigned long total;
static volatile int signals;
static void handle(int number) { signals += number; }
int step(int i)
{
	for (int j = 0; j < 10000; j++)
		total = total * 6364136223846793005UL + j + i;
	getppid();
	return i;
}
int main(int argc, char **argv)
{
	int file = open(argv[0], O_RDONLY);
	char *shown = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	char *later = sbrk(100000);
	signal(SIGUSR1, handle);
	for (int i = 0; i < 400; i++) {
		step(i);
		shown[i * 20] = (char)i;
		memset(later + i * 200, i, 100);
		if (i % 100 == 7)
			raise(SIGUSR1);
	}
	printf("%d signals\n", signals);
	fflush(stdout);
	*(int *)0 = 1;
	return 0;
}
"#;

/// The commands that show the comparable state of a place.
const STATE: [&str; 4] = ["monitor when", "monitor hash", "info threads", "backtrace 4"];

/// The commands, with [`STATE`] after each one that moves.
fn with_states(commands: &[&str]) -> Vec<String> {
    let is_going =
        |command: &&&str| !command.starts_with("break") && !command.starts_with("delete");
    let all = commands.iter().flat_map(|command| {
        let states = if is_going(&command) { &STATE[..] } else { &[] };
        std::iter::once(*command).chain(states.iter().copied())
    });
    all.map(str::to_owned).collect()
}

/// The output of gdb without kept checkpoints, and with them.
fn both(place: &Place, options: &[&str], commands: &[&str]) -> (String, String) {
    let commands = with_states(commands);
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let plain = gdb(place, &[options, &["--no-checkpoints"]].concat(), &commands);
    (plain, gdb(place, options, &commands))
}

/// Checks that both outputs are the same, except for where they began. Returns that line of the
/// second.
fn same(plain: &str, kept: &str) -> String {
    let (begun, rest): (Vec<&str>, Vec<&str>) =
        kept.lines().partition(|line| line.starts_with("retake: begins"));
    // A session leaves a checkpoint only if it took long to get there.
    let is_of_the_place = |line: &&str| !line.starts_with("retake: kept a checkpoint");
    let rest: Vec<&str> = rest.into_iter().filter(is_of_the_place).collect();
    let plain: Vec<&str> = plain.trim_end_matches('\n').lines().filter(is_of_the_place).collect();
    assert_eq!(rest.join("\n"), plain.join("\n"));
    begun.join("\n")
}

fn list(place: &Place) -> Vec<Value> {
    place.run_json(&["checkpoint", "--list", "--json"]).as_array().unwrap().clone()
}

/// A place some events after a kept checkpoint.
fn behind(kept: &Value, events: u64) -> String {
    let summary = &kept["summary"];
    format!("{}:{}", summary["thread"], summary["events"].as_u64().unwrap() + events)
}

fn files(place: &Place) -> Vec<PathBuf> {
    list(place).iter().map(|kept| PathBuf::from(kept["path"].as_str().unwrap())).collect()
}

#[test]
fn threads_are_what_they_were() {
    needs!("gdb");
    let place = Place::new("kept-threads");
    let program = compile(&place, "threads", THREADS, &["-O1"]);
    record(&place, &[&program, "2000"]);
    let printed = place.run_well(&["checkpoint", "--every", "0.05"]);
    let kept = list(&place);
    assert!(kept.len() >= 2 && printed.lines().count() == kept.len(), "{printed}");
    // Begins at the last checkpoint, and goes back to the one before and to the beginning.
    let commands =
        ["reverse-stepi", "break done", "reverse-continue", "delete", "seek begin", "stepi 5"];
    let (plain, used) = both(&place, &["--at", "exit"], &commands);
    assert!(same(&plain, &used).contains("begins at checkpoint"), "{used}");
    // Begins right after a checkpoint, and goes to the end and to places before it.
    let middle = &kept[kept.len() / 2];
    let (at, seek) = (behind(middle, 9), format!("seek {}", behind(middle, 9)));
    let commands = [
        "stepi 30",
        "reverse-stepi",
        "monitor output",
        "seek exit",
        "monitor output",
        &seek,
        "seek begin",
        &seek,
    ];
    let (plain, used) = both(&place, &["--at", &at], &commands);
    assert!(same(&plain, &used).contains("begins at checkpoint"), "{used}");
}

#[test]
fn a_crash_is_opened_at_once() {
    needs!("gdb");
    let place = Place::new("kept-crash");
    let program = compile(&place, "crash", CRASH, &[]);
    record(&place, &[&program]);
    let said = place.run_well(&["checkpoint", "--at", "crash"]);
    assert!(said.contains("checkpoint 1: ") && said.contains(", the end, after"), "{said}");
    // The checkpoint exists already.
    let again = place.run(&["checkpoint", "--at", "exit"]);
    assert!(
        again.stdout.contains("checkpoint 1: ") && again.stderr.contains("begins at checkpoint 1"),
        "{again:?}"
    );
    let commands = [
        "print signals",
        "print total",
        "reverse-stepi",
        "break step if i == 399",
        "reverse-continue",
        "delete",
        "last signals",
        "print signals",
        "seek crash",
        "continue",
    ];
    let (plain, used) = both(&place, &["--at", "crash"], &commands);
    in_order(&plain, &["= 40", "step (i=399)", "= 30"]);
    assert!(same(&plain, &used).contains("begins at checkpoint 1: event"), "{used}");
    // Earlier checkpoints are used, too.
    place.run_well(&["checkpoint", "--at", "200"]);
    let (plain, used) =
        both(&place, &["--at", "250"], &["stepi 3", "reverse-stepi", "seek 180", "seek crash"]);
    assert!(same(&plain, &used).contains("begins at checkpoint 2: event 200"), "{used}");
    let backtrace = place.run(&["backtrace"]);
    assert!(
        backtrace.stderr.contains("begins at checkpoint 1") && backtrace.stdout.contains("main"),
        "{backtrace:?}"
    );
}

#[test]
fn they_are_left_and_used_by_themselves() {
    needs!("gdb");
    let place = Place::new("kept-left");
    let program = compile(&place, "crash", CRASH, &[]);
    record(&place, &[&program]);
    let none = gdb(&place, &["--at", "crash"], &["info registers rip"]);
    assert!(list(&place).is_empty() && !none.contains("retake: "), "{none}");
    let first = gdb(&place, &["--at", "crash", "--checkpoint-after", "0"], &["monitor hash"]);
    assert!(first.contains("retake: kept a checkpoint here"), "{first}");
    let kept = list(&place);
    assert!(
        !kept.is_empty() && kept.iter().all(|one| one["summary"]["is_automatic"] == true),
        "{kept:?}"
    );
    let second = gdb(&place, &["--at", "crash"], &["monitor hash"]);
    assert!(second.contains("retake: begins at checkpoint"), "{second}");
    assert_eq!(
        first.lines().find(|line| line.len() == 16),
        second.lines().find(|line| line.len() == 16)
    );
    assert_eq!(list(&place).len(), kept.len());
    // The number of automatic checkpoints is limited.
    for event in 100..115 {
        gdb(&place, &["--at", &event.to_string(), "--checkpoint-after", "0"], &[]);
    }
    assert!(list(&place).len() <= 64, "{:?}", list(&place));
}

#[test]
fn they_come_and_go_with_the_recording() {
    let place = Place::new("kept-files");
    let program = compile(&place, "crash", CRASH, &[]);
    record(&place, &[&program]);
    assert!(
        place
            .run(&["checkpoint", "--list"])
            .stderr
            .contains("no checkpoint of this recording is kept")
    );
    place.run_well(&["checkpoint", "--at", "100", "--at", "200", "--at", "crash"]);
    assert!(place.run_well(&["info"]).contains("checkpoints 3 with "));
    assert_eq!(place.run_json(&["info", "--json"])["checkpoint_count"], 3);
    place.run_well(&["checkpoint", "--delete", "2"]);
    let numbers: Vec<u64> =
        list(&place).iter().map(|kept| kept["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 3]);
    place.run_badly(&["checkpoint", "--delete", "2"], 125, &["there is no checkpoint 2", "--list"]);
    place.run_badly(&["checkpoint"], 125, &["--at PLACE"]);
    // A packed recording contains no checkpoints. Its own are kept elsewhere.
    place.run_well(&["pack", "-o", "packed.retake"]);
    assert_eq!(
        place
            .run_json(&["checkpoint", "packed.retake", "--list", "--json"])
            .as_array()
            .unwrap()
            .len(),
        0
    );
    place.run_well(&["checkpoint", "packed.retake", "--at", "crash"]);
    let packed = place.run_json(&["checkpoint", "packed.retake", "--list", "--json"]);
    let elsewhere = PathBuf::from(packed[0]["path"].as_str().unwrap());
    assert!(
        elsewhere.exists() && elsewhere.to_str().unwrap().contains("/store/cache/checkpoints/")
    );
    place.run_well(&["rm", "packed.retake"]);
    assert!(!elsewhere.exists());
    place.run_well(&["rm", "latest"]);
    assert!(place.recordings().is_empty(), "{:?}", place.recordings());
}

/// A checkpoint belongs to one program of a process. From there the replay goes on to the next
/// program.
#[test]
fn the_way_leads_on_over_an_exec() {
    needs!("gdb");
    let place = Place::new("kept-exec");
    let program = compile(&place, "crash", CRASH, &[]);
    let script = format!(
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); [ -e / ]; done; echo from the shell; exec \
        {program}"
    );
    record(&place, &["sh", "-c", &script]);
    let printed = place.run_well(&["checkpoint", "-p", "sh", "--at", "1500"]);
    assert!(printed.contains("checkpoint 1: event 1 500"), "{printed}");
    let commands = [
        "catch exec",
        "continue",
        "seek crash",
        "monitor output",
        "seek begin",
        "reverse-continue",
        "seek 1510",
    ];
    let (plain, used) = both(&place, &["-p", "sh", "--at", "1600"], &commands);
    assert!(same(&plain, &used).contains("begins at checkpoint 1: event 1500"), "{used}");
    in_order(&plain, &["Catchpoint", "from the shell"]);
    // The checkpoint is not used for the other program.
    assert!(!gdb(&place, &["--at", "crash"], &[]).contains("begins at"));
}

#[test]
fn python_goes_on_where_it_was() {
    needs!("gdb");
    const PROGRAM: &str = "
import hashlib, json, random, threading
random.seed(5)
data = {}
def work(number):
    for i in range(400):
        data[(number, i)] = hashlib.sha256(str((number, i, random.random())).encode()).hexdigest()
        if i % 100 == 0:
            print('thread', number, 'round', i, flush=True)
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
for i in range(60000):
    data[(3, i)] = hashlib.sha256(str(i).encode()).hexdigest()
    if i % 100 == 0:
        print('alone', i, flush=True)
print(len(json.dumps(sorted((list(key), value) for key, value in data.items()))))
";
    let place = Place::new("kept-python");
    let script = place.work("program.py");
    std::fs::write(&script, PROGRAM).unwrap();
    record(&place, &["python3", script.to_str().unwrap()]);
    place.run_well(&["checkpoint", "--every", "0.02"]);
    place.run(&["checkpoint", "--at", "exit"]);
    let kept = list(&place);
    assert!(kept.len() >= 2, "{kept:?}");
    let commands = ["monitor output", "reverse-stepi", "stepi", "seek begin", "seek exit"];
    let (plain, used) = both(&place, &["--at", "exit"], &commands);
    assert!(same(&plain, &used).contains("begins at checkpoint"), "{used}");
    // On a busy machine the first checkpoint may be at the program's beginning. On a fast machine
    // it may be in a thread.
    let is_in_midst = |one: &Value| {
        one["after_ms"].as_u64() > Some(20) && one["thread"] == one["pid"] && one["fate"] == "Open"
    };
    let one = kept
        .iter()
        .find(|one| is_in_midst(&one["summary"]))
        .unwrap_or_else(|| panic!("none in the midst: {kept:?}"));
    let (at, seek) = (behind(one, 30), format!("seek {}", behind(one, 30)));
    let (plain, used) =
        both(&place, &["--at", &at], &["stepi 10", "seek exit", "monitor output", &seek]);
    // On a busy machine the next one may follow at once, in whichever thread.
    let text = same(&plain, &used);
    let (_, begins_at) = text.split_once("begins at checkpoint ").expect("a checkpoint");
    let number: u64 = begins_at.split_once(':').unwrap().0.parse().unwrap();
    assert!(number >= one["number"].as_u64().unwrap(), "{used}");
}

/// The seconds until a debugger is at the crash.
fn seconds_to_open(place: &Place, options: &[&str]) -> f64 {
    let since = Instant::now();
    let ran = place.run_within(
        &[&["debug"], options, &["--", "-nx", "-batch"]].concat(),
        Duration::from_secs(300),
    );
    assert_eq!(ran.status, Some(0), "{ran:?}");
    since.elapsed().as_secs_f64()
}

#[test]
#[ignore = "a computation of ten seconds"]
fn what_takes_long_to_replay_is_opened_at_once() {
    needs!("gdb");
    let place = Place::new("kept-speed");
    let program = compile(&place, "threads", THREADS, &["-O1"]);
    record(&place, &[&program, "100000"]);
    let plain = seconds_to_open(&place, &["--no-checkpoints"]);
    place.run_within(&["checkpoint", "--at", "exit"], Duration::from_secs(300));
    let kept = seconds_to_open(&place, &[]);
    println!("opened in {kept:.2} s in place of {plain:.2} s");
    assert!(kept < plain / 5.0, "{kept} s in place of {plain} s");
}
