//! `retake record --keep-last`: long recordings of forking programs stay small, and the rest
//! replays.

mod cli_support;

use retake_testing::c::compiler;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cli_support::{Place, Ran};

/// `forker HOW COUNT SLEEP_MS` acts as a server with a process for each connection. It makes COUNT
/// processes one after the other. Each reads 48 kB of noise and prints a line. Then it sleeps, and
/// makes three more.
const FORKER: &str = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
static volatile unsigned *shared;
static void work(int number)
{
	static unsigned char noise[16384];
	unsigned sum = 0;
	int source = open("/dev/urandom", O_RDONLY);
	for (int i = 0; i < 3; i++) {
		if (read(source, noise, sizeof noise) != sizeof noise)
			_exit(3);
		for (unsigned j = 0; j < sizeof noise; j++)
			sum = sum * 31 + noise[j];
	}
	if (shared)
		*shared += sum;
	printf("child %d %08x\n", number, sum);
	fflush(stdout);
}
static void serve(const char *how, const char *self, int number)
{
	int status;
	pid_t pid;
	if (!strcmp(how, "spawn")) {
		char text[16];
		snprintf(text, sizeof text, "%d", number);
		char *arguments[] = { "forker", "child", text, NULL };
		if (posix_spawn(&pid, self, NULL, NULL, arguments, environ))
			exit(4);
	} else if ((pid = fork()) == 0) {
		if (!strcmp(how, "nested") && fork() == 0) {
			work(number + 1000);
			_exit(0);
		}
		work(number);
		if (!strcmp(how, "nested"))
			wait(NULL);
		_exit(number % 7);
	}
	if (waitpid(pid, &status, 0) != pid)
		exit(5);
	printf("served %d: %d\n", number, WEXITSTATUS(status));
	fflush(stdout);
}
int main(int count, char **arguments)
{
	if (count == 3 && !strcmp(arguments[1], "child")) {
		work(atoi(arguments[2]));
		return atoi(arguments[2]) % 7;
	}
	if (!strcmp(arguments[1], "shared"))
		shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int served = atoi(arguments[2]), pause = atoi(arguments[3]);
	for (int i = 0; i < served; i++)
		serve(arguments[1], arguments[0], i);
	struct timespec time = { pause / 1000, pause % 1000 * 1000000L };
	nanosleep(&time, NULL);
	for (int i = 0; i < 3; i++)
		serve(arguments[1], arguments[0], served + i);
	puts("done");
	return 9;
}
"#;

/// A folder with the compiled program.
fn place(test: &str) -> Place {
    let place = Place::new(test);
    fs::write(place.work("forker.c"), FORKER).unwrap();
    let compiled = Command::new(compiler())
        .args(["-O1", "-o"])
        .arg(place.work("forker"))
        .arg(place.work("forker.c"))
        .status();
    assert!(compiled.unwrap().success());
    place
}

/// Records the program. Also returns the largest size that the events file had.
fn record(place: &Place, options: &[&str], how: &str, count: u32, pause_ms: u32) -> (Ran, u64) {
    let events: PathBuf = place.recording("forker-1/events");
    let (largest, has_ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watch = {
        let (largest, has_ended) = (Arc::clone(&largest), Arc::clone(&has_ended));
        std::thread::spawn(move || {
            while !has_ended.load(Ordering::Acquire) {
                largest.fetch_max(
                    fs::metadata(&events).map_or(0, |metadata| metadata.size()),
                    Ordering::AcqRel,
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let (count, pause) = (count.to_string(), pause_ms.to_string());
    let program = place.work("forker");
    let command = [
        &["record", "--check=full"],
        options,
        &["--", program.to_str().unwrap(), how, &count, &pause],
    ]
    .concat();
    let ran = place.run(&command);
    has_ended.store(true, Ordering::Release);
    watch.join().unwrap();
    assert_eq!(ran.status, Some(9), "{ran:?}");
    (ran, largest.load(Ordering::Acquire))
}

/// Replays the recording, which must end as the program did. Returns the output.
fn replay(place: &Place, recording: &str) -> String {
    let ran = place.run(&["replay", "--check=full", recording]);
    assert_eq!(ran.status, Some(9), "{ran:?}");
    assert!(ran.stderr.starts_with("note: left out: "), "{ran:?}");
    ran.stdout
}

/// The lines of the program without those of dropped children, and the number of kept children.
fn without_dropped(all: &str, replayed: &str) -> (String, usize) {
    let kept: Vec<&str> = replayed.lines().filter(|line| line.starts_with("child ")).collect();
    let lines = all.lines().filter(|line| !line.starts_with("child ") || kept.contains(line));
    (lines.map(|line| format!("{line}\n")).collect(), kept.len())
}

fn dropped(place: &Place, name: &str) -> u64 {
    place.run_json(&["info", "--json"])["dropped"][name].as_u64().unwrap_or(0)
}

const LIMIT: u64 = 1 << 20;

#[test]
fn hundreds_of_children_stay_below_the_limit_and_the_rest_replays() {
    for how in ["fork", "spawn", "nested"] {
        let place = place(&format!("keep-{how}"));
        let (ran, largest) = record(&place, &["--keep-last", "1M"], how, 200, 0);
        assert_eq!(ran.stderr, "", "{how}");
        assert!(largest <= LIMIT, "{how}: the events took {largest} bytes");
        let replayed = replay(&place, "latest");
        let (expected, kept) = without_dropped(&ran.stdout, &replayed);
        assert_eq!(replayed, expected, "{how}: what was printed");
        assert!(kept >= 3, "{how}: only {kept} children were kept");
        let gone = dropped(&place, "processes");
        assert!(gone > 100, "{how}: {gone} were dropped");
        let lines = ran.stdout.lines().filter(|line| line.starts_with("child ")).count();
        assert_eq!(dropped(&place, "console_writes") as usize, lines - kept, "{how}");
    }
}

#[test]
fn what_was_left_out_is_said() {
    let place = place("keep-said");
    let (ran, _) = record(&place, &["--keep-last", "1M"], "fork", 120, 0);
    let info = place.run_well(&["info"]);
    assert!(
        info.contains("left out")
            && info.contains("all else can be replayed, except what these processes printed"),
        "{info}"
    );
    assert!(info.contains("keep last 1M"), "{info}");
    place.run_badly(
        &["dump", "--stream", "1"],
        125,
        &["stream 1 was left out while recording", "retake ps"],
    );
    let note: serde_json::Value =
        serde_json::from_str(&place.run(&["dump", "--kind", "dropped", "--json"]).stdout).unwrap();
    assert_eq!(note["streams"][0][0], 1);
    let ps = place.run(&["ps", "--json"]);
    assert!(ps.stderr.contains("left out"), "{ps:?}");
    let processes: serde_json::Value = serde_json::from_str(&ps.stdout).unwrap();
    let listed = processes.as_array().unwrap().len() as u64;
    assert_eq!(listed + dropped(&place, "processes"), 1 + 123);
    assert!(
        processes.as_array().unwrap().iter().all(|process| process["started_ms"].is_number()),
        "{processes}"
    );
    // A packed recording, and an unpacked one, replay in the same way.
    let packed = place.work("packed.retake");
    place.run(&["pack", "-o", packed.to_str().unwrap()]);
    let unpacked = place.work("unpacked");
    assert_eq!(
        place.run(&["unpack", packed.to_str().unwrap(), "-o", unpacked.to_str().unwrap()]).status,
        Some(0)
    );
    let expected = replay(&place, "latest");
    assert_eq!(without_dropped(&ran.stdout, &expected).0, expected);
    for copy in [&packed, &unpacked] {
        assert_eq!(replay(&place, copy.to_str().unwrap()), expected);
    }
    assert_eq!(place.run(&["rm", "latest"]).status, Some(0));
}

#[test]
fn with_a_time_the_last_are_kept() {
    let place = place("keep-time");
    let (ran, _) = record(&place, &["--keep-last", "2s"], "fork", 20, 4500);
    let replayed = replay(&place, "latest");
    let (expected, kept) = without_dropped(&ran.stdout, &replayed);
    assert_eq!(
        (replayed, kept),
        (expected, 3),
        "of 23 children the last three ended in the last two seconds"
    );
    assert_eq!(dropped(&place, "processes"), 20);
}

#[test]
fn who_shares_memory_stays_and_that_is_said() {
    let place = place("keep-shared");
    let (ran, _) = record(&place, &["--keep-last", "1M"], "shared", 40, 0);
    assert!(ran.stderr.contains("the recording outgrows --keep-last"), "{ran:?}");
    let replayed = place.run(&["replay", "--check=full"]);
    assert_eq!((replayed.status, replayed.stdout), (Some(9), ran.stdout));
    assert_eq!(dropped(&place, "processes"), 0);
}

#[test]
fn a_damaged_or_cut_one_gives_an_answer() {
    let place = place("keep-damaged");
    record(&place, &["--keep-last", "1M"], "fork", 100, 0);
    let events = place.recording("forker-1/events");
    let good = fs::read(&events).unwrap();
    const COMMANDS: [&[&str]; 4] =
        [&["info"], &["ps"], &["dump", "--kind", "dropped"], &["replay"]];
    let undamaged = COMMANDS.map(|arguments| place.run(arguments));
    assert_eq!(undamaged[3].status, Some(9), "{undamaged:?}");
    assert!(!undamaged[3].stdout.is_empty(), "{undamaged:?}");
    let check = |bytes: &[u8], what: &str| {
        fs::write(&events, bytes).unwrap();
        for (arguments, undamaged) in COMMANDS.iter().zip(&undamaged) {
            let ran = place.run(arguments);
            let is_replay = arguments[0] == "replay";
            assert!(ran.signal.is_none_or(|signal| is_replay && signal == 9), "{what}: {ran:?}");
            let is_told = ["error: ", "warning: "].iter().any(|word| ran.stderr.contains(word))
                || ran.stdout.contains("warning ");
            assert!(
                is_told || (&ran.stdout, ran.status) == (&undamaged.stdout, undamaged.status),
                "{what}: {ran:?}"
            );
            assert!(!is_replay || undamaged.stdout.starts_with(&ran.stdout), "{what}: {ran:?}");
        }
    };
    for part in 1..6 {
        check(&good[..good.len() * part / 6], &format!("{part} sixths"));
    }
    // The note is the third frame. The metadata and the declaration of the supervisor's stream come
    // before it.
    let note = (0..good.len() - 8)
        .step_by(8)
        .filter(|at| good[*at..].starts_with(b"RTKF"))
        .nth(2)
        .unwrap();
    for at in [note, note + 64, note + 64 + 16, note + 64 + 40] {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        check(&bad, &format!("byte {at}"));
    }
}

#[test]
fn limits_that_mean_nothing_are_refused() {
    let place = Place::new("keep-refused");
    for (limit, part) in [
        ("10m", "10M of bytes or 10min of time?"),
        ("5", "the unit is missing"),
        ("1K", "the least is 1M"),
    ] {
        let ran = place.run(&["record", "--keep-last", limit, "true"]);
        assert!(ran.status != Some(0) && ran.stderr.contains(part), "{ran:?}");
    }
    assert!(place.recordings().is_empty());
}
