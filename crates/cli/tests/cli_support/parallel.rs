//! Records threads that run in parallel, and replays them.

use std::time::Duration;

use super::{Place, Ran};

/// The time limit of a recording or a replay.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Records a program under the sync policy.
pub fn record(place: &Place, command: &[&str]) -> Ran {
    let arguments = [&["record", "--policy", "sync", "--check=full", "--"], command].concat();
    place.run_within(&arguments, LIMIT)
}

/// Records a program `runs` times, and replays each recording twice. Output, status and final
/// memory must be the same. Returns the number of different outputs.
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
