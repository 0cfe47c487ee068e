//! What the recording says about a place: the events around it, and the system call that wrote
//! something.

use crate::error::Result;
use retake_model::print::{Hexadecimal, TextOptions, call_line, event_line};
use retake_model::signal::SIGINFO_BYTES;
use retake_model::table::number;
use retake_model::{CallRef, Event, ItemDirection, StreamId, errno};
use retake_recording::{EventReader, Numbered, Recording};
use std::fmt::Write;

/// The most events between a place and the call that follows it.
const MOST_BEFORE_CALL: u64 = 16;
/// Calls that return descriptors for names: open, creat, openat, openat2, socket, accept, accept4.
const OPENING: [u16; 7] = [
    number::OPEN,
    number::CREAT,
    number::OPENAT,
    number::OPENAT2,
    number::SOCKET,
    number::ACCEPT,
    number::ACCEPT4,
];
const CLOSE: u16 = number::CLOSE;
/// Calls that read from the descriptor in their first argument: read, pread64, readv, preadv,
/// preadv2, recvfrom, recvmsg, getdents64.
const READING: [u16; 8] = [
    number::READ,
    number::PREAD64,
    number::READV,
    number::PREADV,
    number::PREADV2,
    number::RECVFROM,
    number::RECVMSG,
    number::GETDENTS64,
];
const SHOWN: TextOptions = TextOptions {
    string_bytes: 64,
    element_count: 16,
    hexadecimal: Hexadecimal::Never,
    unabbreviated: false,
    environment: false,
    utc_offset_s: 0,
};

/// A thread's stream, and the number of events that it has consumed.
type Place = (StreamId, u64);

/// Describes the events of a thread before and after a place.
pub(super) fn around(
    recording: &Recording,
    (stream, here): Place,
    before: u64,
    after: u64,
) -> Result<String> {
    let (mut text, mut is_marked) = (String::new(), false);
    each_event(
        recording,
        stream,
        here.saturating_sub(before),
        here.saturating_add(after),
        &mut |numbered| {
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

/// The state of the last call of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastCall {
    /// The thread may be in the call: the recording has no signal that the thread gets next.
    Open,
    /// A signal has just interrupted the call.
    Interrupted { number: u16, arguments: [u64; 6] },
    /// The call returned before the next signal.
    Over,
}

/// The state of the thread's last call at a place.
pub(super) fn last_call(recording: &Recording, (stream, here): Place) -> Result<LastCall> {
    const RESTARTS: std::ops::RangeInclusive<u16> = 512..=516;
    const EINTR: u16 = 4;
    let mut interrupted = None;
    let mut gets_signal = false;
    let (first, end) = (here.saturating_sub(1), here.saturating_add(1));
    each_event(recording, stream, first, end, &mut |numbered| {
        let Ok(event) = numbered.event else { return };
        match event.decode() {
            Event::Call(call) if numbered.index < here => {
                let error = errno::of_result(call.result());
                if error.is_some_and(|error| error == EINTR || RESTARTS.contains(&error)) {
                    let argument = |index| call.argument(index).unwrap_or(0);
                    let arguments = std::array::from_fn(argument);
                    interrupted = Some(LastCall::Interrupted { number: call.number(), arguments });
                }
            }
            Event::Fatal { .. } | Event::Signal(_) if numbered.index == here => gets_signal = true,
            _ => {}
        }
    })?;
    Ok(if gets_signal { interrupted.unwrap_or(LastCall::Over) } else { LastCall::Open })
}

/// The kernel's information about a signal that the thread gets at a place. A signal that is about
/// to kill it is its next event. Another signal is its last one.
pub(super) fn siginfo(
    recording: &Recording,
    (stream, here): Place,
    number: u16,
) -> Result<Option<[u8; SIGINFO_BYTES]>> {
    let mut found = None;
    let (first, end) = (here.saturating_sub(1), here.saturating_add(1));
    each_event(recording, stream, first, end, &mut |numbered| {
        let Ok(event) = &numbered.event else { return };
        let signal = match event.decode() {
            Event::Signal(signal) if numbered.index < here => signal,
            Event::Fatal { signal, .. } => signal,
            _ => return,
        };
        if signal.number() == number {
            found = event.body().first_chunk().copied().or(found);
        }
    })?;
    Ok(found)
}

/// Describes the system call that the thread makes at a place, if that writes to this memory: its
/// event, and the part of its output.
pub(super) fn writing_call(
    recording: &Recording,
    (stream, here): Place,
    address: u64,
    bytes: u64,
) -> Result<Option<String>> {
    let (mut found, mut is_over) = (None, false);
    each_event(recording, stream, here, here.saturating_add(MOST_BEFORE_CALL), &mut |numbered| {
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
        .map(|descriptor| opened(recording, stream, index, descriptor))
        .transpose()?
        .flatten()
    {
        let _ = write!(text, "\n  descriptor {} is from {opened}", descriptor.unwrap_or_default());
    }
    Ok(Some(text))
}

/// Finds the call before event `end` of a stream that made a descriptor.
fn opened(
    recording: &Recording,
    stream: StreamId,
    end: u64,
    descriptor: u64,
) -> Result<Option<String>> {
    let mut found = None;
    each_event(recording, stream, 0, end, &mut |numbered| {
        let Ok(event) = &numbered.event else { return };
        let is_opening = OPENING.contains(&event.number()) && event.value() as u64 == descriptor;
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
    recording: &Recording,
    stream: StreamId,
    first: u64,
    end: u64,
    see: &mut dyn FnMut(&Numbered<'_>),
) -> Result<()> {
    let mut reader =
        EventReader::new(recording, stream)?.with_referenced(recording, SHOWN.string_bytes);
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

/// Describes the part of a call's output that lies at an address.
fn written_by(call: &CallRef<'_>, address: u64, bytes: u64) -> Option<String> {
    let end = address.saturating_add(bytes);
    let item = call.items().find(|item| {
        let (start, length) = (item.address(), u64::from(item.total_bytes()));
        matches!(item.direction(), ItemDirection::Output | ItemDirection::Reference)
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
