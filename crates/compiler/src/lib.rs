//! `retake cc` and `retake c++`: compilers whose output says which plain instructions synchronise
//! threads (CASTOR, section 3.1), so that they are recorded as operations. `docs/COMPILER.md`.
//!
//! gcc is asked to write what it knows of each instruction into its assembly (`-dP`), and to call
//! us as its assembler (`-B`). There every instruction that reads or writes an atomic or `volatile`
//! variable gets an entry in a section of its own; the code itself stays as it was.

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod assembler;
mod driver;
mod filter;
mod inline;
mod places;

pub use assembler::{assemble, is_called_as_assembler};
pub use driver::{CompilerError, Language, compile};
