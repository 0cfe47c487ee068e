//! The names of threads. Programs set them with `prctl`, which is in the log.

use crate::history::scan::Scan;
use crate::history::target::Target;
use retake_model::{Event, EventKind, EventRef, ItemDirection, parse_event};
use retake_recording::{Recording, Result, StreamId};
use std::collections::HashMap;
use std::io::Read;

/// The number of bytes that the kernel keeps of a name.
const LONGEST_NAME: usize = 15;
const LARGEST_CALL: usize = 4096;
const PR_SET_NAME: u64 = 15;

/// The names of a process's threads, by the program's ID. Each name has the number of the event
/// from which on it holds.
#[derive(Debug)]
pub(crate) struct ThreadNames {
    program: String,
    threads: HashMap<u32, Vec<(u64, String)>>,
}

impl ThreadNames {
    /// Reads the names as far as the recording can be read. A thread without a name has that of the
    /// program.
    pub fn of(recording: &Recording, target: &Target, program: &str) -> Self {
        let file = program.rsplit('/').next().unwrap_or_default();
        let mut this =
            Self { program: file.chars().take(LONGEST_NAME).collect(), threads: HashMap::new() };
        for stream in recording.streams().filter(|stream| stream.info.pid == target.pid) {
            if let Ok(names) = names_in(recording, stream.info.id) {
                this.threads.entry(stream.info.tid as u32).or_default().extend(names);
            }
        }
        this
    }

    /// The name of a thread that has consumed this many events.
    pub fn name(&self, thread: u32, events: u64) -> &str {
        let names = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        names.iter().rfind(|(from, _)| *from <= events).map_or(&self.program, |(_, name)| name)
    }
}

fn names_in(recording: &Recording, stream: StreamId) -> Result<Vec<(u64, String)>> {
    let mut scan = Scan::new(recording, stream)?;
    let mut reader = recording.stream(stream)?;
    let mut names = Vec::new();
    while let Some(header) = scan.next() {
        match header.kind {
            // A new program has its own name.
            Some(EventKind::Exec) => names.clear(),
            Some(EventKind::Call)
                if i64::from(header.number) == libc::SYS_prctl && header.value == 0 =>
            {
                let mut bytes = vec![0; header.size.min(LARGEST_CALL)];
                reader.seek_to_offset(header.offset)?;
                if reader.read_exact(&mut bytes).is_ok() {
                    names.extend(name_in(&bytes).map(|name| (header.index + 1, name)));
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

/// The name that a call sets, if it sets one.
fn name_in(bytes: &[u8]) -> Option<String> {
    let (event, _): (EventRef<'_>, _) = parse_event(bytes).ok()?;
    let Event::Call(call) = event.decode() else { return None };
    call.argument(0).filter(|option| *option == PR_SET_NAME)?;
    let input = call.items().find(|item| item.direction() == ItemDirection::Input)?;
    let name = input.inline_bytes().split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]).into_owned())
}
