//! Time-travel debugging. A process of a recording is replayed under our control, and a debugger
//! sees it through the gdb remote protocol.
//!
//! The crate `retake_snapshot` controls the replayed process under ptrace, and its copies.
//!
//! * `history`: what the recording says about the process: events, times, output, the end.
//! * `inferior`: the process as its user sees it: running it, and what stops it.
//! * `text`: the text as it is without patches and stubs; `program`, `auxiliary`, `tls`: its files,
//!   its auxiliary vector, and its thread-local variables.
//! * `stops`, `watchpoints`, `catches`: what stops it for its user.
//! * `replay`: a replay of which one process is debugged; `console`: its output.
//! * `place`, `checkpoint`: places in it, and those that it can go back to; `state`: comparing two
//!   visits of a place.
//! * `timeline`: the checkpoints, and going forwards.
//! * `stretch`, `executed`: what is known of the way between two checkpoints; `coverage`: finding
//!   that out beside the process.
//! * `scout`: a copy that goes through such a way; `progress`: how far it has come.
//! * `travel`: going backwards, and to places; `lines`: going by source lines.
//! * `kept`: checkpoints that outlive the session.
//! * `diversion`: throw-away copies in which registers and memory can be changed.
//! * `waits`: which threads wait for which, where a program hangs.
//! * `session`: all of this for one user; `destination`: places as users name them.
//! * `scripts`: the frames of languages whose code is interpreted, or made while a program runs.
//! * `gdb`: the gdb remote protocol.
//! * `dap`: the Debug Adapter Protocol, for editors, on top of gdb.
//!
//! Users do not see the runtime in the process. A thread that is in the runtime appears where it
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
mod scripts;
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
pub use kept::begin::{Beginning, Image, beginning, images, lacks_others, together};
pub use kept::{Keeping, Listed, Summary, list as list_kept};
pub use session::DebugSession;
pub use waits::{Helper, Known, Told, Wait};
