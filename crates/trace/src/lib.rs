//! Capturing system calls with all their data, and showing them.
//!
//! Sources ([`inside`], [`ptrace`], [`recording`]) give [`Observation`]s in the order in which calls were entered, or, live, in which they
//! returned. [`Tracker`] knows from them what each descriptor is, [`Filter`] picks some, [`text`] and [`summary`] show them.
//!
//! Paper: [RE-ANIMATOR §2].

#![forbid(unsafe_code)]

mod call;
mod error;
mod events;
pub mod filter;
pub mod inside;
mod interpret;
mod live;
mod merge;
mod observation;
pub mod ptrace;
pub mod recording;
mod spool;
mod state;
pub mod summary;
pub mod text;
mod tracker;
mod walk;

pub use call::limit_data;
pub use error::{Error, Result};
pub use filter::Filter;
pub use observation::{Ending, Observation, numbered};
pub use tracker::Tracker;
