//! The modes of running a workload.

/// A mode of running a workload, in the order of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Native,
    /// Natively on one core.
    OneCore,
    Strace,
    Record,
    Replay,
    /// Recorded with `--policy sync`, so that threads run in parallel.
    ParallelRecord,
    /// A replay of that recording.
    ParallelReplay,
    /// Recorded by rr, where it is installed and works.
    RrRecord,
    RrReplay,
}

impl Mode {
    /// All modes. Each one indexes its figures.
    pub const ALL: [Self; 9] = [
        Self::Native,
        Self::OneCore,
        Self::Strace,
        Self::Record,
        Self::Replay,
        Self::ParallelRecord,
        Self::ParallelReplay,
        Self::RrRecord,
        Self::RrReplay,
    ];

    /// Returns whether the mode is only for comparison. Its failures are not ours.
    pub fn is_other(self) -> bool {
        matches!(self, Self::Strace | Self::RrRecord | Self::RrReplay)
    }

    /// Returns whether the mode runs a recording, not the program.
    pub fn is_replay(self) -> bool {
        matches!(self, Self::Replay | Self::ParallelReplay | Self::RrReplay)
    }

    /// Returns its name in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::OneCore => "one_core",
            Self::Strace => "strace",
            Self::Record => "record",
            Self::Replay => "replay",
            Self::ParallelRecord => "parallel_record",
            Self::ParallelReplay => "parallel_replay",
            Self::RrRecord => "rr_record",
            Self::RrReplay => "rr_replay",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_index_their_series() {
        for (index, mode) in Mode::ALL.into_iter().enumerate() {
            assert_eq!(mode as usize, index);
        }
    }
}
