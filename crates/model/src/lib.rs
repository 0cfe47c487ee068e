//! The parts of a recording as pure data: the system-call table, IDs, events, and their text.
//!
//! Nothing here does I/O or reads a clock. All bytes from a recording are untrusted:
//! [`event::parse_event`] checks all lengths once, so that the accessors of the returned event
//! cannot fail.

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod account;
mod bytes;
pub mod calendar;
mod call;
mod contents;
pub mod describe;
pub mod description;
pub mod dropped;
pub mod errno;
pub mod event;
mod event_error;
pub mod exec;
mod flag_sets;
pub mod flags;
mod forms;
// `gen` is a keyword in edition 2024. The generator formats the file.
#[rustfmt::skip]
mod r#gen;
mod habits;
pub mod ids;
pub mod item;
pub mod layout;
pub mod print;
mod reached;
mod referenced;
pub mod signal;
mod signal_event;
mod status;
pub mod table;
pub mod text;
mod time_point;
mod times;

pub use contents::contents_of;
pub use dropped::{Dropped, Ranges};
pub use event::{CallRef, Event, EventError, EventKind, EventRef, parse_event};
pub use ids::{ContentId, Pid, StreamId};
pub use item::{Direction as ItemDirection, ItemRef};
pub use reached::Reached;
pub use referenced::with_referenced;
pub use table::TABLE_HASH;
pub use time_point::TimePoint;
pub use times::{EventTime, StreamTimes, TimeScale};
