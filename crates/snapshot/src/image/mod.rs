//! Images of processes: all that makes one, in a file, so that another session can make the same of
//! a process of its own.
//!
//! * `description`: what is in one beside the contents of memory; `pieces`: how that is written.
//! * `pages`, `write`: writing one, from a copy of the process.
//! * `filters`: those of the program for its system calls, which no process has for itself.
//! * `restore`: making a process of it.

mod description;
mod filters;
mod pages;
pub mod pieces;
pub mod recorded;
mod restore;
pub mod summary;
mod write;

pub use restore::{Surroundings, restore};
pub use summary::{Fate, Summary};
pub use write::Image;

use std::io;

/// Why there is no image, or no process can be made of one.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Another session could not make the same.
    #[error("{0}")]
    Refused(String),
    /// The file is damaged, or cannot be written.
    #[error(transparent)]
    Recording(#[from] retake_recording::Error),
    /// Something the machine refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, ImageError>;
