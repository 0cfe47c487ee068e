//! What languages have in common.

use retake_python::Frame;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a file of the program exports: where it lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Its address.
    pub at: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Finds what a file of the program exports, by its name.
pub type Exports<'a> = &'a dyn Fn(&str) -> Option<Symbol>;

/// The registers that a stack is followed by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers {
    /// The address of the instruction: for a caller, where the call returns.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
}

/// Where a stack is followed from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start {
    /// The registers there.
    pub registers: Registers,
    /// If a thread stands there itself, what it has in its register `r13`. The pointers of callers
    /// lie on the stack instead.
    pub r13: Option<u64>,
}

/// A native frame of code that a language has made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its registers.
    pub registers: Registers,
    /// Where its code begins.
    pub code: u64,
    /// The language's name for this code.
    pub name: String,
    /// The frames of the language that it executes, the innermost first.
    pub frames: Vec<Frame>,
    /// The registers of its caller.
    pub caller: Registers,
    /// What else the caller has in its registers, as far as this frame keeps it.
    pub kept: BTreeMap<String, u64>,
}

/// A language whose frames are known.
pub trait Language {
    /// Where code lies whose frames [`walk`](Self::walk) knows. Native unwinders do not.
    fn code(&self) -> Vec<Range<u64>>;

    /// The native frames from `start` outwards, as long as they are of such code.
    fn walk(&self, start: Start) -> Vec<Step>;
}
