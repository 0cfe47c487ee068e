//! What the recording says about where the process is: the events around, and the system call that
//! wrote something.

use crate::error::Result;
use crate::session::Session;
use retake_model::print::{Hexadecimal, TextOptions, call_line, event_line};
use retake_model::{CallRef, Event, ItemDirection, StreamId};
use retake_recording::{EventReader, Numbered, Recording};
use retake_snapshot::slot_of;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// More events than this between a place and the call that follows it there are not.
const MOST_BEFORE_CALL: u64 = 16;
/// Calls that give descriptors for names: open, creat, openat, openat2, socket, accept, accept4.
const OPENING: [u16; 7] = [2, 85, 257, 437, 41, 43, 288];
const CLOSE: u16 = 3;
/// Calls whose first argument is the descriptor that is read: read, pread64, readv, preadv,
/// preadv2, recvfrom, recvmsg, getdents64.
const READING: [u16; 8] = [0, 17, 19, 295, 327, 45, 47, 217];
const SHOWN: TextOptions = TextOptions {
    string_bytes: 64,
    element_count: 16,
    hexadecimal: Hexadecimal::Never,
    unabbreviated: false,
    environment: false,
    utc_offset_s: 0,
};

impl Session {
    /// The stream of a live thread.
    fn stream_of(&self, tid: i32) -> Option<StreamId> {
        let slot = slot_of(&self.debuggee.process, tid)?;
        let header = self.running.as_ref()?.header();
        Some(StreamId(header.slots[slot].stream.load(Relaxed)))
    }

    /// The current thread's stream.
    pub(crate) fn current_stream(&self) -> Option<StreamId> {
        self.stream_of(self.debuggee.current)
    }

    /// The streams of all live threads, and how many events each has consumed.
    pub(crate) fn living_streams(&self) -> Vec<(StreamId, u64)> {
        let threads = self.debuggee.threads().into_iter();
        threads
            .filter_map(|(tid, _)| {
                Some((self.stream_of(tid)?, self.debuggee.process.context(tid)?.event_count))
            })
            .collect()
    }

    /// The events before and after here, of the current thread.
    pub(crate) fn events_around(&self, before: u64, after: u64) -> Result<String> {
        let Some(stream) = self.current_stream() else {
            return Ok("the thread has no events".to_owned());
        };
        let here = self.debuggee.context().event_count;
        let (mut text, mut is_marked) = (String::new(), false);
        self.each_event(
            stream,
            here.saturating_sub(before),
            here.saturating_add(after),
            |numbered| {
                if numbered.index >= here && !is_marked {
                    is_marked = true;
                    text += "         <- here\n";
                }
                let line = match &numbered.event {
                    Ok(event) => event_line(event, &SHOWN),
                    Err(error) => format!("malformed: {error}"),
                };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{:>7}  {line}", numbered.index);
            },
        )?;
        if !is_marked {
            text += "         <- here\n";
        }
        Ok(text)
    }

    /// The system call that the current thread makes here, if that writes to this memory: its
    /// event, and what of it is meant.
    pub(crate) fn writing_call(&self, address: u64, bytes: u64) -> Result<Option<String>> {
        let Some(stream) = self.current_stream() else { return Ok(None) };
        let here = self.debuggee.context().event_count;
        let (mut found, mut is_over) = (None, false);
        self.each_event(stream, here, here.saturating_add(MOST_BEFORE_CALL), |numbered| {
            let Ok(event) = &numbered.event else { return };
            let Event::Call(call) = event.decode() else { return };
            if !is_over {
                found = written_by(&call, address, bytes).map(|place| {
                    (numbered.index, call_line(&call, &SHOWN), place, descriptor_of(&call))
                });
            }
            is_over = true;
        })?;
        let Some((index, line, place, descriptor)) = found else { return Ok(None) };
        let mut text = format!(
            "written by the system call of event {index}, which comes next\n  {line}\n  {place}"
        );
        if let Some(opened) = descriptor
            .map(|descriptor| self.opened(stream, index, descriptor))
            .transpose()?
            .flatten()
        {
            let _ =
                write!(text, "\n  descriptor {} is from {opened}", descriptor.unwrap_or_default());
        }
        Ok(Some(text))
    }

    /// The call before event `end` of a stream that made a descriptor.
    fn opened(&self, stream: StreamId, end: u64, descriptor: u64) -> Result<Option<String>> {
        let mut found = None;
        self.each_event(stream, 0, end, |numbered| {
            let Ok(event) = &numbered.event else { return };
            let is_opening =
                OPENING.contains(&event.number()) && event.value() as u64 == descriptor;
            if !is_opening && event.number() != CLOSE {
                return;
            }
            match event.decode() {
                Event::Call(call) if is_opening => {
                    found = Some(format!("event {}: {}", numbered.index, call_line(&call, &SHOWN)))
                }
                Event::Call(call) if call.argument(0) == Some(descriptor) => found = None,
                _ => {}
            }
        })?;
        Ok(found)
    }

    fn each_event(
        &self,
        stream: StreamId,
        first: u64,
        end: u64,
        mut see: impl FnMut(&Numbered<'_>),
    ) -> Result<()> {
        each_event(&self.recording, stream, first, end, &mut see)
    }
}

fn each_event(
    recording: &Recording,
    stream: StreamId,
    first: u64,
    end: u64,
    see: &mut dyn FnMut(&Numbered<'_>),
) -> Result<()> {
    let mut reader = EventReader::new(recording, stream)?;
    reader.seek_before(first)?;
    while reader.next_index() < end {
        match reader.next()? {
            Some(numbered) if numbered.index >= first => see(&numbered),
            Some(_) => {}
            None => break,
        }
    }
    Ok(())
}

/// Which part of what a call wrote lies at an address.
fn written_by(call: &CallRef<'_>, address: u64, bytes: u64) -> Option<String> {
    let end = address.saturating_add(bytes);
    let item = call.items().find(|item| {
        let (start, length) = (item.address(), u64::from(item.total_bytes()));
        item.direction() == ItemDirection::Output
            && start < end
            && address < start.saturating_add(length)
    })?;
    let first = address.saturating_sub(item.address());
    let last = end.min(item.address() + u64::from(item.total_bytes())) - item.address() - 1;
    let part =
        if first == last { format!("byte {first}") } else { format!("bytes {first} to {last}") };
    Some(format!("{part} of {} that it wrote at {:#x}", item.total_bytes(), item.address()))
}

fn descriptor_of(call: &CallRef<'_>) -> Option<u64> {
    READING.contains(&call.number()).then(|| call.argument(0)).flatten()
}
