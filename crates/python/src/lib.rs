//! The frames of CPython's threads, read from the memory of a process.
//!
//! * `layout`: where the structures of a version have their fields.
//! * `interpreter`: the threads, their frames, and the variables of a frame.
//! * `lines`: the line of an instruction, from the tables in code objects.
//! * `object`: the types of objects, strings, and containers.
//! * `shown`: values as Python shows them.
//!
//! The memory is a stranger's. It may contain anything, so every loop has a limit, every address is
//! only ever read through [`Memory`], and what makes no sense is left out.
//!
//! This crate deliberately calls nothing in the process, and needs no symbols but the address of
//! `_PyRuntime`. It does not know native stacks: [`Entry::stack`] says where in such a stack the
//! evaluation of frames lies, as far as the version tells.
#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod interpreter;
mod layout;
mod lines;
mod memory;
mod object;
mod shown;

pub use interpreter::{Entry, Exception, Frame, Interpreter, Stack, Variable};
pub use layout::{NEWEST, OLDEST, PythonError, Version};
pub use memory::{Memory, Reader};
