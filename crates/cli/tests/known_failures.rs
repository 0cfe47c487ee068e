//! Faults that are known and not mended yet. Each test is written as it shall pass one day; see
//! `retake_testing::known`. Whoever mends a fault moves its test to where it belongs. The programs
//! are in `tests/faults/`.

mod cli_support;

use std::fs;
use std::time::{Duration, Instant};

use cli_support::{Place, compile_fault, compile_with};
use retake_testing::{known_failure, needs};

/// Longer than any of these programs takes, recorded or replayed, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(20);

/// The recording replays as it was printed, twice.
fn replays(place: &Place, stdout: &str, status: i32) {
    for _ in 0..2 {
        let ran = place.run_within(&["replay", "--check=full"], LIMIT);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(status), stdout), "{ran:?}");
    }
}

#[test]
fn a_recording_that_attacks_touches_nothing() {
    let place = Place::new("known-attack");
    let program = compile_fault(&place, "attacker", &[]);
    let target = place.work("../outside").to_str().unwrap().to_owned();
    known_failure!(1, || {
        place.run_within(&["record", "--", &program, &target], LIMIT);
        let _ = fs::remove_file(&target);
        place.run_within(&["replay"], LIMIT);
        assert!(fs::metadata(&target).is_err(), "the replay has made a file outside");
    });
}

#[test]
fn plain_atomics_replay_in_parallel() {
    needs!("two cores");
    let place = Place::new("known-atomics");
    let executable = place.work("ring");
    compile_with("g++", "faults/ring.cc", &["-O2", "-pthread"], &executable);
    let program = executable.to_str().unwrap();
    known_failure!(5, || {
        let recorded = place.run_within(&["record", "--policy", "sync", program], LIMIT);
        assert_eq!(recorded.status, Some(0), "{recorded:?}");
        let replayed = place.run_within(&["replay"], LIMIT);
        assert_eq!(
            (replayed.status, &replayed.stdout),
            (Some(0), &recorded.stdout),
            "{}",
            replayed.stderr
        );
    });
}

#[test]
fn a_sparse_file_is_recorded_in_no_time() {
    let place = Place::new("known-sparse");
    let program = compile_fault(&place, "sparse", &[]);
    known_failure!(1, || {
        let start = Instant::now();
        let recorded = place.run_within(&["record", &program], 3 * LIMIT);
        let took = start.elapsed();
        assert_eq!(recorded.stdout, "data 0\n", "{recorded:?}");
        assert!(took < Duration::from_secs(2), "it took {took:?}");
        replays(&place, "data 0\n", 0);
    });
}
