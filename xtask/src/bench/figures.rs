//! The figures of a workload, and what came of taking them.

use std::path::Path;

use super::Result;
use super::gate::Finding;
use super::machine::is_present;
use super::mode::Mode;
use super::scratch::folder_bytes;
use super::statistics::Series;
use super::workload::{Baseline, Workload};

/// Whether there are figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Not tried, and why.
    Skipped(String),
    /// A run failed, and how. Figures are those until then.
    Failed(String),
}

impl Outcome {
    /// What a measurement that ended so came to.
    pub fn of(ended: Result<()>) -> Self {
        match ended {
            Ok(()) => Self::Done,
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    /// Skipped, if one of `required` is not there.
    pub fn without<T: AsRef<str>>(required: &[T]) -> Option<Self> {
        let missing = required.iter().map(T::as_ref).find(|what| !is_present(what))?;
        Some(Self::Skipped(format!("{missing} is not there")))
    }

    /// Why there are no figures, if there are none, in words.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Skipped(reason) => Some(format!("skipped: {reason}")),
            Self::Failed(reason) => Some(format!("FAILED: {reason}")),
        }
    }

    /// The same for the gate.
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
    /// Seconds, by mode, in the order of `Mode::ALL`: of a whole run, or of one request to a
    /// server.
    seconds: [Series; Mode::ALL.len()],
    /// Of a server at half load: microseconds that 99.9 % of the answers kept, by mode.
    latency_us: [Series; Mode::ALL.len()],
    /// strace was stopped: it takes longer than its figures say.
    pub strace_was_stopped: bool,
    /// The highest resident memory of the `retake` process seen in any round, in KB.
    pub record_peak_kb: u64,
    pub replay_peak_kb: u64,
    /// What one recording takes for itself, in bytes: all but `file_bytes`.
    pub log_bytes: u64,
    /// The files that one recording needs, in bytes: once in the store, however many recordings
    /// need them.
    pub file_bytes: u64,
    /// Where the time goes, if that was asked for and a limit exceeded.
    pub profile: String,
}

impl Measured {
    /// No figures yet.
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

    /// What ratios are to.
    pub fn baseline(&self) -> &Series {
        self.seconds(self.baseline_mode())
    }

    pub fn baseline_mode(&self) -> Mode {
        match self.workload.baseline {
            Baseline::Native => Mode::Native,
            Baseline::OneCore => Mode::OneCore,
        }
    }

    /// The median as a multiple of the native one on all cores. Nothing if there are no figures, or
    /// that is too noisy.
    pub fn ratio_to_all_cores(&self, mode: Mode) -> Option<f64> {
        let native = self.seconds(Mode::Native);
        if native.is_noisy() {
            return None;
        }
        Some(self.seconds(mode).median()? / native.median()?)
    }

    /// The median as a multiple of the baseline's. Nothing if there are no figures, or the baseline
    /// is too noisy.
    pub fn ratio(&self, mode: Mode) -> Option<f64> {
        if self.baseline().is_noisy() {
            return None;
        }
        Some(self.seconds(mode).median()? / self.baseline().median()?)
    }

    /// Whether it succeeded, but what it is compared with varies too much.
    pub fn is_noisy(&self) -> bool {
        let compares_all_cores = self.workload.parallel_limits.is_some();
        let is_noisy = self.baseline().is_noisy()
            || (compares_all_cores && self.seconds(Mode::Native).is_noisy());
        self.outcome == Outcome::Done && is_noisy
    }

    /// The latency of the recorded server as a multiple of the baseline's.
    pub fn latency_ratio(&self) -> Option<f64> {
        Some(
            self.latency_us(Mode::Record).median()?
                / self.latency_us(self.baseline_mode()).median()?,
        )
    }

    /// Notes what the recording takes on disk.
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
