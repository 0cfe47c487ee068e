//! Streams, handed to the runtime one window at a time: each a read-only segment that begins and ends where events do.

use retake_kernel::segment::Segment;
use retake_kernel::{futex, shared};
use retake_recording::{ContentId, Recording, StreamId, StreamReader};
use retake_supervisor::Session;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long nobody may move before a number on the console is taken to be lost.
const PATIENCE: Duration = Duration::from_millis(300);

/// A window has about this many bytes; more only for an event that is larger.
const WINDOW_BYTES: usize = 4 << 20;
const SMALLEST_EVENT: usize = 16;

struct Open {
    reader: StreamReader,
    /// Bytes already read that did not fit the last window.
    held: Vec<u8>,
    /// Stream offset of the first of them.
    offset: u64,
    current: Option<Segment>,
}

pub(crate) struct Windows {
    recording: Recording,
    pub session: Session,
    #[allow(dead_code, reason = "keeps the folder's name for messages")]
    files: PathBuf,
    scratch: PathBuf,
    open: Mutex<HashMap<u32, Open>>,
    /// Since when everybody waits for this number on the console.
    stuck_since: Mutex<Option<(u64, Instant)>>,
}

impl Windows {
    pub fn new(recording: Recording, session: Session, files: PathBuf, scratch: PathBuf) -> Self {
        Self { recording, session, files, scratch, open: Mutex::default(), stuck_since: Mutex::default() }
    }

    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The next window of a stream, from `offset`: segment number and bytes; `None` at its end.
    ///
    /// # Errors
    /// The recording cannot be read, or an event in it is malformed.
    pub fn next(&self, stream: u32, offset: u64) -> io::Result<Option<(i32, u64)>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = match open.entry(stream) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let reader = self.recording.stream(StreamId(stream)).map_err(io::Error::from)?;
                entry.insert(Open { reader, held: Vec::new(), offset: 0, current: None })
            }
        };
        if offset != entry.offset {
            entry.reader.seek_to_offset(offset).map_err(io::Error::from)?;
            entry.held.clear();
            entry.offset = offset;
        }
        let whole = entry.fill()?;
        if whole == 0 {
            return Ok(None);
        }
        let segment = Segment::with_bytes(&entry.held[..whole], whole.next_multiple_of(4096))?;
        entry.held.drain(..whole);
        entry.offset += whole as u64;
        let id = segment.id();
        entry.current = Some(segment);
        Ok(Some((id, whole as u64)))
    }

    /// Copies a shared file's first content to where replayed processes share it.
    pub fn prepare_shared(&self, device: u64, inode: u64, content: ContentId) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let name: String = [device, inode].iter().flat_map(|value| value.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect();
        let path = self.scratch.join(name);
        let _guard = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = content.0 != [0; 32];
        if path.exists() {
            let mut bytes = Vec::new();
            if known {
                self.recording.copy_content(content, &mut bytes).map_err(io::Error::from)?;
            }
            let file = std::fs::OpenOptions::new().write(true).open(&path)?;
            if file.metadata()?.len() < bytes.len() as u64 {
                file.set_len(bytes.len() as u64)?;
            }
            return Ok(());
        }
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        if known {
            self.recording.copy_content(content, &mut file).map_err(io::Error::from)?;
        }
        Ok(())
    }

    /// When everybody who could print waits for a number that never comes (its process was killed before it printed), goes on with the next one.
    pub fn unblock_console(&self) {
        let header = self.session.header();
        let printed = header.console_printed.load(Acquire);
        let (mut waiting, mut running, mut lowest) = (0, 0, u64::MAX);
        for slot in &header.slots {
            let state = slot.state.load(Acquire);
            if state == shared::SLOT_LIVE && slot.lines.console_waiting.load(Acquire) != 0 {
                waiting += 1;
                lowest = lowest.min(slot.lines.console_ticket.load(Acquire));
            } else if state == shared::SLOT_CLAIMED || state == shared::SLOT_LIVE && slot.lines.baton_state.load(Acquire) != shared::BATON_WAITING {
                running += 1;
            }
        }
        let stuck = waiting > 0 && running == 0 && lowest > printed;
        let mut since = self.stuck_since.lock().unwrap_or_else(PoisonError::into_inner);
        if !stuck || since.is_none_or(|(known, _)| known != printed) {
            *since = stuck.then(|| (printed, Instant::now()));
            return;
        }
        if since.is_some_and(|(_, when)| when.elapsed() > PATIENCE) && header.console_printed.load(Acquire) == printed {
            let _ = header.console_printed.compare_exchange(printed, lowest, AcqRel, Acquire);
            header.console_futex.fetch_add(1, AcqRel);
            futex::wake(&header.console_futex, i32::MAX);
        }
    }

    pub fn answer(&self, slot: &shared::Slot, values: (i64, i64)) {
        slot.lines.reply_values[0].store(values.0, Relaxed);
        slot.lines.reply_values[1].store(values.1, Relaxed);
        slot.lines.reply.store(1, Release);
        futex::wake(&slot.lines.reply, 1);
    }
}

impl Open {
    /// Reads until about a window of whole events is held; returns how many bytes they are.
    fn fill(&mut self) -> io::Result<usize> {
        let mut whole = 0;
        loop {
            while self.held.len() >= whole + SMALLEST_EVENT {
                let size = u32::from_le_bytes(self.held[whole..whole + 4].try_into().expect("four bytes")) as usize;
                if size < SMALLEST_EVENT || !size.is_multiple_of(8) {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("an event at stream offset {} says it has {size} bytes", self.offset + whole as u64)));
                }
                if whole + size > self.held.len() {
                    break;
                }
                whole += size;
                if whole >= WINDOW_BYTES {
                    return Ok(whole);
                }
            }
            let before = self.held.len();
            let read = (&mut self.reader).take(1 << 20).read_to_end(&mut self.held)?;
            if read == 0 || self.held.len() == before {
                return Ok(whole); // an event cut off at the end was never completed
            }
        }
    }
}
