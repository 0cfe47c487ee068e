//! Errors of examining a file and of reading a cached image.

use thiserror::Error;

/// The reason why a file could not be examined at all. A file with nothing to patch is no error:
/// see [`crate::Verdict`].
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
        /// The error.
        what: &'static str,
        /// The file offset or address of the error.
        position: u64,
    },
    /// A vDSO without a single function that can be replaced.
    #[error("the vDSO has no function to replace")]
    EmptyVdso,
}
