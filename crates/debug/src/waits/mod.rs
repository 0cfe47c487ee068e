//! Who waits for whom: what the threads of a program that hangs wait for, and who could end that.
//!
//! * `calls`: which call a thread is in, and what that waits for.
//! * `holders`: what the recording says of pipes, sockets, locks on files, and children.
//! * `circle`: who waits for each other, in words.

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
    /// The process, by its number while recording.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The name of the system call that it is in.
    pub call: String,
    /// What it waits for: `mutex 0x55d0 <second>`, `data from a pipe (descriptor 3)`.
    pub what: String,
    /// The address, if it is a futex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub futex: Option<u64>,
    /// Who can end the wait; any of them. Empty: nobody who was recorded, or it is not known.
    pub helpers: Vec<Helper>,
    /// It ends by itself when its time is up.
    pub is_bounded: bool,
}

/// Who can end a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Helper {
    /// The process.
    pub pid: i32,
    /// The thread; `None`: any of the process.
    pub tid: Option<i32>,
    /// Why it can: `held by`, `the other end is open in`.
    pub how: String,
    /// Where it came to be so, if that is known: `take_first () at order.c:14`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

impl Helper {
    pub(crate) fn process(pid: i32, how: &str) -> Self {
        Self { pid, tid: None, how: how.to_owned(), since: None }
    }
}
