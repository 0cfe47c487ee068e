//! A piece of text that belongs to one function.

/// A range of text to be decoded from its start. Ranges do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub start: u64,
    pub end: u64,
}
