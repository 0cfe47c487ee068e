//! Counters of a recording in progress.

use std::sync::atomic::AtomicU64;

/// The counts that `retake info` shows.
#[derive(Debug, Default)]
pub struct Counters {
    /// How often a tracee stopped for the supervisor.
    pub stops: AtomicU64,
    /// Successful execs.
    pub execs: AtomicU64,
    /// Mapped files that could not be stored.
    pub unstored: AtomicU64,
    /// Images that were written, and images that could not be written.
    pub images: AtomicU64,
    pub images_refused: AtomicU64,
}
