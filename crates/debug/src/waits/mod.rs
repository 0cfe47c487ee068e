//! What the threads of a program that hangs wait for, and which threads could end the waits.
//!
//! * `calls`: the call in which a thread is, and what it waits for.
//! * `holders`: what the recording says about pipes, sockets, locks on files, and children.
//! * `circle`: describes threads that wait for each other.

mod calls;
mod circle;
mod deeds;
mod holders;

use serde::{Deserialize, Serialize};

pub(crate) use calls::of_replay;
pub use circle::{Known, Told};

/// A thread that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The process, by its ID in the recording.
    pub pid: i32,
    /// The thread, by its ID in the recording.
    pub tid: i32,
    /// The name of the system call in which the thread is.
    pub call: String,
    /// What it waits for: `mutex 0x55d0 <second>`, `data from a pipe (descriptor 3)`.
    pub what: String,
    /// The address, if the thread waits for a futex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub futex: Option<u64>,
    /// The helpers, any of which can end the wait. Empty if no recorded process can, or that is
    /// unknown.
    pub helpers: Vec<Helper>,
    /// Whether the wait ends by itself after a time.
    pub is_bounded: bool,
}

/// A process or thread that can end a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Helper {
    /// The process, by its ID in the recording.
    pub pid: i32,
    /// The thread; `None` for any thread of the process.
    pub tid: Option<i32>,
    /// Why it can end the wait: `held by`, `the other end is open in`.
    pub how: String,
    /// Where it got into that state, if that is known: `take_first () at order.c:14`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

impl Helper {
    pub(crate) fn process(pid: i32, how: &str) -> Self {
        Self { pid, tid: None, how: how.to_owned(), since: None }
    }
}
