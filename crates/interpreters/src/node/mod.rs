//! The frames of JavaScript in V8, as Node.js has it.
//!
//! * `layout`: what V8 says about its structures.
//! * `code`: positions in bytecode and in the code that is made of it.
//! * `object`: strings, functions and scripts.
//! * `positions`: the tables of positions in scripts.
//! * `stack`: the frames.

mod code;
mod layout;
mod object;
mod positions;
mod stack;

use retake_python::{Memory, Reader};
use std::ops::Range;

pub use layout::{Layout, MARK, NodeError};

/// The name of the language.
pub const NAME: &str = "JavaScript";

/// An engine in a process.
pub struct Node<'a> {
    reader: Reader<'a>,
    layout: Layout,
    code: Code,
}

/// Where code lies.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// What V8 was built with, and copies of that.
    pub built_in: Vec<Range<u64>>,
    /// What it has made.
    pub made: Vec<Range<u64>>,
}

impl<'a> Node<'a> {
    /// The engine of a process, by its layout.
    pub fn new(memory: &'a dyn Memory, layout: Layout, code: Code) -> Self {
        Self { reader: Reader(memory), layout, code }
    }
}
