//! Captures system calls with all their data, and shows them.
//!
//! Sources ([`inside`], [`ebpf`], [`ptrace`], [`recording`]) give [`Observation`]s in the order in
//! which calls were entered, or, live, in which they returned. From them [`Tracker`] knows what
//! each descriptor is. [`Filter`] selects some of them. [`text`] and [`summary`] show them.
//!
//! Paper: [RE-ANIMATOR §2].

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod attach;
mod call;
mod channels;
mod descriptors;
#[cfg(feature = "ebpf")]
pub mod ebpf;
#[cfg(not(feature = "ebpf"))]
#[path = "ebpf_absent.rs"]
pub mod ebpf;
mod error;
mod event_bytes;
mod events;
pub mod filter;
pub mod inside;
mod interpret;
mod live;
mod look;
pub mod many_files;
mod merge;
mod observation;
mod outside;
pub mod ptrace;
pub mod recording;
mod spool;
mod state;
pub mod statistics;
pub mod summary;
pub mod text;
mod tracker;
mod turns;
mod unseen;
mod walk;

pub use call::limit_data;
pub use error::{Error, Result};
pub use filter::Filter;
pub use observation::{Ending, Observation, numbered};
pub use tracker::Tracker;
pub use unseen::Unseen;
