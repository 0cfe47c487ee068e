//! Options of a replay.

use std::num::NonZeroU32;
use std::path::PathBuf;

/// What is compared with the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Results, errors, and the data that calls return in memory.
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
    /// Calls that use the same thing, if one of them changes it.
    #[default]
    Resource,
    /// Calls that did not overlap in time, too.
    Overlap,
    /// All calls, one at a time. Pipes are only simulated.
    Strict,
}

/// When calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Speed {
    /// As soon as possible.
    #[default]
    AsSoonAsPossible,
    /// At the traced times, divided by this factor.
    Traced(f64),
}

/// Whether to make the files that the trace needs at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prepare {
    /// Only if the root is empty.
    #[default]
    Auto,
    /// In any case. Existing files stay, except for bytes that the trace proves to be different.
    Always,
    /// Never: the root has all files.
    Never,
}

/// The options of a replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that everything happens in. It is made if it does not exist.
    pub root: PathBuf,
    /// What is compared.
    pub verify: Verify,
    /// Which calls keep their order.
    pub order: Order,
    /// When calls are made.
    pub speed: Speed,
    /// Whether missing files are made first.
    pub prepare: Prepare,
    /// The most threads. If more were traced, they share these.
    pub threads: NonZeroU32,
    /// Whether the replay goes on after a difference.
    pub keeps_going: bool,
    /// The most bytes that one call may reserve on disk.
    pub allocation_limit: u64,
    /// The most differences that the report keeps. All are counted.
    pub maximum_mismatches: usize,
}

impl Options {
    /// The default options.
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
