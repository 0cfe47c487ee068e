//! Judges whether a workload kept its limits.

use super::figures::Measured;
use super::gate::Finding;
use super::mode::Mode;

/// The ratio above which replay counts as slower than its recording. A program that only computes
/// takes the same time in both, and chance decides which median is higher.
const SAME_RATIO: f64 = 1.02;

/// Returns the verdict in words.
pub fn verdict(measured: &Measured) -> String {
    if let Some(trouble) = measured.outcome.trouble() {
        return trouble;
    }
    if measured.baseline().is_noisy() {
        return "noisy: no verdict".to_owned();
    }
    let exceeded = exceeded(measured);
    if exceeded.is_empty() { "good".to_owned() } else { format!("over: {}", exceeded.join(", ")) }
}

/// Returns the result for the gate.
pub fn finding(measured: &Measured) -> Finding {
    if let Some(finding) = measured.outcome.finding() {
        return finding;
    }
    let (missing, exceeded) = (unmeasured(measured), exceeded(measured));
    if measured.is_noisy() {
        Finding::Noisy
    } else if !missing.is_empty() {
        Finding::Failed(format!("no figure for its limit of {}", missing.join(", ")))
    } else if !exceeded.is_empty() {
        Finding::Over(exceeded.join(", "))
    } else {
        Finding::Good
    }
}

/// A figure with its limit.
struct Limited {
    what: &'static str,
    figure: Option<f64>,
    limit: Option<f64>,
}

/// Returns all figures with limits. A figure is `None` if it is too noisy.
fn limited(measured: &Measured) -> [Limited; 7] {
    let workload = &measured.workload;
    let record = measured.ratio(Mode::Record);
    let replay = measured.ratio(Mode::Replay);
    // The user chooses the policy, so the better one counts.
    let better = |serial, parallel| {
        Some(measured.ratio_to_all_cores(serial)?.min(measured.ratio_to_all_cores(parallel)?))
    };
    let memory_limit_kb = workload.memory_limit_mb * 1000 * 1000 / 1024;
    [
        ("record", record, workload.record_ratio_limit()),
        ("replay", replay, workload.replay_limit),
        ("replay slower than record", replay, record.map(|record| record * SAME_RATIO)),
        (
            "record on all cores",
            better(Mode::Record, Mode::ParallelRecord),
            workload.parallel_limits.map(|limits| limits.0),
        ),
        (
            "replay on all cores",
            better(Mode::Replay, Mode::ParallelReplay),
            workload.parallel_limits.map(|limits| limits.1),
        ),
        ("latency", measured.latency_ratio(), workload.latency_limit),
        ("memory", Some(measured.record_peak_kb as f64), Some(memory_limit_kb as f64)),
    ]
    .map(|(what, figure, limit)| Limited { what, figure, limit })
}

/// Returns the limits that were exceeded. Empty if the figures are too noisy.
pub fn exceeded(measured: &Measured) -> Vec<&'static str> {
    let is_over =
        |it: &Limited| it.figure.zip(it.limit).is_some_and(|(figure, limit)| figure > limit);
    limited(measured).iter().filter(|it| is_over(it)).map(|it| it.what).collect()
}

/// Returns the limits without a figure.
fn unmeasured(measured: &Measured) -> Vec<&'static str> {
    let is_missing = |it: &Limited| it.limit.is_some() && it.figure.is_none();
    limited(measured).iter().filter(|it| is_missing(it)).map(|it| it.what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::Outcome;
    use crate::bench::workload::{Baseline, Workload};

    fn measured(native: &[f64], record: f64, replay: f64) -> Measured {
        let workload = Workload {
            record_limit: Some(1.4),
            latency_limit: Some(2.0),
            memory_limit_mb: 64,
            ..Workload::default()
        };
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

    #[test]
    fn a_gate_is_told_what_came_of_it() {
        let over = |what: &str| Finding::Over(what.to_owned());
        let mut good = measured(&[1.0, 1.1, 0.9], 1.3, 1.2);
        good.workload.latency_limit = None;
        assert_eq!(finding(&good), Finding::Good);
        let mut slow = good.clone();
        slow.seconds_mut(Mode::Record).push(5.0);
        assert_eq!(finding(&slow), over("record"));
        slow.seconds_mut(Mode::Native).push(5.0);
        assert_eq!(finding(&slow), Finding::Noisy, "whatever the ratio is");
        good.outcome = Outcome::Skipped("no xz".to_owned());
        assert_eq!(finding(&good), Finding::Skipped("no xz".to_owned()));
        good.outcome = Outcome::Failed("a crash".to_owned());
        assert_eq!(finding(&good), Finding::Failed("a crash".to_owned()));
    }

    #[test]
    fn a_limit_without_a_figure_is_a_failure() {
        let expected = |what: &str| Finding::Failed(format!("no figure for its limit of {what}"));
        let mut server = measured(&[1.0], 1.0, 1.0);
        assert_eq!(finding(&server), expected("latency"));
        server.workload.latency_limit = None;
        server.workload.parallel_limits = Some((1.2, 1.2));
        assert_eq!(finding(&server), expected("record on all cores, replay on all cores"));
    }

    #[test]
    fn all_cores_may_be_noisy_where_one_is_not() {
        let mut program = measured(&[1.0, 1.0, 2.0], 1.0, 1.0);
        program.workload.latency_limit = None;
        program.workload.baseline = Baseline::OneCore;
        program.seconds_mut(Mode::OneCore).push(2.0);
        assert_eq!(finding(&program), Finding::Good, "nothing is compared with all cores");
        program.workload.parallel_limits = Some((1.2, 1.2));
        assert_eq!(finding(&program), Finding::Noisy);
    }
}
