//! `retake record --chaos` and `--until-failure`, on the programs of `tests/chaos/`, which have the
//! classic concurrency bugs.
//!
//! Each bug shows up within 1,000 chaos runs. `cargo test --release -p retake --test chaos --
//! --ignored` prints the number of runs that each bug takes. The ordinary tests use only the bugs
//! that show up soon.

mod cli_support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cli_support::{Place, Ran, compile_program};

/// The way in which a program fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Status(i32),
    Signal(i32),
    NeverEnds,
}

const PROGRAMS: [(&str, Failure); 10] = [
    ("aba", Failure::Status(1)),
    ("atomicity_violation", Failure::Status(1)),
    ("deadlock", Failure::NeverEnds),
    ("double_checked", Failure::Status(1)),
    ("if_instead_of_while", Failure::Status(1)),
    ("lost_wakeup", Failure::NeverEnds),
    ("order_violation", Failure::Signal(11)),
    ("semaphore_misuse", Failure::Status(1)),
    ("signal_handler_race", Failure::Status(1)),
    ("use_after_free", Failure::Status(1)),
];

/// The time limit for a run that never ends.
const TIMEOUT: &str = "5";
const STATUS_TIMED_OUT: i32 = 124;
const SIGTERM: i32 = 15;

/// The path of a program's executable, which is compiled once.
fn executable(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("chaos-programs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    });
    let executable = folder.join(name);
    compile_program(&format!("chaos/{name}"), &["-O1", "-g"], &executable);
    executable
}

/// Records under chaos until a run fails, and checks that each replay fails in the same way.
/// Returns the number of the run; `None` if no run failed.
fn hunt(place: &Place, name: &str, failure: Failure, first_seed: u64, runs: u64) -> Option<u64> {
    let executable = executable(name);
    let (seed, runs) = (first_seed.to_string(), runs.to_string());
    let arguments = [
        "record",
        "--chaos",
        "--seed",
        &seed,
        "--until-failure",
        "-n",
        &runs,
        "--timeout",
        TIMEOUT,
        "--",
        executable.to_str().unwrap(),
    ];
    let found = place.run_within(&arguments, std::time::Duration::from_secs(900));
    if found.status == Some(0) {
        assert_eq!(place.recordings(), [""; 0], "{found:?}");
        return None;
    }
    let (status, signal) = match failure {
        Failure::Status(status) => (Some(status), None),
        Failure::Signal(signal) => (None, Some(signal)),
        Failure::NeverEnds => (Some(STATUS_TIMED_OUT), None),
    };
    assert_eq!((found.status, found.signal), (status, signal), "{found:?}");
    let recording = format!("{name}-1");
    let mut kept = place.recordings();
    kept.sort();
    let mut expected = [recording.as_str(), "latest"];
    expected.sort_unstable();
    assert_eq!(kept, expected, "{found:?}");
    assert!(found.stderr.contains(&format!("retake replay {recording}")), "{found:?}");
    for _ in 0..3 {
        let replayed = place.run(&["replay", "--check=full"]);
        let expected =
            if failure == Failure::NeverEnds { (None, Some(SIGTERM)) } else { (status, signal) };
        assert_eq!((replayed.status, replayed.signal), expected, "{replayed:?}");
        assert_eq!(replayed.stdout, last_output(&found), "{name}");
    }
    Some(run_number(&found))
}

/// The output of the last of many runs.
fn last_output(found: &Ran) -> String {
    found
        .stdout
        .lines()
        .last()
        .filter(|_| is_of_failure(found))
        .map_or(String::new(), |line| format!("{line}\n"))
}

/// Whether the last line is from the run that failed. Some programs print nothing on standard
/// output when they fail.
fn is_of_failure(found: &Ran) -> bool {
    let lines = found.stdout.lines().count() as u64;
    lines == run_number(found)
}

fn run_number(found: &Ran) -> u64 {
    let number = found.stderr.split(" in run ").nth(1).and_then(|rest| rest.split(' ').next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no run is named in {found:?}"))
}

#[test]
fn bugs_show_up_and_replay() {
    let place = Place::new("chaos");
    // This bug shows up soonest.
    let name = "semaphore_misuse";
    let (_, failure) = PROGRAMS.into_iter().find(|(known, _)| *known == name).unwrap();
    assert!(hunt(&place, name, failure, 1, 1000).is_some(), "{name} has not failed");
}

/// Tries all programs.
#[test]
#[ignore = "takes minutes"]
fn every_bug_shows_up_within_a_thousand_runs() {
    for (name, failure) in PROGRAMS {
        let place = Place::new(&format!("chaos-{name}"));
        let run = hunt(&place, name, failure, 1, 1000);
        println!("{name:<22} {}", run.map_or("not found".to_owned(), |run| format!("run {run}")));
        assert!(run.is_some(), "{name} has not failed in 1,000 runs");
    }
}

/// Records a program without a bug under `seeds` seeds. Each recording must replay and print
/// `printed`. Returns the number of times that threads were stopped between events.
fn forced_points(name: &str, seeds: u64, printed: &str) -> u64 {
    let place = Place::new(&format!("chaos-{name}"));
    let executable = executable(name);
    let program = executable.to_str().unwrap();
    let stopped = |seed: u64| {
        let (name, seed) = (format!("of-{seed}"), seed.to_string());
        let recorded = place.run(&["record", "--chaos", "--seed", &seed, "-o", &name, program]);
        let replayed = place.run(&["replay", "--check=full", &name]);
        for ran in [&recorded, &replayed] {
            assert_eq!((ran.status, &*ran.stdout), (Some(0), printed), "seed {seed}: {ran:?}");
        }
        let told = place.run_json(&["info", "--json", &name]);
        told["metadata"]["outcome"]["counters"]["forced_points"].as_u64().unwrap()
    };
    (1..=seeds).map(stopped).sum()
}

/// To bring a thread over an instruction, the runtime often executes a copy of it elsewhere. The
/// program must not see that.
#[test]
fn faults_are_told_where_they_are() {
    let printed = "1200 faults, 2836793135111181443\n";
    assert!(forced_points("fault_addresses", 8, printed) > 100);
}

/// If the forcing signal swallows an instruction's own signal, the instruction raises it again.
/// When the thread stops before the instruction, that has already set the flags of mxcsr.
#[test]
fn a_fault_may_come_together_with_what_forces() {
    let printed = "1000 faults, 0 without the flag\n";
    assert!(forced_points("simd_faults", 3, printed) > 100);
}
