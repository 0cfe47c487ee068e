//! Events as bytes. Tracers that see calls from outside write them as the runtime would.

use crate::Result;
use retake_model::event::NO_PARENT;
use retake_record::EventLog;
use retake_recording::{ChunkEvents, MAX_CHUNK_BYTES, StreamId};
use std::ops::Range;

pub(crate) const SIGNAL: u8 = 2;
pub(crate) const EXITED: u8 = 4;
pub(crate) const START: u8 = 7;
pub(crate) const END: u8 = 11;

pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn event(kind: u8, number: u16, value: i64, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((16 + body.len()) as u32).to_le_bytes().to_vec();
    bytes.extend([kind, 0]);
    bytes.extend(number.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Returns the first event of a thread.
pub(crate) fn start(
    process: i32,
    tid: i32,
    parent: Option<u32>,
    how: u64,
    time_ns: u64,
) -> Vec<u8> {
    let body = [u64::from(process as u32) | u64::from(tid as u32) << 32, how, time_ns];
    let parent = u64::from(parent.unwrap_or(NO_PARENT));
    event(START, 0, parent as i64, &words(&body))
}

/// Returns the item of a call that names the stream of the thread which the call made.
pub(crate) fn child_item(stream: u32) -> [u8; 32] {
    const CHILD: u8 = retake_model::ItemDirection::Child as u8;
    let mut bytes = [0; 32];
    bytes[1] = CHILD;
    bytes[4] = 4;
    bytes[8] = 4;
    bytes[24..28].copy_from_slice(&stream.to_le_bytes());
    bytes
}

/// Adds items to the event that begins at `at` and reaches to the end of `bytes`.
pub(crate) fn add_items(bytes: &mut Vec<u8>, at: usize, items: &[u8]) {
    bytes.extend_from_slice(items);
    let size = (bytes.len() - at) as u32;
    bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
}

/// Appends `count` whole events, in pieces if they do not fit into one chunk.
///
/// # Errors
/// The log cannot keep them.
pub(crate) fn append(log: &dyn EventLog, stream: u32, events: &[u8], count: u32) -> Result<()> {
    let mut rest = Range { start: 0, end: events.len() };
    let mut begins = ChunkEvents { first: Some(0), count };
    while !rest.is_empty() {
        let piece = &events[rest.start..rest.end.min(rest.start + MAX_CHUNK_BYTES)];
        log.append(StreamId(stream), piece, begins)?;
        rest.start += piece.len();
        begins = ChunkEvents { first: None, count: 0 };
    }
    Ok(())
}
