//! What is to be known of a kept checkpoint without making a process of it.

use crate::checkpoint::count_of;
use crate::error::Result;
use crate::inferior::Fate;
use crate::place::Mark;
use retake_recording::CheckpointReader;
use retake_snapshot::image::pieces::{kind, read_json};
use serde::{Deserialize, Serialize};

/// Some years: no replay takes longer.
const LONGEST_REPLAY_MS: u64 = 1 << 38;

/// What is to be known of a checkpoint without reading all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Nobody asked for it.
    pub is_automatic: bool,
    /// When it was made, in milliseconds since 1970.
    pub made_unix_ms: u64,
    /// The session that made it: when that began, in milliseconds since 1970, and the number of its
    /// process.
    pub(super) session: (u64, u32),
    /// The process, by its number while recording.
    pub pid: i32,
    /// The stream of its first thread, and how many events of it come before the program.
    pub(super) program: (u32, u64),
    /// The thread that it is about, by its number while recording.
    pub thread: u32,
    /// Events that this thread has consumed.
    pub events: u64,
    pub(super) turn: u64,
    /// The program counter there, as it is, be it in a stub.
    pub(super) address: u64,
    /// Of each thread that there is: its number, and how many events it has consumed.
    pub(super) counts: Vec<(u32, u64)>,
    /// The place that somebody wanted to go to, if it is exactly there.
    pub(super) arrival: Option<String>,
    pub(super) fate: Fate,
    /// How long replay took to come here, in milliseconds.
    pub after_ms: u64,
}

/// When it was made, its thread, turn, events and address.
pub(super) type Identity = (u64, u32, u64, u64, u64);

impl Summary {
    /// What no other kept checkpoint of the recording has.
    pub(super) fn identity(&self) -> Identity {
        (self.made_unix_ms, self.thread, self.turn, self.events, self.address)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { turn: self.turn, events: self.events }
    }

    /// How many events a thread has consumed there; `None`: there is no such thread.
    pub(crate) fn count(&self, thread: u32) -> Option<u64> {
        count_of(&self.counts, thread)
    }

    /// Whether the process is about to end there.
    pub fn is_end(&self) -> bool {
        self.fate != Fate::Open
    }
}

/// Reads the summary of a checkpoint.
///
/// # Errors
/// It is damaged.
pub(super) fn summary_of(reader: &mut CheckpointReader) -> Result<Summary> {
    let summary: Summary = read_json(reader, kind::SUMMARY)?;
    // Times are added up.
    Ok(Summary { after_ms: summary.after_ms.min(LONGEST_REPLAY_MS), ..summary })
}
