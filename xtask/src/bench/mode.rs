//! The ways to run a workload.

/// A way to run a workload, in the order in which a round takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Native,
    /// On one core.
    OneCore,
    Strace,
    Record,
    Replay,
    /// Recorded with `--policy sync`: threads run in parallel.
    ParallelRecord,
    /// That recording, replayed.
    ParallelReplay,
    /// By rr, where it is installed and works.
    RrRecord,
    RrReplay,
}

impl Mode {
    /// All of them; each indexes its own figures.
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

    /// Only a comparison: what it cannot do is not our failure.
    pub fn is_other(self) -> bool {
        matches!(self, Self::Strace | Self::RrRecord | Self::RrReplay)
    }

    /// Whether it runs a recording, not the program.
    pub fn is_replay(self) -> bool {
        matches!(self, Self::Replay | Self::ParallelReplay | Self::RrReplay)
    }

    /// What it is called in files and messages.
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
