//! How long a user of `retake debug` waits, in a computation without events.
//!
//! With `RETAKE_SPEED=1` the program computes for ten seconds, a table is printed, and the limits
//! must be met. That needs an idle machine. Without it, the program is short, and only the limits
//! that hold on any machine are tested.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long going back over a few writes may take on a busy machine.
const MOST_FOR_WRITES: Duration = Duration::from_secs(20);

const BUSY: &str = r#"
#include <stdlib.h>
#include <unistd.h>
int once;
unsigned long rounds, total;
unsigned long mix(unsigned long x, unsigned long i)
{
	return x * 6364136223846793005UL + i;
}
void never(void) { total++; }
int done(unsigned long x) { return x & 7; }
int main(int argc, char **argv)
{
	unsigned long x = 1;
	rounds = strtoul(argv[1], NULL, 10);
	getpid();
	for (unsigned long i = 0; i < rounds; i++) {
		x = mix(x, i);
		if (i == 1000)
			once = 1;
	}
	total = x;
	getpid();
	return done(x);
}
"#;

/// Prints a line for each timed command: its name and the seconds.
const SCRIPT: &str = r#"
import gdb, os, time
def timed(name, command, count=1):
    for _ in range(count):
        since = time.time()
        gdb.execute(command, to_string=True)
        print("timed %s %f" % (name, time.time() - since))
what = os.environ["MEASURED"]
if what == "steps":
    gdb.execute("break done", to_string=True)
    gdb.execute("seek begin", to_string=True)
    gdb.execute("continue", to_string=True)
    gdb.execute("delete")
    gdb.execute("reverse-finish", to_string=True)
    for place in range(2):
        timed("reverse-stepi", "reverse-stepi", 100)
        timed("reverse-step", "reverse-step", 100)
        timed("reverse-next", "reverse-next", 100)
        # And from somewhere in the middle.
        gdb.execute("break mix if i == rounds / 2", to_string=True)
        gdb.execute("reverse-continue", to_string=True)
        gdb.execute("delete")
        gdb.execute("reverse-finish", to_string=True)
if what == "hits":
    gdb.execute("break mix if i * 3 == 77", to_string=True)
    timed("a-million-false-conditions-backwards", "reverse-continue")
    gdb.execute("break done", to_string=True)
    timed("a-million-false-conditions", "continue")
if what == "long":
    timed("last", "last once")
    print("line", gdb.parse_and_eval("once"))
    timed("seek-exit", "seek exit")
if what in ("long", "opened"):
    gdb.execute("break never", to_string=True)
    timed("reverse-continue" if what == "opened" else "reverse-continue-in-a-second-session", "reverse-continue")
"#;

/// Calls a function rarely in a computation that is long enough for several checkpoints.
const RARE: &str = r#"
#include <unistd.h>
unsigned long total;
int calls;
void rare(void) { calls++; }
int main(void)
{
	for (unsigned long i = 0; i < 400000000; i++) {
		total = total * 5 + i;
		if (i == 100 || i == 90000000 || i == 300000000)
			rare();
	}
	_exit(calls);
}
"#;

/// Writes a variable very often, with calls between.
const WRITTEN: &str = r#"
#include <unistd.h>
int written;
int main(void)
{
	for (int i = 0; i < 400000; i++) {
		written = i;
		if (i % 4 == 0)
			getppid();
	}
	_exit(3);
}
"#;

/// Each write stops the process. So going back looks near the end first.
#[test]
fn what_is_written_very_often_is_found_from_its_end() {
    needs!("gdb");
    let place = Place::new("debug-speed-written");
    let program = compile(&place, "written", WRITTEN, &[]);
    record(&place, &[&program]);
    let since = Instant::now();
    let commands = [
        "watch written",
        "reverse-continue",
        "print written",
        "reverse-continue",
        "print written",
        "continue",
        "print written",
    ];
    let text = gdb(&place, &["--at", "end"], &commands);
    in_order(&text, &["$1 = 399998", "$2 = 399997", "$3 = 399998"]);
    // Stopping at all of them twice takes minutes.
    assert!(since.elapsed() < MOST_FOR_WRITES, "{:?}: {text}", since.elapsed());
}

/// All writes come before the last two events, which the thread consumes at once: its turn and the
/// call in which it waits. So no place between events divides them from the end.
#[test]
fn writes_that_no_event_divides_are_counted_as_they_are() {
    needs!("gdb");
    const JOINED: &str = r#"
#include <pthread.h>
#include <unistd.h>
int written;
static void *rest(void *unused)
{
	usleep(100000);
	return unused;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, rest, NULL);
	for (int i = 0; i < 40; i++)
		getppid();
	for (int i = 0; i < 2000; i++)
		written = i;
	pthread_join(thread, NULL);
	_exit(3);
}
"#;
    let place = Place::new("debug-speed-joined");
    let program = compile(&place, "joined", JOINED, &[]);
    record(&place, &[&program]);
    let commands = ["watch written", "reverse-continue", "print written"];
    in_order(&gdb(&place, &["--at", "end"], &commands), &["$1 = 1998"]);
}

/// A loop within one line runs at the program's speed, in both directions. The program takes a
/// second for it; single steps would take hours.
#[test]
fn a_line_that_takes_long_is_one_step() {
    needs!("gdb");
    const LINE: &str = r#"
int twice(int x) { return 2 * x; }
int main(void)
{
	volatile unsigned long total = 0;
	for (unsigned long i = 0; i < 100000000; i++) total += i;
	for (int i = 0; i < 40; i++) total += twice(i);
	return total & 7;
}
"#;
    let place = Place::new("debug-speed-line");
    let program = compile(&place, "line", LINE, &[]);
    record(&place, &[&program]);
    let commands = [
        "break main",
        "continue",
        "next",
        "next",
        "next",
        "print total",
        "reverse-next",
        "print total",
        "reverse-next",
        "print total",
        "next",
        "break twice",
        "next",
        "delete",
        "finish",
    ];
    let since = Instant::now();
    let text = gdb(&place, &[], &[&commands[..], &["next", "next"]].concat());
    in_order(
        &text,
        &[
            "main ()",
            "for (unsigned long",
            "for (int",
            "return total",
            "$1 = 4999999950001560",
            "for (int",
            "$2 = 4999999950000000",
        ],
    );
    in_order(
        &text,
        &[
            "$2 =",
            "for (unsigned long",
            "$3 = 0\n",
            "for (int",
            "twice (x=0)",
            "Value returned",
            "return total",
        ],
    );
    assert!(since.elapsed().as_secs() < 100, "{:?}", since.elapsed());
}

/// Repetitions with calls are skipped, too. Stops are not skipped, and neither is a new call of the
/// function.
#[test]
fn a_line_with_many_calls_is_one_step_back() {
    needs!("gdb");
    const CALLS: &str = r#"
#include <setjmp.h>
static jmp_buf out;
int total;
int step(int i, int limit)
{
	if (i == limit)
		longjmp(out, 1);
	return i;
}
void run(int limit)
{
	for (int i = 0; i < 3000; i++) total += step(i, limit);
	total++;
}
int main(void)
{
	if (setjmp(out) == 0)
		run(50);
	else
		run(-1);
	return 0;
}
"#;
    let place = Place::new("debug-speed-calls");
    let program = compile(&place, "calls", CALLS, &[]);
    record(&place, &[&program]);
    let line = CALLS.lines().position(|line| line.contains("total++")).unwrap() + 1;
    let at_line = format!("break {line}");
    let print = "print total * 10 + (limit < 0)";
    let since = Instant::now();
    let text = gdb(
        &place,
        &[],
        &[
            &at_line,
            "continue",
            "reverse-next",
            print,
            "tbreak step if i == 2990",
            "next",
            "delete",
            "reverse-finish",
            print,
        ],
    );
    in_order(&text, &["$1 = 12251", "step (i=2990", "$2 = 44697801"]);
    let back = ["break step if i == 1500", "reverse-next", "delete", "reverse-finish", print];
    let text = gdb(&place, &[], &[&[at_line.as_str(), "continue"][..], &back].concat());
    in_order(&text, &["step (i=1500", "$1 = 11254751"]);
    // Going back one repetition at a time would take ten times as long. So would letting gdb wait
    // for the follower at each stop.
    assert!(since.elapsed().as_secs() < 40, "{:?}", since.elapsed());
}

/// Copies that search stretches ahead must not skip one with a stop. At a stop, the registers are
/// the program's.
#[test]
fn rare_calls_in_a_long_computation_are_found() {
    needs!("gdb");
    let place = Place::new("debug-speed-rare");
    let program = compile(&place, "rare", RARE, &[]);
    record(&place, &[&program]);
    let (back, print) = ("reverse-continue", "print calls");
    let commands = [
        &["break rare"],
        &[back, print].repeat(3)[..],
        &[back, "continue", print],
        &["seek exit", "delete", "break rare", back, print],
    ]
    .concat();
    let text = gdb(&place, &["--at", "exit"], &commands);
    in_order(
        &text,
        &[
            "$1 = 2",
            "$2 = 1",
            "$3 = 0",
            "No more reverse-execution history",
            "Breakpoint ",
            "$4 = 0",
            "Breakpoint ",
            "$5 = 2",
        ],
    );
    let text = gdb(
        &place,
        &["--at", "exit"],
        &[
            "break rare if calls == 0",
            back,
            print,
            "up",
            "print i",
            "delete",
            "break rare if calls == 7",
            "seek exit",
            back,
        ],
    );
    in_order(&text, &["Breakpoint ", "$1 = 0", "$2 = 100", "No more reverse-execution history"]);
    // Stretches between an earlier session's checkpoints are not skipped, either.
    gdb(&place, &["--at", "exit", "--checkpoint-after", "0"], &[]);
    let text = gdb(
        &place,
        &["--at", "exit"],
        &["break rare", back, print, back, print, back, print, back],
    );
    in_order(
        &text,
        &[
            "$1 = 2",
            "$2 = 1",
            "$3 = 0",
            "No more reverse-execution history",
            "begins at checkpoint",
        ],
    );
}

/// The sorted seconds of each timed command.
type Times = BTreeMap<String, Vec<f64>>;

fn measure(place: &Place, what: &str, times: &mut Times) -> String {
    let script = place.work("measure.py");
    std::fs::write(&script, format!("import os\nos.environ['MEASURED'] = '{what}'\n{SCRIPT}"))
        .unwrap();
    let text = gdb(place, &["--at", "exit"], &[&format!("source {}", script.display())]);
    for line in text.lines().filter_map(|line| line.strip_prefix("timed ")) {
        let (name, seconds) = line.split_once(' ').unwrap();
        times.entry(name.to_owned()).or_default().push(seconds.parse().unwrap());
    }
    times.values_mut().for_each(|all| all.sort_by(f64::total_cmp));
    text
}

fn seconds(act: impl FnOnce()) -> f64 {
    let since = Instant::now();
    act();
    since.elapsed().as_secs_f64()
}

/// The median and the 99th percentile.
fn typical(all: &[f64]) -> (f64, f64) {
    (all[all.len() / 2], all[(all.len() * 99 / 100).min(all.len() - 1)])
}

/// The number of loop repetitions that this processor makes in a second.
fn rounds_in_a_second(program: &str) -> u64 {
    const ROUNDS: u64 = 300_000_000;
    let run = || drop(std::process::Command::new(program).arg(ROUNDS.to_string()).status());
    (ROUNDS as f64 / seconds(run)) as u64
}

/// The seconds for one repetition while gdb's own `record full` records.
fn seconds_of_record_full(program: &str) -> f64 {
    const FEW: u32 = 500;
    const MANY: u32 = 2500;
    let record = |rounds: u32| {
        let mut gdb = std::process::Command::new("gdb");
        gdb.args(["-nx", "-batch"]);
        for command in ["break main", "run", "record full", "break done", "continue"] {
            gdb.args(["-ex", command]);
        }
        // gdb does not know the instructions with which the dynamic linker saves registers.
        gdb.args(["--args", program, &rounds.to_string()]).env("LD_BIND_NOW", "1");
        let output = gdb.output().unwrap();
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("Breakpoint 2, done"),
            "{output:?}"
        );
    };
    (seconds(|| record(MANY)) - seconds(|| record(FEW))) / f64::from(MANY - FEW)
}

#[test]
fn a_user_does_not_wait_long() {
    needs!("gdb");
    let is_full = std::env::var_os("RETAKE_SPEED").is_some();
    let place = Place::new("debug-speed");
    let program = compile(&place, "busy", BUSY, &[]);
    let in_a_second = if is_full { rounds_in_a_second(&program) } else { 10_000_000 };
    let (two_seconds, ten_seconds) =
        ((in_a_second * 2).to_string(), (in_a_second * 10).to_string());
    let mut times = Times::new();
    record(&place, &[&program, &two_seconds]);
    measure(&place, "steps", &mut times);
    record(&place, &[&program, "1000000"]);
    measure(&place, "hits", &mut times);
    let took = seconds(|| record(&place, &[&program, &ten_seconds]));
    if is_full {
        let times_slower = seconds_of_record_full(&program) * in_a_second as f64 * 10.0 / took;
        println!("gdb's record full takes {times_slower:.0} times as long as this recording");
        assert!(times_slower > 1000.0);
    }
    times.insert("replay".to_owned(), vec![seconds(|| drop(place.run(&["replay"])))]);
    times.insert(
        "open-at-the-end".to_owned(),
        vec![seconds(|| drop(place.run(&["debug", "--at", "exit", "--", "-nx", "-batch"])))],
    );
    // The commands for going back from the end must not find an earlier session's checkpoints.
    place.run(&["checkpoint", "--delete", "all"]);
    measure(&place, "opened", &mut times);
    let text = measure(&place, "long", &mut times);
    assert!(text.contains("line 0"), "{text}");
    for (name, all) in &times {
        let (median, most) = typical(all);
        println!("{name:<40} median {median:8.3} s   99 % {most:8.3} s   of {}", all.len());
    }
    let within = |name: &str, median: f64, most: f64| {
        let found = typical(&times[name]);
        assert!(
            found.0 <= median && found.1 <= most,
            "{name}: median and 99th percentile {found:?}"
        );
    };
    // On any machine these limits are far exceeded if the way back is not remembered, or if
    // conditions and pages are not tested in the process.
    let slack = if is_full { 1.0 } else { 4.0 };
    for name in ["reverse-stepi", "reverse-step", "reverse-next"] {
        within(name, 0.1 * slack, 0.5 * slack);
    }
    for name in ["a-million-false-conditions", "a-million-false-conditions-backwards"] {
        within(name, 5.0, 5.0);
    }
    within("last", 3.0, 3.0);
    // These limits need several cores, and the search for ends of stretches only near them. With
    // one core, or a search everywhere, it takes longer than the replay.
    if is_full && std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        within("reverse-continue", 3.0, 3.0);
        within("reverse-continue-in-a-second-session", 3.0, 3.0);
    }
}
