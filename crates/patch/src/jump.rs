//! The jumps that lead from the text to stubs.

/// Bytes of `jmp rel32`.
pub(crate) const JUMP_BYTES: u64 = 5;

/// Bytes of `jmp rel8`.
pub(crate) const SHORT_JUMP_BYTES: u64 = 2;

/// How control gets from the text to the stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jump {
    /// By a 5-byte jump.
    Near,
    /// By a 2-byte jump to padding, where the 5-byte jump is.
    ByWayOf {
        /// Where in the padding.
        pad: u64,
    },
}

/// Bytes to write, and the address to write them to.
pub(crate) type Patch = (u64, Vec<u8>);
