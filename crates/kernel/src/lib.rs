//! What the supervisor needs from Linux, as small safe functions and types. All `unsafe` code of
//! the supervisor is in this crate.

// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod alive;
pub mod call_tracer;
pub mod clock;
pub mod confinement;
pub mod context;
pub mod cpuid;
pub mod front;
pub mod futex;
pub mod guardian;
pub mod inheritance;
pub mod lease;
pub mod maps;
pub mod memory;
pub mod pagemap;
pub mod probe;
pub mod process;
pub mod ptrace;
pub mod resource;
pub mod segment;
pub mod shared;
pub mod signals;
mod tell;
pub mod terminal;
pub mod tracee;

use std::io;

/// Turns a C library result of −1 into the error in `errno`.
pub(crate) fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
