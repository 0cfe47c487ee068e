//! The summary of a kept checkpoint, which can be read without restoring a process.

use super::pieces::{kind, read_json};
use retake_recording::{CheckpointReader, CheckpointWriter, Result};
use serde::{Deserialize, Serialize};

/// An upper limit for the duration of a replay: some years.
const LONGEST_REPLAY_MS: u64 = 1 << 38;

/// What a checkpoint tells without being read as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Whether it was made without a request by the user.
    pub is_automatic: bool,
    /// When it was made, in milliseconds since 1970.
    pub made_unix_ms: u64,
    /// The session that made it: its start in milliseconds since 1970, and its process ID.
    pub session: (u64, u32),
    /// The process ID in the recording.
    pub pid: i32,
    /// The stream of the first thread, and the number of events in it before the program.
    pub program: (u32, u64),
    /// The thread of the checkpoint, by its ID in the recording.
    pub thread: u32,
    /// The number of events that this thread has consumed.
    pub events: u64,
    pub turn: u64,
    /// The actual program counter, which may be in a stub.
    pub address: u64,
    /// The ID of each thread, and the number of events that it has consumed.
    pub counts: Vec<(u32, u64)>,
    /// The place that a user wanted to reach, if the checkpoint is exactly there.
    pub arrival: Option<String>,
    pub fate: Fate,
    /// How long the replay or recording had run, in milliseconds.
    pub after_ms: u64,
    /// For a checkpoint made while recording: the number of the last output on the console before
    /// it.
    #[serde(default)]
    pub console: Option<u64>,
    /// For such a checkpoint: whether the process took turns with all that share memory.
    #[serde(default)]
    pub shares_turns: bool,
    /// For such a checkpoint: set if it belongs together with those of other processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
}

/// Images of processes that share memory, made together. Replay begins at all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The number of the group in the recording.
    pub number: u32,
    /// How many images there are.
    pub count: u32,
}

/// How a process or its program ends, if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    Open,
    Exiting(i32),
    Dying(i32),
    /// Another program replaces this one.
    Executing,
}

/// The number of events that a thread has consumed, from a list of all threads.
pub fn count_of(counts: &[(u32, u64)], thread: u32) -> Option<u64> {
    counts.iter().find(|(known, _)| *known == thread).map(|(_, count)| *count)
}

/// The time when a checkpoint was made, its thread, turn, events and address.
pub type Identity = (u64, u32, u64, u64, u64);

impl Summary {
    /// Identifies the checkpoint among those of a recording.
    pub fn identity(&self) -> Identity {
        (self.made_unix_ms, self.thread, self.turn, self.events, self.address)
    }

    /// The number of events that a thread has consumed at the checkpoint; `None` if there is no
    /// such thread.
    pub fn count(&self, thread: u32) -> Option<u64> {
        count_of(&self.counts, thread)
    }

    /// Whether it was made while recording.
    pub fn is_image(&self) -> bool {
        self.console.is_some()
    }

    /// Whether the process is about to end at the checkpoint.
    pub fn is_end(&self) -> bool {
        self.fate != Fate::Open
    }
}

/// Reads the summary of a checkpoint, which comes first.
///
/// # Errors
/// The checkpoint is damaged.
pub fn read(reader: &mut CheckpointReader) -> Result<Summary> {
    let summary: Summary = read_json(reader, kind::SUMMARY)?;
    // Times are summed, so they must not overflow.
    Ok(Summary { after_ms: summary.after_ms.min(LONGEST_REPLAY_MS), ..summary })
}

/// Begins a checkpoint with its summary.
///
/// # Errors
/// There is no space.
pub fn write(writer: &mut CheckpointWriter, summary: &Summary) -> super::Result<()> {
    super::pieces::put_json(writer, kind::SUMMARY, summary)
}
