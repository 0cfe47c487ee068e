//! The frames of JavaScript in V8, as Node.js has it.
//!
//! * `layout`: what V8 says about its structures.
//! * `object`: strings, functions and scripts.
//! * `positions`: the tables of positions in scripts.
//! * `stack`: the frames.

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
    /// Where code lies that it has made.
    made: Vec<Range<u64>>,
}

impl<'a> Node<'a> {
    /// The engine of a process, by its layout. `made` is the executable memory that no file has.
    pub fn new(memory: &'a dyn Memory, layout: Layout, made: Vec<Range<u64>>) -> Self {
        Self { reader: Reader(memory), layout, made }
    }
}
