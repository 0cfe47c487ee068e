//! Recording threads that run side by side, and replaying them.

use std::time::Duration;

use super::{Place, Ran};

/// How long a recording or a replay may take.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Records a program under the sync policy.
pub fn record(place: &Place, command: &[&str]) -> Ran {
    let arguments = [&["record", "--policy", "sync", "--"], command].concat();
    place.run_within(&arguments, LIMIT)
}

/// Records a program some times, and replays each recording twice: the same output and status, and
/// the same memory in the end. How many different outputs there were.
pub fn repeats(place: &Place, command: &[&str], runs: usize) -> usize {
    let mut outputs: Vec<String> = Vec::new();
    for run in 0..runs {
        let recorded = record(place, command);
        assert_eq!(recorded.stderr, "", "run {run}: {recorded:?}");
        for _ in 0..2 {
            let replayed = place.run_within(&["replay"], LIMIT);
            assert_eq!(
                (replayed.stderr.as_str(), replayed.status),
                ("", recorded.status),
                "run {run}: {replayed:?}"
            );
            assert_eq!(replayed.stdout, recorded.stdout, "run {run}");
        }
        outputs.push(recorded.stdout);
    }
    outputs.sort();
    outputs.dedup();
    outputs.len()
}
