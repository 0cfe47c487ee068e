//! The figures of a workload, and the outcome of measuring it.

use std::path::Path;

use super::Result;
use super::gate::Finding;
use super::machine::is_present;
use super::mode::Mode;
use super::scratch::folder_bytes;
use super::statistics::Series;
use super::workload::{Baseline, Workload};

/// The outcome of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It was not tried, for this reason.
    Skipped(String),
    /// A run failed, for this reason. The figures are those of the runs before.
    Failed(String),
}

impl Outcome {
    /// Returns the outcome of a measurement that ended in this way.
    pub fn of(ended: Result<()>) -> Self {
        match ended {
            Ok(()) => Self::Done,
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    /// Returns `Skipped` if one of `required` is missing.
    pub fn without<T: AsRef<str>>(required: &[T]) -> Option<Self> {
        let missing = required.iter().map(T::as_ref).find(|what| !is_present(what))?;
        Some(Self::Skipped(format!("{missing} is not there")))
    }

    /// Returns in words why there are no figures.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Skipped(reason) => Some(format!("skipped: {reason}")),
            Self::Failed(reason) => Some(format!("FAILED: {reason}")),
        }
    }

    /// Returns the same for the gate.
    pub fn finding(&self) -> Option<Finding> {
        match self {
            Self::Done => None,
            Self::Skipped(reason) => Some(Finding::Skipped(reason.clone())),
            Self::Failed(reason) => Some(Finding::Failed(reason.clone())),
        }
    }
}

/// The figures of a workload.
#[derive(Debug, Clone)]
pub struct Measured {
    pub workload: Workload,
    pub outcome: Outcome,
    /// Seconds by mode, in the order of `Mode::ALL`: of a whole run, or of one request to a server.
    seconds: [Series; Mode::ALL.len()],
    /// For servers, the 99.9th percentile of latency at half load, in microseconds by mode.
    latency_us: [Series; Mode::ALL.len()],
    /// Whether strace was stopped. Its real time is longer than its figures then.
    pub strace_was_stopped: bool,
    /// The highest resident memory of the `retake` process seen in any round, in KB.
    pub record_peak_kb: u64,
    pub replay_peak_kb: u64,
    /// The size of one recording in bytes, without `file_bytes`.
    pub log_bytes: u64,
    /// The size of the files that one recording needs, in bytes. The store keeps them once for all
    /// recordings.
    pub file_bytes: u64,
    /// The profile, if it was requested and a limit was exceeded.
    pub profile: String,
}

impl Measured {
    /// Makes an entry without figures.
    pub fn new(workload: &Workload) -> Self {
        Self {
            workload: workload.clone(),
            outcome: Outcome::Done,
            seconds: std::array::from_fn(|_| Series::default()),
            latency_us: std::array::from_fn(|_| Series::default()),
            strace_was_stopped: false,
            record_peak_kb: 0,
            replay_peak_kb: 0,
            log_bytes: 0,
            file_bytes: 0,
            profile: String::new(),
        }
    }

    pub fn seconds(&self, mode: Mode) -> &Series {
        &self.seconds[mode as usize]
    }

    pub fn seconds_mut(&mut self, mode: Mode) -> &mut Series {
        &mut self.seconds[mode as usize]
    }

    pub fn latency_us(&self, mode: Mode) -> &Series {
        &self.latency_us[mode as usize]
    }

    pub fn latency_us_mut(&mut self, mode: Mode) -> &mut Series {
        &mut self.latency_us[mode as usize]
    }

    /// Returns the series that ratios refer to.
    pub fn baseline(&self) -> &Series {
        self.seconds(self.baseline_mode())
    }

    pub fn baseline_mode(&self) -> Mode {
        match self.workload.baseline {
            Baseline::Native => Mode::Native,
            Baseline::OneCore => Mode::OneCore,
        }
    }

    /// Returns the median as a multiple of the native one on all cores. `None` without figures, or
    /// if the native ones are too noisy.
    pub fn ratio_to_all_cores(&self, mode: Mode) -> Option<f64> {
        let native = self.seconds(Mode::Native);
        if native.is_noisy() {
            return None;
        }
        Some(self.seconds(mode).median()? / native.median()?)
    }

    /// Returns the median as a multiple of the baseline's. `None` without figures, or if the
    /// baseline is too noisy.
    pub fn ratio(&self, mode: Mode) -> Option<f64> {
        if self.baseline().is_noisy() {
            return None;
        }
        Some(self.seconds(mode).median()? / self.baseline().median()?)
    }

    /// Returns whether the workload succeeded, but a series that ratios refer to varies too much.
    pub fn is_noisy(&self) -> bool {
        let compares_all_cores = self.workload.parallel_limits.is_some();
        let is_noisy = self.baseline().is_noisy()
            || (compares_all_cores && self.seconds(Mode::Native).is_noisy());
        self.outcome == Outcome::Done && is_noisy
    }

    /// Returns the latency of the recorded server as a multiple of the baseline's.
    pub fn latency_ratio(&self) -> Option<f64> {
        Some(
            self.latency_us(Mode::Record).median()?
                / self.latency_us(self.baseline_mode()).median()?,
        )
    }

    /// Notes the sizes of the recording on disk.
    pub fn note_sizes(&mut self, recording: &Path) {
        self.file_bytes = folder_bytes(&recording.join("files"));
        self.log_bytes = folder_bytes(recording) - self.file_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_baseline() {
        let mut measured = Measured::new(&Workload::default());
        assert_eq!(measured.ratio(Mode::Record), None);
        measured.seconds_mut(Mode::Native).push(2.0);
        measured.seconds_mut(Mode::Record).push(3.0);
        assert_eq!(measured.ratio(Mode::Record), Some(1.5));
        measured.workload.baseline = Baseline::OneCore;
        assert_eq!(measured.ratio(Mode::Record), None);
        measured.seconds_mut(Mode::OneCore).push(6.0);
        assert_eq!(measured.ratio(Mode::Record), Some(0.5));
        measured.seconds_mut(Mode::OneCore).push(9.0);
        measured.seconds_mut(Mode::OneCore).push(6.0);
        assert_eq!(measured.ratio(Mode::Record), None, "noisy");
    }
}
