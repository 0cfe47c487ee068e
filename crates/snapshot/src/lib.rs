//! Processes that are copied, stopped anywhere, compared and restored.
//!
//! Such a process is under ptrace, and Retake's runtime replays in it. Nothing here knows why it is
//! stopped, or what a user sees of it.
//!
//! * `process`: the threads under ptrace: running them, and what they did.
//! * `memory`: the memory, with the traps and probes in it.
//! * `probe`: places where the process itself decides whether it stops.
//! * `closed`: text whose execution is noted; `search`: the runtime's own search for a place.
//! * `remote`: system calls that a process makes for us.
//! * `snapshot`: copies that never run; `threads`: the state of threads outside of memory; `slots`:
//!   their slots in the shared header.
//! * `image`: a whole process in a file, for other sessions.
//! * `pagemap`, `writes`, `difference`: the pages of a process, those that it wrote to, and where
//!   two processes differ.
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
pub use process::{Happened, Process, has_raised_signal};
pub use ranges::Ranges;
pub use runtime::in_runtime;
pub use slots::slot_of;
pub use snapshot::{NAPS, Snapshot, shares_memory};
pub use threads::Threads;
