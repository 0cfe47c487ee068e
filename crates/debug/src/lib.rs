//! Time-travel debugging: a process of a recording is replayed under our control, and a debugger is
//! told about it over the gdb remote protocol.
//!
//! The replayed process itself, under ptrace, and copies of it, are `retake_snapshot`'s.
//!
//! * `text`: what its text looks like without patches and stubs.
//! * `debuggee`: running it, and what stops it.
//! * `session`: a replay of which one process is debugged.
//! * `alone`: shared memory that nobody shares; `one_core`: programs that notice on which core they
//!   run.
//! * `place`, `timeline`, `journey`: places in it, and getting from one to the other.
//! * `kept`: checkpoints that outlive the session.
//! * `stretch`: what is known of the way between two checkpoints.
//! * `catches`: system calls, children and signals that stop it.
//! * `stops`: what stops it for its user.
//! * `line`: going through a range of code at once; `loops`: the same backwards.
//! * `scouts`: going through several stretches at once; `gauge`: how far a copy on its way through
//!   one has come.
//! * `backwards`, `approach`, `trail`, `seek`, `destination`: what users ask for with these.
//! * `diversion`: throw-away copies, in which registers and memory may be changed.
//! * `past`, `clock`, `console`, `crash`: what the recording says about a place: events, time,
//!   output, the end.
//! * `thread_names`: what its threads are called.
//! * `tls`: where its thread-local variables are.
//! * `state`: comparing two visits of a place.
//! * `analysis`: what commands without a dialogue ask.
//! * `gdb`: the protocol.
//! * `dap`: another one, for editors, in front of a gdb.
//!
//! The runtime in the process is invisible to users: a thread that is in it is shown where it
//! called it.

#![forbid(unsafe_code)]

mod alone;
mod analysis;
mod approach;
mod backwards;
mod catches;
mod clock;
mod console;
mod crash;
pub mod dap;
mod debuggee;
mod destination;
mod diversion;
mod error;
mod executed;
mod follower;
mod gauge;
mod gdb;
mod journey;
mod kept;
mod line;
mod loops;
mod one_core;
mod past;
mod place;
mod program;
mod scan;
mod scout;
mod scouts;
mod seek;
mod session;
mod state;
mod stops;
mod stretch;
mod target;
mod text;
mod thread_names;
mod timeline;
mod tls;
mod trail;
mod watchpoints;

pub use crash::Crash;
pub use destination::{Destination, PLACES};
pub use error::{DebugError, Result};
pub use gdb::{BACKTRACE_SCRIPT, PROFILE_SCRIPT, SCRIPT, serve};
pub use kept::{Keeping, Listed, Summary, list as list_kept};
pub use session::Session;
pub use target::Target;
