//! The outputs that a process had made up to a place. Outputs are numbered in one order for the
//! whole recording.

use crate::error::Result;
use retake_model::{Event, EventKind, StreamId};
use retake_recording::{EventReader, Recording};

/// The number of the last output among the first `events` events of a stream, and in turns up to
/// `turn`.
pub(super) fn last_output(
    recording: &Recording,
    stream: StreamId,
    events: u64,
    turn: u64,
) -> Result<Option<u64>> {
    let mut reader = EventReader::new(recording, stream)?;
    let (mut last, mut at_turn) = (None, 0);
    while let Ok(Some(numbered)) = reader.next() {
        if numbered.index >= events || at_turn > turn {
            break;
        }
        let Ok(event) = numbered.event else { continue };
        match event.kind() {
            EventKind::Turn => at_turn = event.value() as u64,
            EventKind::Call if event.flags() != 0 => {
                if let Event::Call(call) = event.decode() {
                    last = call.console().map(|(_, number)| number).or(last);
                }
            }
            _ => {}
        }
    }
    Ok(last)
}

/// The number of the next output of a stream after this many events, if the next call prints.
pub(super) fn next_output(
    recording: &Recording,
    stream: StreamId,
    events: u64,
) -> Result<Option<u64>> {
    let mut reader = EventReader::new(recording, stream)?;
    reader.seek_before(events)?;
    while let Ok(Some(numbered)) = reader.next() {
        if let (true, Ok(event)) = (numbered.index >= events, numbered.event)
            && let Event::Call(call) = event.decode()
        {
            return Ok(call.console().map(|(_, number)| number));
        }
    }
    Ok(None)
}
