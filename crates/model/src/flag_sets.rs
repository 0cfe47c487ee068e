//! The names of flags and enumerations, by topic.

mod files;
mod memory;
mod network;
mod process;

pub use files::*;
pub use memory::*;
pub use network::*;
pub use process::*;
