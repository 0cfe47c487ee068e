//! Known faults that are not fixed yet. Each test states what must hold one day; see
//! `retake_testing::known`. A fix moves the test to where it belongs. The programs are in
//! `tests/faults/`.

mod cli_support;

use std::time::Duration;

use cli_support::{Place, compile_with};
use retake_testing::{known_failure, needs};

/// The time limit of a recording or a replay, on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

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
