//! Images of processes: files that hold a process, from which another session can restore it.
//!
//! * `description`: the parts of an image other than the contents of memory; `pieces`: their form
//!   in the file.
//! * `pages`, `write`: writing an image, from a copy of the process.
//! * `recorded`: images made while recording, of a copy of the process or of the process itself;
//!   `shared`: the memory that it shares; `spool`: its other memory, if it goes on.
//! * `filters`: the program's filters for system calls, which belong to the session and not to a
//!   process.
//! * `restore`: making a process from an image.

mod description;
mod filters;
mod pages;
pub mod pieces;
pub mod recorded;
mod restore;
mod shared;
mod spool;
pub mod summary;
mod write;

pub use restore::{Surroundings, restore};
pub use shared::SharedMemory;
pub use summary::{Fate, Group, Summary};
pub use write::{Image, Known};

use std::io;

/// Why an image cannot be made or restored.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Another session could not make the same process.
    #[error("{0}")]
    Refused(String),
    /// The file is damaged, or cannot be written.
    #[error(transparent)]
    Recording(#[from] retake_recording::Error),
    /// The machine refused something.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The result of a function on images.
pub type Result<T> = std::result::Result<T, ImageError>;
