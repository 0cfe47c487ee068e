//! Decides which of a call's buffers its own rows hold. They need no record of their own.
//!
//! A field holds a buffer if a reader can tell everything about it from the row: it begins at the
//! argument's address, it is complete, it is the only one of its argument and direction, and it
//! comes in the order of the fields.

use super::values::{counted_bytes, holds};
use crate::schema::rule::Source;
use crate::schema::{CallSchema, Rows};
use crate::{BufferDirection, TracedBuffer, TracedCall};

/// A buffer that has a row of its own, as an element of a vector or as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The position of the buffer in the call.
    pub buffer: usize,
    /// The argument it belongs to.
    pub argument: u8,
}

/// The decisions on a call's buffers.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The buffer that the field of each rule of the type holds.
    pub by_rule: Vec<Option<usize>>,
    /// Whether a row holds each buffer.
    pub buffers: Vec<bool>,
    /// How many bytes of each buffer are kept.
    pub kept_bytes: Vec<usize>,
    /// How many more bytes of this call can be kept.
    room_bytes: usize,
    /// Elements of the vector: address, length, and the buffer that its row holds.
    pub elements: Vec<(u64, u64, Option<usize>)>,
    /// Strings of a new program, in order.
    pub strings: Vec<Piece>,
}

impl Held {
    /// Makes the decisions for one call.
    pub fn plan(&mut self, schema: &CallSchema, call: &TracedCall) {
        self.by_rule.clear();
        self.by_rule.resize(schema.call.fields.len(), None);
        self.buffers.clear();
        self.buffers.resize(call.buffers.len(), false);
        self.elements.clear();
        self.strings.clear();
        self.room_bytes = super::CALL_BYTES_MAX;
        let mut next = 0;
        for &rule in &schema.holders {
            let source = schema.call.fields[rule].source;
            if !holds(schema.call.fields[rule].when, call, true) {
                continue;
            }
            let found = only_buffer(call, &source)
                .filter(|&found| found >= next && is_held(call, &source, found));
            let Some(found) = found.filter(|&found| self.hold(call, found)) else { continue };
            self.by_rule[rule] = Some(found);
            next = found + 1;
        }
        match schema.call.rows {
            Rows::One => {}
            Rows::Vector { argument, message, direction } => {
                self.plan_vector(call, argument, message, direction)
            }
            Rows::Exec { path } => self.plan_strings(call, path, next),
        }
        self.keep(call);
    }

    /// Notes that a row holds a buffer. Returns false if there is no room for it.
    fn hold(&mut self, call: &TracedCall, index: usize) -> bool {
        let Some(room) = self.room_bytes.checked_sub(call.buffers[index].data.len()) else {
            return false;
        };
        self.room_bytes = room;
        self.buffers[index] = true;
        true
    }

    /// Decides how many bytes of each buffer are kept.
    fn keep(&mut self, call: &TracedCall) {
        self.kept_bytes.clear();
        for (buffer, is_held) in call.buffers.iter().zip(&self.buffers) {
            let kept = match is_held {
                true => buffer.data.len(),
                false => super::cut(&buffer.data).len().min(self.room_bytes),
            };
            self.room_bytes -= if *is_held { 0 } else { kept };
            self.kept_bytes.push(kept);
        }
    }

    fn plan_vector(
        &mut self,
        call: &TracedCall,
        argument: u8,
        message: bool,
        direction: BufferDirection,
    ) {
        let Some((array, mut next)) = vector_array(call, argument, message) else { return };
        for element in array.chunks_exact(16) {
            let (address, bytes) = (read_u64(element, 0), read_u64(element, 8));
            let is_piece = |buffer: &TracedBuffer| {
                buffer.argument == argument
                    && buffer.direction == direction
                    && buffer.address == address
                    && is_whole(buffer)
            };
            // Empty elements have no buffer. Neither have those that the call read nothing into.
            let found = match bytes {
                0 => None,
                _ => call.buffers[next..].iter().position(is_piece).map(|found| next + found),
            };
            let found = found.filter(|&found| self.hold(call, found));
            next = found.map_or(next, |found| found + 1);
            self.elements.push((address, bytes, found));
        }
    }

    fn plan_strings(&mut self, call: &TracedCall, path: u8, from: usize) {
        let mut last = path + 1;
        for (index, buffer) in call.buffers.iter().enumerate().skip(from) {
            let is_string = (last..=path + 2).contains(&buffer.argument)
                && buffer.direction == BufferDirection::Input
                && buffer.address != call.arguments[usize::from(buffer.argument)]
                && is_complete(buffer);
            if is_string && self.hold(call, index) {
                last = buffer.argument;
                self.strings.push(Piece { buffer: index, argument: buffer.argument });
            }
        }
    }
}

/// Returns whether a buffer is complete, not empty, and small enough for a row.
fn is_whole(buffer: &TracedBuffer) -> bool {
    !buffer.data.is_empty() && is_complete(buffer)
}

/// Returns whether a buffer is complete, and small enough for a row.
fn is_complete(buffer: &TracedBuffer) -> bool {
    buffer.data.len() as u64 == buffer.total_bytes && buffer.data.len() <= super::DATA_BYTES_MAX
}

/// Returns the array of a vector, and the number of the buffer after it.
fn vector_array(call: &TracedCall, argument: u8, message: bool) -> Option<(&[u8], usize)> {
    let input_at = |address: u64, from: usize| {
        let is_it = |buffer: &TracedBuffer| {
            buffer.argument == argument
                && buffer.direction == BufferDirection::Input
                && buffer.address == address
        };
        call.buffers.get(from..)?.iter().position(is_it).map(|found| from + found)
    };
    let address = call.arguments[usize::from(argument)];
    let mut found = input_at(address, 0)?;
    if message {
        let array = call.buffers[found].data.get(16..24)?;
        found = input_at(read_u64(array, 0), found + 1)?;
    }
    Some((&call.buffers[found].data, found + 1))
}

fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes
        .get(offset..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the direction and argument of the buffers that a field can hold.
pub(crate) fn holder(source: &Source) -> Option<(BufferDirection, u8)> {
    match *source {
        Source::Text(argument) => Some((BufferDirection::Input, argument)),
        Source::Data { argument, direction, .. } => Some((direction, argument)),
        _ => None,
    }
}

/// Returns the buffer of a source, if there is exactly one.
fn only_buffer(call: &TracedCall, source: &Source) -> Option<usize> {
    let (direction, argument) = holder(source)?;
    let mut found = None;
    for (index, buffer) in call.buffers.iter().enumerate() {
        if buffer.argument == argument && buffer.direction == direction {
            if found.is_some() {
                return None;
            }
            found = Some(index);
        }
    }
    found
}

/// Returns whether the field of this source would say everything about a buffer.
fn is_held(call: &TracedCall, source: &Source, index: usize) -> bool {
    let buffer = &call.buffers[index];
    let is_all =
        buffer.address == call.arguments[usize::from(buffer.argument)] && is_complete(buffer);
    let fits = match *source {
        Source::Data { counted: Some(size), .. } => {
            is_whole(buffer) && counted_bytes(call, size) == Some(buffer.data.len())
        }
        Source::Data { .. } => is_whole(buffer),
        _ => true,
    };
    is_all && fits
}
