//! What no register of a call shows: data that the kernel moves from descriptor to descriptor, and
//! what is read and written through mapped files.
//!
//! A thread that stops or asks at a call says where it is. What is found becomes STATE events in
//! its stream, before the event of the call.

#[cfg(feature = "ebpf")]
mod behind;
mod mapped;
mod moved;
mod stopped;

use crate::state;
use mapped::MappedFiles;
pub(crate) use mapped::has_name;
pub(crate) use moved::bytes_of as moved_bytes;
use retake_record::{Moment, Stage};
use retake_recording::{StreamInfo, StreamKind};
use retake_trace_format::{BufferDirection, MappedPages, TracedBuffer, TracedCall, moved_argument};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes whole events for the stream of the thread that is looked at.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Looks at threads that stand at a call. One for all threads of a trace.
#[derive(Debug, Default)]
pub(crate) struct Looker {
    /// Held while events are put into streams.
    state: Mutex<State>,
    /// Taken by those that hold streams, so never held for long.
    births: Mutex<Births>,
}

/// Processes that began and are not known yet.
#[derive(Debug, Default)]
struct Births {
    /// The process of each stream.
    streams: HashMap<u32, i32>,
    /// Parents and children.
    forks: Vec<(i32, i32)>,
}

#[derive(Debug, Default)]
struct State {
    mapped: MappedFiles,
    /// What was in the socket from which a thread is about to move data.
    peeked: HashMap<i32, Vec<u8>>,
}

impl Looker {
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (parent, child) in std::mem::take(&mut self.births().forks) {
            state.mapped.inherit(parent, child);
        }
        state
    }

    fn births(&self) -> MutexGuard<'_, Births> {
        self.births.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a call. Before data are moved from a socket the answer is how many bytes of them
    /// are known, if any.
    ///
    /// # Errors
    /// What `sink` says. What cannot be looked at is left out: the process may be gone.
    pub fn at_call(&self, moment: &Moment, sink: Sink<'_>) -> io::Result<i64> {
        let mut state = self.state();
        match moment.stage {
            Stage::BeforeMove => {
                let bytes = moved::peek(moment);
                let count = bytes.len() as i64;
                state.peeked.insert(moment.tid, bytes);
                return Ok(count);
            }
            Stage::AfterMove => {
                let peeked = state.peeked.remove(&moment.tid);
                moved::capture(moment, peeked, sink)?;
            }
            Stage::Mapped => state.mapped.note(moment.pid),
            Stage::BeforeUnmap => state.mapped.collect(moment.pid, moment, sink)?,
            Stage::UsesMappedFile => state.mapped.collect_written(moment, sink)?,
        }
        Ok(0)
    }

    /// A stream begins. A process has what its parent had mapped.
    pub fn begun(&self, info: &StreamInfo) {
        let births = &mut *self.births();
        births.streams.insert(info.id.0, info.pid);
        let parent = info
            .parent
            .and_then(|parent| births.streams.get(&parent.0))
            .filter(|_| info.kind == StreamKind::Process);
        births.forks.extend(parent.map(|parent| (*parent, info.pid)));
    }

    /// A process ended, whatever way: what its mappings left in their files.
    ///
    /// # Errors
    /// What `sink` says.
    pub fn at_death(&self, pid: i32, time_ns: u64, sink: Sink<'_>) -> io::Result<()> {
        self.state().mapped.bury(pid, time_ns, sink)
    }

    /// Whether a descriptor of a process leads to a file that some process has mapped for writing.
    pub fn is_mapped(&self, pid: i32, descriptor: i32) -> bool {
        self.state().mapped.has(pid, descriptor)
    }

    /// Whether a process has mapped files that matter.
    pub fn has_mappings(&self, pid: i32) -> bool {
        self.state().mapped.knows(pid)
    }
}

/// Adds what a call moved inside the kernel: an output of the argument that says how many bytes.
/// Such a buffer has no address; instead it repeats the argument.
pub(crate) fn add_moved(call: &mut TracedCall, data: Vec<u8>) {
    let Some(argument) =
        moved_argument(call.number, call.arguments[1]).filter(|_| !data.is_empty())
    else {
        return;
    };
    let address = call.arguments[usize::from(argument)];
    let buffer = TracedBuffer {
        argument,
        direction: BufferDirection::Output,
        address,
        total_bytes: data.len() as u64,
        data: data.into(),
    };
    call.buffers.push(buffer);
    call.buffers.sort_by_key(|buffer| (buffer.argument, buffer.direction));
}

/// The event for pages of a mapped file.
pub(crate) fn pages_event(pages: &MappedPages) -> Vec<u8> {
    let mut body = Vec::with_capacity(48 + pages.path.len() + pages.data.len());
    body.extend(pages.process.to_le_bytes());
    body.extend(pages.thread.to_le_bytes());
    body.extend(pages.time_ns.to_le_bytes());
    body.extend(pages.file_offset.to_le_bytes());
    body.extend(pages.address.to_le_bytes());
    body.extend((pages.path.len() as u64).to_le_bytes());
    body.extend((pages.data.len() as u64).to_le_bytes());
    body.extend(&pages.path);
    body.extend(&pages.data);
    let number = if pages.write { state::kind::PAGES_WRITTEN } else { state::kind::PAGES_READ };
    state::event(number, &body)
}

/// What such an event says; `None` if it is none.
pub(crate) fn pages_of(number: u16, body: &[u8]) -> Option<MappedPages> {
    let word = |at: usize| Some(u64::from_le_bytes(*body.get(at..)?.first_chunk()?));
    let (path_bytes, data_bytes) =
        (usize::try_from(word(32)?).ok()?, usize::try_from(word(40)?).ok()?);
    let path_end = path_bytes.checked_add(48)?;
    let ids = word(0)?;
    Some(MappedPages {
        id: 0,
        time_ns: word(8)?,
        process: ids as u32,
        thread: (ids >> 32) as u32,
        write: number == state::kind::PAGES_WRITTEN,
        path: body.get(48..path_end)?.to_vec(),
        file_offset: word(16)?,
        address: word(24)?,
        data: body.get(path_end..path_end.checked_add(data_bytes)?)?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::parse_event;

    #[test]
    fn pages_survive_the_way_there_and_back() {
        let pages = MappedPages {
            id: 0,
            time_ns: 5,
            process: 6,
            thread: 7,
            write: true,
            path: b"/x/y".to_vec(),
            file_offset: 4096,
            address: 0x7000,
            data: vec![3; 100],
        };
        let bytes = pages_event(&pages);
        let (event, size) = parse_event(&bytes).unwrap();
        assert_eq!(size, bytes.len());
        assert_eq!(pages_of(event.number(), event.body()), Some(pages));
        assert_eq!(pages_of(state::kind::PAGES_READ, &[0xff; 60]), None);
    }
}
