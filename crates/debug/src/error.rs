//! What can go wrong while debugging.

use retake_snapshot::image::ImageError;
use std::io;

/// Why a debugging session could not be set up or go on.
#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    /// The replay could not be started.
    #[error(transparent)]
    Replay(#[from] retake_replay::ReplayError),
    /// The recording could not be read.
    #[error("cannot read the recording: {0}")]
    Recording(#[from] retake_recording::Error),
    /// The replay did something that the recording does not say.
    #[error("{0}")]
    Diverged(Box<retake_replay::Report>),
    /// The recording has no such process.
    #[error("the recording has no process {0}\n  try       retake ps, which lists them")]
    NoSuchProcess(String),
    /// There is no such place.
    #[error("{0}")]
    NoPlace(String),
    /// A checkpoint cannot be kept here.
    #[error("no checkpoint can be kept here: {0}")]
    CannotKeep(String),
    /// The replay ended before the process to be debugged began.
    #[error(
        "the replay ended before process {0} began\n  likely    the recording was cut, or is \
        damaged: see retake info"
    )]
    NeverBegan(i32),
    /// The machine forbids tracing.
    #[error(
        "cannot trace the replayed process: {0}\n  likely    ptrace is forbidden here: see \
        /proc/sys/kernel/yama/ptrace_scope, or the container's seccomp profile"
    )]
    Trace(#[source] io::Error),
    /// The machine refused something.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The debugger sent something malformed.
    #[error("the connection to the debugger failed: {0}")]
    Protocol(String),
}

/// The result of a debugging function.
pub type Result<T> = std::result::Result<T, DebugError>;

impl From<ImageError> for DebugError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Refused(why) => Self::CannotKeep(why),
            ImageError::Recording(error) => Self::Recording(error),
            ImageError::System(error) => Self::System(error),
        }
    }
}
