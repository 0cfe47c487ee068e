//! Processes that are copied, stopped anywhere, compared and made anew.
//!
//! Such a process is held by ptrace and has Retake's runtime in it, which is replaying. Nothing
//! here knows why somebody stops it, or what a user sees of it.
//!
//! * `process`: its threads under ptrace: letting them run, and what they did.
//! * `memory`: its memory, with the traps and probes in it.
//! * `probe`: places where it decides itself whether it stops.
//! * `closed`: text of which it is noted what was executed; `search`: the runtime's own search for
//!   a place.
//! * `remote`: system calls that it makes for us.
//! * `snapshot`: copies of it that never run; `threads`: what there is of them beside memory;
//!   `slots`: where the shared header has them.
//! * `image`: all of one in a file, for other sessions.
//! * `pagemap`, `writes`, `difference`: which pages it has, which it wrote to, and where two
//!   processes differ.
//! * `runtime`, `ranges`: addresses.

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod closed;
mod difference;
pub mod image;
mod memory;
mod pagemap;
pub mod probe;
mod process;
mod ranges;
pub mod remote;
mod runtime;
pub mod search;
mod slots;
mod snapshot;
mod threads;
pub mod writes;

pub use closed::ClosedText;
pub use difference::first_difference;
pub use memory::Memory;
pub use pagemap::{PAGE_BYTES, PAGES_AT_ONCE, Page, Pagemap, push_page};
pub use process::{Happened, Process};
pub use ranges::Ranges;
pub use runtime::in_runtime;
pub use slots::slot_of;
pub use snapshot::{NAPS, Snapshot, shares_memory};
pub use threads::Threads;
