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
}

impl Mode {
    /// All of them; each indexes its own figures.
    pub const ALL: [Self; 5] = [Self::Native, Self::OneCore, Self::Strace, Self::Record, Self::Replay];

    /// What it is called in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::OneCore => "one_core",
            Self::Strace => "strace",
            Self::Record => "record",
            Self::Replay => "replay",
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
