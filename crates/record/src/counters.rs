//! What is counted while a program is recorded.

use std::sync::atomic::AtomicU64;

/// Counts for `retake info`.
#[derive(Debug, Default)]
pub struct Counters {
    /// Times a tracee stood still for us.
    pub stops: AtomicU64,
    /// Successful execs.
    pub execs: AtomicU64,
    /// Files that were mapped and could not be stored.
    pub unstored: AtomicU64,
    /// Images that were written, and those that could not be.
    pub images: AtomicU64,
    pub images_refused: AtomicU64,
}
