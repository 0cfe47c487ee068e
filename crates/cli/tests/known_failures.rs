//! Faults that are known and not mended yet. Each test is written as it shall pass one day; see
//! `retake_testing::known`. Whoever mends a fault moves its test to where it belongs. The programs
//! are in `tests/faults/`.

mod cli_support;

use std::time::Duration;

use cli_support::{Place, compile_with};
use retake_testing::{known_failure, needs};

/// Longer than any of these programs takes, recorded or replayed, on a machine that is busy.
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
