//! The jumps that lead from the text to stubs.

/// Bytes of `jmp rel32`.
pub(crate) const JUMP_BYTES: u64 = 5;

/// Bytes of `jmp rel8`.
pub(crate) const SHORT_JUMP_BYTES: u64 = 2;

/// The way from the text to the stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jump {
    /// A 5-byte jump.
    Near,
    /// A 2-byte jump to padding, where the 5-byte jump is.
    ByWayOf {
        /// Address in the padding.
        pad: u64,
    },
}

/// An edit: the address, and the bytes to write there.
pub(crate) type Patch = (u64, Vec<u8>);
