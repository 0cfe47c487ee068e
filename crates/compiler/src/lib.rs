//! `retake cc` and `retake c++`: compilers whose output declares which plain instructions
//! synchronise threads (CASTOR, section 3.1). They are recorded as operations. See
//! `docs/COMPILER.md`.
//!
//! gcc writes what it knows about each instruction into its assembly (`-dP`), and calls us as its
//! assembler (`-B`). We add an entry in a separate section for each instruction that accesses an
//! atomic or `volatile` variable. Apart from padding, the code does not change.

#![forbid(unsafe_code)]
// These macros panic when the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod assembler;
mod driver;
mod filter;
mod inline;
mod places;

pub use assembler::{assemble, is_called_as_assembler};
pub use driver::{CompilerError, Language, compile};
