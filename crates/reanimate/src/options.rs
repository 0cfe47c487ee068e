//! How a trace is to be replayed.

use std::num::NonZeroU32;
use std::path::PathBuf;

/// What is compared with the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Results, errors, and what calls return in memory.
    #[default]
    Full,
    /// Results and errors.
    Results,
    /// Nothing.
    None,
}

/// Which calls keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Calls that use the same thing, and one of them changes it.
    #[default]
    Resource,
    /// Also calls that did not overlap in time.
    Overlap,
    /// All, one at a time. Pipes are only simulated.
    Strict,
}

/// When calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Speed {
    /// As soon as possible.
    #[default]
    AsSoonAsPossible,
    /// At the traced times, divided by this.
    Traced(f64),
}

/// Whether to make what the trace needs to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prepare {
    /// If the root is empty.
    #[default]
    Auto,
    /// In any case; what is there already stays, but for bytes that the trace proves to be
    /// different.
    Always,
    /// Never: everything is there.
    Never,
}

/// How to replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that everything happens in. It is made if it is not there.
    pub root: PathBuf,
    /// What is compared.
    pub verify: Verify,
    /// Which calls keep their order.
    pub order: Order,
    /// When calls are made.
    pub speed: Speed,
    /// Whether the beginning is made.
    pub prepare: Prepare,
    /// Threads at most; more traced threads than that share.
    pub threads: NonZeroU32,
    /// Go on after a difference.
    pub keeps_going: bool,
    /// Bytes that one call may reserve on disk.
    pub allocation_limit: u64,
    /// Differences that are kept for the report; all are counted.
    pub maximum_mismatches: usize,
}

impl Options {
    /// The usual way.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            verify: Verify::default(),
            order: Order::default(),
            speed: Speed::default(),
            prepare: Prepare::default(),
            threads: NonZeroU32::MIN.saturating_add(255),
            keeps_going: false,
            allocation_limit: 64 << 30,
            maximum_mismatches: 1000,
        }
    }
}
