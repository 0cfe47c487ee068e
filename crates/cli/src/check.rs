//! The option `--check`: how often memory is compared.

use clap::ValueEnum;
use retake_recording::CheckLevel;

/// The values of `--check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Wherever possible
    Full,
    /// At some points
    Sampled,
    /// Never
    Off,
}

impl Check {
    /// The runtime options for this level.
    pub fn session_options(self) -> retake_supervisor::Options {
        retake_supervisor::Options {
            check_full: self == Self::Full,
            check_off: self == Self::Off,
            ..retake_supervisor::Options::default()
        }
    }
}

impl From<Check> for CheckLevel {
    fn from(check: Check) -> Self {
        match check {
            Check::Full => Self::Full,
            Check::Sampled => Self::Sampled,
            Check::Off => Self::Off,
        }
    }
}
