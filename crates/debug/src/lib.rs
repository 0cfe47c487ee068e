//! Time-travel debugging: a process of a recording is replayed under our control, and a debugger is told about it over the gdb remote protocol.
//!
//! * `process`: the replayed process under ptrace.
//! * `text`: what its text looks like without patches and stubs.
//! * `debuggee`: running it, and what stops it.
//! * `session`: a replay of which one process is debugged.
//! * `checkpoint`, `place`, `timeline`: copies of it, places in it, and getting from one to the other.
//! * `backwards`, `seek`: what users ask for with these.
//! * `gdb`: the protocol.
//!
//! The runtime in the process is invisible to users: a thread that is in it is shown where it called it.

#![forbid(unsafe_code)]

mod backwards;
mod checkpoint;
mod debuggee;
mod error;
mod gdb;
mod place;
mod process;
mod program;
mod remote;
mod scan;
mod seek;
mod session;
mod target;
mod text;
mod timeline;
mod watchpoints;

pub use error::{DebugError, Result};
pub use gdb::{SCRIPT, serve};
pub use session::Session;
pub use target::Target;
