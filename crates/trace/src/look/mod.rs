//! Data that no register of a call shows: data that the kernel moves from descriptor to descriptor,
//! and data read and written through mapped files.
//!
//! A thread that stops, or asks, at a call tells its moment. The data found become STATE events in
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

/// A callback that gets whole events for the stream of the thread that is looked at.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Looks at threads that are at a call. All threads of a trace share one.
#[derive(Debug, Default)]
pub(crate) struct Looker {
    /// Locked while events are put into streams.
    state: Mutex<State>,
    /// Locked by threads that hold streams, and therefore never for long.
    births: Mutex<Births>,
}

/// New processes that `state` does not know yet.
#[derive(Debug, Default)]
struct Births {
    /// The process of each stream.
    streams: HashMap<u32, i32>,
    /// Pairs of parent and child.
    forks: Vec<(i32, i32)>,
}

#[derive(Debug, Default)]
struct State {
    mapped: MappedFiles,
    /// For each thread about to move data from a socket, the data in the socket.
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

    /// Looks at a thread at a call. Before a move from a socket, returns how many bytes of the data
    /// are known; otherwise 0.
    ///
    /// # Errors
    /// An error of `sink`. Data that cannot be read are left out, since the process may be gone.
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

    /// Notes a new stream. A new process has the mappings of its parent.
    pub fn begun(&self, info: &StreamInfo) {
        let births = &mut *self.births();
        births.streams.insert(info.id.0, info.pid);
        let parent = info
            .parent
            .and_then(|parent| births.streams.get(&parent.0))
            .filter(|_| info.kind == StreamKind::Process);
        births.forks.extend(parent.map(|parent| (*parent, info.pid)));
    }

    /// Takes the last stores of a process that has ended, from its mapped files.
    ///
    /// # Errors
    /// An error of `sink`.
    pub fn at_death(&self, pid: i32, time_ns: u64, sink: Sink<'_>) -> io::Result<()> {
        self.state().mapped.bury(pid, time_ns, sink)
    }

    /// Returns whether a descriptor of a process leads to a file that any process has mapped for
    /// writing.
    pub fn is_mapped(&self, pid: i32, descriptor: i32) -> bool {
        self.state().mapped.has(pid, descriptor)
    }

    /// Returns whether a process has mapped files that matter.
    pub fn has_mappings(&self, pid: i32) -> bool {
        self.state().mapped.knows(pid)
    }
}

/// Adds the data that a call moved inside the kernel, as an output of the argument with the number
/// of bytes. Such a buffer has no address and repeats the argument there.
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

/// Makes the event for pages of a mapped file.
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

/// Reads such an event. `None` for other events.
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
