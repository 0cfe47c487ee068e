//! Whether a workload kept its limits.

use super::measure::{Measured, Outcome};
use super::mode::Mode;

/// Replay counts as slower than its recording only beyond this: a program that only computes takes the same time in both, and
/// which of two equal medians is higher is chance.
const SAME_RATIO: f64 = 1.02;

/// In words.
pub fn verdict(measured: &Measured) -> String {
    match &measured.outcome {
        Outcome::Skipped(reason) => return format!("skipped: {reason}"),
        Outcome::Failed(reason) => return format!("FAILED: {reason}"),
        Outcome::Done => {}
    }
    if measured.baseline().is_noisy() {
        return "noisy: no verdict".to_owned();
    }
    let exceeded = exceeded(measured);
    if exceeded.is_empty() { "good".to_owned() } else { format!("over: {}", exceeded.join(", ")) }
}

/// The limits that were not kept. None if the figures are too noisy to say.
pub fn exceeded(measured: &Measured) -> Vec<&'static str> {
    let workload = &measured.workload;
    let record = measured.ratio(Mode::Record);
    let replay = measured.ratio(Mode::Replay);
    let is_over = |ratio: Option<f64>, limit: Option<f64>| ratio.zip(limit).is_some_and(|(ratio, limit)| ratio > limit);
    // Whoever records chooses the policy.
    let better = |serial, parallel| Some(measured.ratio_to_all_cores(serial)?.min(measured.ratio_to_all_cores(parallel)?));
    let memory_limit_kb = workload.memory_limit_mb * 1000 * 1000 / 1024;
    [
        ("record", is_over(record, workload.record_ratio_limit())),
        ("replay", is_over(replay, workload.replay_limit)),
        ("replay slower than record", is_over(replay, record.map(|record| record * SAME_RATIO))),
        ("record on all cores", is_over(better(Mode::Record, Mode::ParallelRecord), workload.parallel_limits.map(|limits| limits.0))),
        ("replay on all cores", is_over(better(Mode::Replay, Mode::ParallelReplay), workload.parallel_limits.map(|limits| limits.1))),
        ("latency", is_over(measured.latency_ratio(), workload.latency_limit)),
        ("memory", measured.record_peak_kb > memory_limit_kb),
    ]
    .into_iter()
    .filter_map(|(what, is_over)| is_over.then_some(what))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workload::Workload;

    fn measured(native: &[f64], record: f64, replay: f64) -> Measured {
        let workload = Workload { record_limit: Some(1.4), latency_limit: Some(2.0), memory_limit_mb: 64, ..Workload::default() };
        let mut measured = Measured::new(&workload);
        for &figure in native {
            measured.seconds_mut(Mode::Native).push(figure);
        }
        measured.seconds_mut(Mode::Record).push(record);
        measured.seconds_mut(Mode::Replay).push(replay);
        measured
    }

    #[test]
    fn limits_are_compared() {
        let verdict_of = |record, replay| verdict(&measured(&[1.0, 1.1, 0.9], record, replay));
        assert_eq!(verdict_of(1.3, 1.2), "good");
        assert_eq!(verdict_of(1.3, 1.31), "good", "the same, within chance");
        assert_eq!(verdict_of(1.5, 1.2), "over: record");
        assert_eq!(verdict_of(1.3, 1.5), "over: replay slower than record");
        assert_eq!(verdict(&measured(&[1.0, 1.1, 1.6], 9.0, 9.0)), "noisy: no verdict");
        let mut large = measured(&[1.0], 1.0, 1.0);
        large.record_peak_kb = 65 * 1024;
        assert_eq!(verdict(&large), "over: memory");
    }

    #[test]
    fn latencies_have_a_limit_of_their_own() {
        let mut server = measured(&[1.0], 1.0, 1.0);
        server.latency_us_mut(Mode::Native).push(100.0);
        server.latency_us_mut(Mode::Record).push(150.0);
        assert_eq!(verdict(&server), "good");
        server.latency_us_mut(Mode::Record).push(500.0);
        assert_eq!(verdict(&server), "over: latency");
    }
}
