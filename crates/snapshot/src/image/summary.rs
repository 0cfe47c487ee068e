//! What is to be known of a kept checkpoint without making a process of it.

use super::pieces::{kind, read_json};
use retake_recording::{CheckpointReader, CheckpointWriter, Result};
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
    pub session: (u64, u32),
    /// The process, by its number while recording.
    pub pid: i32,
    /// The stream of its first thread, and how many events of it come before the program.
    pub program: (u32, u64),
    /// The thread that it is about, by its number while recording.
    pub thread: u32,
    /// Events that this thread has consumed.
    pub events: u64,
    pub turn: u64,
    /// The program counter there, as it is, be it in a stub.
    pub address: u64,
    /// Of each thread that there is: its number, and how many events it has consumed.
    pub counts: Vec<(u32, u64)>,
    /// The place that somebody wanted to go to, if it is exactly there.
    pub arrival: Option<String>,
    pub fate: Fate,
    /// How long replay took to come here, or recording, in milliseconds.
    pub after_ms: u64,
    /// Made while recording: the number of the last output on the console before it.
    #[serde(default)]
    pub console: Option<u64>,
}

/// How a process, or its program, ends, once that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    Open,
    Exiting(i32),
    Dying(i32),
    /// Another program takes its place.
    Executing,
}

/// Of a list of threads and how many events each has consumed.
pub fn count_of(counts: &[(u32, u64)], thread: u32) -> Option<u64> {
    counts.iter().find(|(known, _)| *known == thread).map(|(_, count)| *count)
}

/// When it was made, its thread, turn, events and address.
pub type Identity = (u64, u32, u64, u64, u64);

impl Summary {
    /// What no other kept checkpoint of the recording has.
    pub fn identity(&self) -> Identity {
        (self.made_unix_ms, self.thread, self.turn, self.events, self.address)
    }

    /// How many events a thread has consumed there; `None`: there is no such thread.
    pub fn count(&self, thread: u32) -> Option<u64> {
        count_of(&self.counts, thread)
    }

    /// Whether it was made while recording.
    pub fn is_image(&self) -> bool {
        self.console.is_some()
    }

    /// Whether the process is about to end there.
    pub fn is_end(&self) -> bool {
        self.fate != Fate::Open
    }
}

/// Reads the summary of a checkpoint, which comes first.
///
/// # Errors
/// It is damaged.
pub fn read(reader: &mut CheckpointReader) -> Result<Summary> {
    let summary: Summary = read_json(reader, kind::SUMMARY)?;
    // Times are added up.
    Ok(Summary { after_ms: summary.after_ms.min(LONGEST_REPLAY_MS), ..summary })
}

/// Begins a checkpoint: its summary comes first.
///
/// # Errors
/// No space.
pub fn write(writer: &mut CheckpointWriter, summary: &Summary) -> super::Result<()> {
    super::pieces::put_json(writer, kind::SUMMARY, summary)
}
