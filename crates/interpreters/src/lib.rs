//! The frames of languages whose code is made, or interpreted, while a program runs. They are read
//! from the memory of its process.
//!
//! * `language`: what languages have in common.
//! * `java`: Java, in HotSpot.
//! * `node`: JavaScript, in Node.js.
//!
//! The memory is a stranger's. It may contain anything, so every loop has a limit, every address is
//! only ever read through [`Memory`](retake_python::Memory), and what makes no sense is left out.
//! Nothing is called in the process. The frames of Python are in a crate of their own.
#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

#[cfg(test)]
mod hostile;
pub mod java;
mod language;
pub mod node;

pub use language::{Exports, Language, Registers, Start, Step, Symbol};
