//! The errors of trace files.

/// The result of everything fallible in this crate.
pub type Result<T> = std::result::Result<T, TraceError>;

/// The reason why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// An error of the DataSeries file.
    #[error(transparent)]
    File(#[from] retake_dataseries::Error),
    /// A record whose id is not larger than the one before.
    #[error("a record with id {id} cannot follow one with id {last}: ids increase")]
    Order {
        /// The id of the refused record.
        id: u64,
        /// The id of the record before it.
        last: u64,
    },
    /// A DataSeries file without any type of a trace.
    #[error("the file holds no trace of system calls, only {types}; retake ds txt prints it")]
    NotATrace {
        /// Names of some of its types.
        types: String,
    },
    /// One of our own files, of a version that this program does not know.
    #[error(
        "the trace has format version {version}, this program reads version {known}; use a newer \
        retake"
    )]
    Version {
        /// The version in the file.
        version: i32,
        /// The newest version that this program reads.
        known: i32,
    },
    /// The file is legal but would need too much memory.
    #[error(
        "the trace needs more than {limit} bytes of memory at once; retake ds repack \
        --extent-size makes smaller extents of it"
    )]
    Memory {
        /// The most bytes that the caller allows.
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
