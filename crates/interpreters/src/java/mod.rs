//! The frames of Java in HotSpot, the virtual machine of OpenJDK.
//!
//! * `vm`: what the machine says about its structures.
//! * `layout`: those parts of it that frames need.
//! * `code`: what made a piece of code, by its address.
//! * `method`: names and lines of methods.
//! * `compressed`: the numbers in its tables.
//! * `instructions`: how much of its frame a thread has made or given up.
//! * `stack`: the frames.

mod code;
mod compressed;
mod instructions;
mod layout;
mod method;
mod stack;
mod vm;

use crate::language::Exports;
pub use layout::Layout;
use retake_python::{Memory, Reader};
use thiserror::Error;

/// Why the frames of Java cannot be found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JavaError {
    /// The machine has another structure.
    #[error("this version of HotSpot has no {0}")]
    Unknown(String),
}

/// A virtual machine in a process.
pub struct Java<'a> {
    reader: Reader<'a>,
    layout: &'a Layout,
}

impl<'a> Java<'a> {
    /// The machine of a process, by its layout.
    pub fn new(memory: &'a dyn Memory, layout: &'a Layout) -> Self {
        Self { reader: Reader(memory), layout }
    }
}

/// What shows that a file has a virtual machine.
pub const MARK: &str = "gHotSpotVMStructs";

/// The name of the language.
pub const NAME: &str = "Java";

/// Reads the layout of a machine. `None` as long as it is not there.
///
/// # Errors
/// This version is not known.
pub fn layout(memory: &dyn Memory, exports: Exports<'_>) -> Option<Result<Layout, JavaError>> {
    vm::Tables::read(Reader(memory), exports).map(|tables| Layout::of(&tables, Reader(memory)))
}
