//! Errors other than those of the replayed calls.

use std::path::PathBuf;

/// Why a trace could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The root cannot be used.
    #[error("cannot use {} as root: {error}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The tree below the root cannot be read.
    #[error("cannot read what is below the root, at {}: {error}", path.display())]
    Scan {
        /// The path below the root.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// There are too many files below the root.
    #[error("there are more than {maximum} files below {}; give an empty directory, or one with \
    only the files of the trace", path.display())]
    TooLarge {
        /// The directory.
        path: PathBuf,
        /// The limit.
        maximum: u64,
    },
    /// The trace cannot be read.
    #[error("cannot read the trace: {0}")]
    Trace(String),
    /// A thread cannot be made.
    #[error("cannot make a thread: {0}; try fewer with --threads")]
    Thread(std::io::Error),
    /// Trees cannot be compared.
    #[error("cannot compare {}: {error}", path.display())]
    Compare {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
}
