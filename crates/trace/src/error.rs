//! What can go wrong while tracing.

use std::io;

/// Why tracing failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started or followed in-process.
    #[error(transparent)]
    Record(#[from] retake_record::RecordError),
    /// A recording could not be replayed, which is how its calls' inputs come to light.
    #[error(transparent)]
    Replay(#[from] retake_replay::ReplayError),
    /// The replay did something else than the recording says.
    #[error("the recording does not replay, so what its calls were given is not known\n{0}")]
    Diverged(Box<retake_replay::Report>),
    /// What was captured could not be kept or read.
    #[error(transparent)]
    Recording(#[from] retake_recording::Error),
    /// An event that no thread of a traced program writes.
    #[error(
        "event {index} of stream {stream} is malformed: {error}\n  likely    the recording is \
        damaged, or another version of retake made it"
    )]
    Malformed {
        /// Where.
        stream: u32,
        /// Number of the event in the stream.
        index: u64,
        /// What is wrong with it.
        error: retake_model::EventError,
    },
    /// The program could not be executed.
    #[error("cannot run {program}: {source}")]
    Exec {
        /// What was to be run.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// ptrace is forbidden, or the process is traced by somebody else.
    #[error(
        "cannot attach to {whom}: {source}\n  likely    this machine forbids tracing (seccomp \
        profile, kernel.yama.ptrace_scope), or a debugger has it\n  try       retake doctor"
    )]
    Attach {
        /// The program or process.
        whom: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no such process.
    #[error("there is no process {0}\n  try       ps -e, which lists them")]
    NoProcess(i32),
    /// Tracing from the kernel was left out of this build.
    #[error(
        "this retake was built without tracing from the kernel\n  try       cargo build --release \
        -p retake --features ebpf, or --method ptrace"
    )]
    LeftOut,
    /// Calls cannot be seen from the kernel.
    #[cfg(feature = "ebpf")]
    #[error(transparent)]
    Kernel(#[from] retake_trace_ebpf::Error),
    /// What the machine refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Short for a result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
