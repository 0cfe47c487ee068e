//! The common parts of record and replay: the session's shared memory, the runtime's image, and the
//! patched images of files.

#![forbid(unsafe_code)]
// These macros panic when the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod dropped;
pub mod files;
mod image_note;
pub mod parallel;
mod processor;
pub mod runtime;
pub mod session;
pub mod vdso;
pub mod worker;

pub use files::FileTable;
pub use processor::this_processor;
pub use session::{NEEDED_SEGMENTS, Options, Session, SessionError};
