//! What can go wrong with a trace file.

/// The result of everything fallible in this crate.
pub type Result<T> = std::result::Result<T, TraceError>;

/// Why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file below.
    #[error(transparent)]
    File(#[from] retake_dataseries::Error),
    /// Records come in the order of their ids.
    #[error("a record with id {id} cannot follow one with id {last}: ids increase")]
    Order {
        /// The id that came.
        id: u64,
        /// The id before.
        last: u64,
    },
    /// A DataSeries file without any type of a trace.
    #[error("the file holds no trace of system calls, only {types}; retake ds txt prints it")]
    NotATrace {
        /// Names of some of its types.
        types: String,
    },
    /// Our own file, of a version that this program does not know.
    #[error(
        "the trace has format version {version}, this program reads version {known}; use a newer \
        retake"
    )]
    Version {
        /// As the file says.
        version: i32,
        /// What we read.
        known: i32,
    },
    /// The file is legal but would need too much memory.
    #[error(
        "the trace needs more than {limit} bytes of memory at once; retake ds repack \
        --extent-size makes smaller extents of it"
    )]
    Memory {
        /// What the caller allows.
        limit: u64,
    },
    /// An earlier write failed.
    #[error(
        "an earlier write to this trace failed; retake ds recover saves what was written before"
    )]
    Poisoned,
}

impl From<std::io::Error> for TraceError {
    fn from(error: std::io::Error) -> Self {
        Self::File(error.into())
    }
}
