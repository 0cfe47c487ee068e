//! What can go wrong when a file is examined or a cached image is read.

use thiserror::Error;

/// Why a file could not be examined at all. A file that merely has nothing to patch is not an error: see [`crate::Verdict`].
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum PatchError {
    /// The bytes do not start with a 64-bit little-endian ELF header.
    #[error("not a 64-bit little-endian ELF file")]
    NotElf,
    /// The file is for another machine, or is neither a program nor a library.
    #[error("ELF machine {machine}, type {file_type}: not an x86-64 program or shared library")]
    Unsuitable {
        /// `e_machine` of the header.
        machine: u16,
        /// `e_type` of the header.
        file_type: u16,
    },
    /// A header contradicts itself or the length of the file.
    #[error("malformed ELF file: {what} (at {position:#x})")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// File offset or address concerned.
        position: u64,
    },
    /// A vDSO without a single function that can be replaced.
    #[error("the vDSO has no function to replace")]
    EmptyVdso,
}

/// Why a cached image was not accepted. The remedy is always to build it anew.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum CacheError {
    /// The bytes are not a cached image.
    #[error("not a cached image")]
    NotAnImage,
    /// Written by another version of the patcher or of the format.
    #[error("cached image of format {format}, patcher {patcher}; this is another version")]
    OtherVersion {
        /// Format version found.
        format: u32,
        /// Patcher version found.
        patcher: u32,
    },
    /// The checksum does not match.
    #[error("cached image is damaged: checksum mismatch")]
    Damaged,
    /// A field has a value that no writer produces.
    #[error("cached image is malformed: {what} (at byte {position})")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Offset in the payload.
        position: usize,
    },
}
