//! The errors of tracing.

use std::io;

/// The reason why tracing failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started or followed in-process.
    #[error(transparent)]
    Record(#[from] retake_record::RecordError),
    /// A recording could not be replayed. Replay is needed to get the inputs of its calls.
    #[error(transparent)]
    Replay(#[from] retake_replay::ReplayError),
    /// The replay did not do what the recording says.
    #[error(
        "the recording cannot be replayed, so the data that its calls were given are not \
        known\n{0}"
    )]
    Diverged(Box<retake_replay::Report>),
    /// Captured data could not be kept or read.
    #[error(transparent)]
    Recording(#[from] retake_recording::Error),
    /// An event that no thread of a traced program can have written.
    #[error(
        "event {index} of stream {stream} is malformed: {error}\n  likely    the recording is \
        damaged, or another version of retake made it"
    )]
    Malformed {
        /// The stream with the event.
        stream: u32,
        /// The number of the event in the stream.
        index: u64,
        /// The defect.
        error: retake_model::EventError,
    },
    /// The program could not be executed.
    #[error("cannot run {program}: {source}")]
    Exec {
        /// The program.
        program: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// ptrace is forbidden, or another tracer has the process.
    #[error(
        "cannot attach to {whom}: {source}\n  likely    this machine forbids tracing (seccomp \
        profile, kernel.yama.ptrace_scope), or a debugger has it\n  try       retake doctor"
    )]
    Attach {
        /// The program or process.
        whom: String,
        /// The kernel's error.
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
    /// The kernel refuses our eBPF programs.
    #[cfg(feature = "ebpf")]
    #[error(transparent)]
    Kernel(#[from] retake_trace_ebpf::Error),
    /// An error of the operating system.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
