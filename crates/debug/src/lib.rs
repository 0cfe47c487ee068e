//! Time-travel debugging: a process of a recording is replayed under our control, and a debugger is
//! told about it over the gdb remote protocol.
//!
//! The replayed process itself, under ptrace, and copies of it, are `retake_snapshot`'s.
//!
//! * `history`: what the recording says about the process: events, times, output, the end.
//! * `inferior`: the process as its user sees it: running it, and what stops it.
//! * `text`: what its text looks like without patches and stubs; `program`, `auxiliary`, `tls`: its
//!   files, what it was told about itself, and its variables.
//! * `stops`, `watchpoints`, `catches`: what stops it for its user.
//! * `replay`: a replay of which one process is debugged; `console`: what it printed.
//! * `place`, `checkpoint`: places in it, and those that can be gone back to; `state`: comparing
//!   two visits of one.
//! * `timeline`: the checkpoints, and going forwards.
//! * `stretch`, `executed`: what is known of the way between two checkpoints; `coverage`: finding
//!   it out beside the process.
//! * `scout`: a copy that goes through such a way; `progress`: how far it has come.
//! * `travel`: going backwards, and to places; `lines`: by lines of the source.
//! * `kept`: checkpoints that outlive the session.
//! * `diversion`: throw-away copies, in which registers and memory may be changed.
//! * `waits`: who waits for whom, where a program hangs.
//! * `session`: all that for one user; `destination`: places as users name them.
//! * `gdb`: the protocol.
//! * `dap`: another one, for editors, in front of a gdb.
//!
//! The runtime in the process is invisible to users: a thread that is in it is shown where it
//! called it.

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod auxiliary;
mod catches;
mod checkpoint;
mod console;
mod coverage;
pub mod dap;
mod destination;
mod diversion;
mod error;
mod executed;
mod gdb;
mod history;
mod inferior;
mod kept;
mod lines;
mod place;
mod program;
mod progress;
mod replay;
mod scout;
mod session;
mod state;
mod stops;
mod stretch;
mod text;
mod timeline;
mod tls;
mod travel;
mod waits;
mod watchpoints;

pub use destination::{Destination, PLACES};
pub use error::{DebugError, Result};
pub use gdb::{BACKTRACE_SCRIPT, PROFILE_SCRIPT, SCRIPT, serve};
pub use history::crash::Crash;
pub use history::ended::{EndedOutside, from_outside};
pub use history::path::program_path;
pub use history::target::Target;
pub use kept::{Keeping, Listed, Summary, list as list_kept};
pub use session::Session;
pub use waits::{Helper, Known, Told, Wait};
