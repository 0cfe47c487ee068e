//! Computes patched images of x86-64 files. An image is the same text with jumps to stubs in place
//! of the instructions before system calls, and in place of RDTSC, RDTSCP and CPUID. On demand, it
//! also has jumps around code that must be executed by one thread at a time.
//!
//! This crate only turns bytes into bytes. It opens no file, maps no memory and runs nothing. Its
//! input is whatever a recorded program maps, so it is treated as hostile: a malformed file gives
//! an error or fewer sites, never a panic.
//!
//! The rewritten bytes are a pure function of the file's bytes, [`Placement`], [`Options`] and
//! [`PATCHER_VERSION`]. Replay relies on this. `docs/PATCHING.md` explains the rules by which a
//! site is accepted or refused.

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod analysis;
mod atomic;
mod bytes;
mod candidates;
mod choice;
mod chunk;
mod declared;
mod elf;
mod emit;
mod entry;
mod error;
mod flow;
mod functions;
mod gather;
mod image;
mod jump;
mod landing_pads;
mod lazy_binding;
mod looks;
mod passages;
mod pclntab;
mod pointers;
pub mod range;
mod references;
mod scan;
mod sections;
mod spins;
mod stub;
mod survey;
mod telling;
pub mod traced;
mod trapped;
mod vdso;
pub mod watch;
mod windows;

pub use analysis::{CALL_TRAP, COUNTER_TRAPS, CPUID_TRAP, Options, build_image, examine};
pub use declared::{DECLARED_FUNCTION, DECLARED_SECTION};
pub use entry::Entry;
pub use error::PatchError;
pub use image::{
    Image, ImageSegment, Placement, Refusal, RefusedSite, Run, Site, SiteKind, StubInfo, StubPoint,
    Unpatched, UnpatchedReason, Verdict,
};
pub use telling::{is_declared, is_missed, tells_all};
pub use vdso::{
    BOOTSTRAP_BYTES, VdsoEdit, VdsoFunction, VdsoMethod, VdsoPatch, build_vdso_patch,
    without_runtime,
};

/// The version of the patcher. It changes whenever the same input could give a different image, and
/// is part of the name of every cached image.
pub const PATCHER_VERSION: u32 = 19;

/// The version of images: it depends on this patcher, and on the contract's addresses of the
/// runtime's entries and of the fields that stubs use. Cached images of another version are
/// useless.
pub fn image_version() -> String {
    format!("{PATCHER_VERSION}-{:016x}", retake_contract::HASH)
}

/// Bytes of a page, the unit in which the kernel maps files.
pub const PAGE_BYTES: u64 = 4096;

/// The address of the runtime's text in every recorded process. It begins with the table of entries
/// that stubs jump to.
pub use retake_contract::addresses::RUNTIME_TEXT;
