//! Runs gdb on a replay, and reads what it sees.

use std::path::Path;
use std::process::Stdio;

use retake_debug::{BACKTRACE_SCRIPT, Destination, Keeping, Known, Target, Wait};
use retake_recording::Recording;
use serde::Deserialize;

use super::report::Thread;
use crate::commands::debug::front_end::FrontEnd;
use crate::commands::debug::{self, gdb};
use crate::failure::{Failure, Result};
use crate::replayable::check_replayable;
use crate::scratch::Scratch;

/// How to look at processes of a recording.
pub struct Looks<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// The place to look at; without it, the end.
    pub at: Option<Destination>,
    /// The debugger.
    pub gdb: &'a Path,
    /// Whether to find out what threads wait for, too.
    pub wants_waits: bool,
}

/// What gdb saw in a process.
pub struct Seen {
    /// Its threads, the current one first.
    pub threads: Vec<Thread>,
    /// What they wait for.
    pub waits: Vec<Wait>,
    /// The process number, with the number of each of its threads.
    pub known: Vec<Known>,
}

/// The file that the script writes.
#[derive(Debug, Deserialize)]
struct Written {
    threads: Vec<Thread>,
    waits: Vec<Wait>,
}

impl Looks<'_> {
    /// Replays a process to the place, and lets gdb look at it.
    ///
    /// # Errors
    /// The process cannot be replayed here, or no suitable gdb is installed.
    pub fn at(&self, target: Target) -> Result<Seen> {
        check_replayable(self.recording)?;
        let found = gdb::find(self.gdb)?;
        let scratch = Scratch::create()?;
        let (at, pid) = (self.at.unwrap_or(Destination::End), target.pid);
        let session = debug::start(self.recording, target, at, Keeping::default(), &scratch)?;
        let result = scratch.path().join("seen.json");
        let mut command = gdb::with_script(&found, BACKTRACE_SCRIPT, &scratch)?;
        command.args(["-nx", "-batch"]).env("RETAKE_OUTPUT", &result);
        if self.wants_waits {
            command.env("RETAKE_WAITS", "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        gdb::run(session, &mut command, &FrontEnd::ours(), &scratch)?;
        let Written { threads, waits } = read(&result).ok_or_else(|| {
            Failure::new("gdb did not write the stacks")
                .likely(format!("{} was built without Python", found.display()))
        })?;
        let known = threads.iter().map(|thread| (pid, thread.tid as i32)).collect();
        Ok(Seen { threads, waits, known })
    }
}

fn read(path: &Path) -> Option<Written> {
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text).ok()
}
