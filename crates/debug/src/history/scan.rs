//! Reads the headers of a stream's events without their bodies. Passes over events that are left
//! out.

use retake_model::EventKind;
use retake_recording::{Recording, Result, StreamId, StreamReader};
use std::io::{BufRead, Read};

const HEADER_BYTES: usize = 16;

/// The header of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The event's number in the stream.
    pub index: u64,
    pub kind: Option<EventKind>,
    pub flags: u8,
    /// The number of the call or signal.
    pub number: u16,
    pub value: i64,
    /// The size of the event.
    pub size: usize,
    /// The event's offset in the stream.
    pub offset: u64,
}

/// Reads headers one after the other.
pub(crate) struct Scan {
    reader: StreamReader,
    next_index: u64,
    offset: u64,
}

impl Scan {
    /// Begins at the beginning of a stream.
    pub fn new(recording: &Recording, stream: StreamId) -> Result<Self> {
        Ok(Self { reader: recording.stream(stream)?, next_index: 0, offset: 0 })
    }

    /// Reads the next event's header. Returns `None` at the end, even in the middle of an event.
    pub fn next(&mut self) -> Option<Header> {
        self.next_with(&mut Vec::new(), |_| false)
    }

    /// Reads the next event's header. If it is `wanted`, puts the whole event into `body`.
    pub fn next_with(
        &mut self,
        body: &mut Vec<u8>,
        wanted: impl Fn(&Header) -> bool,
    ) -> Option<Header> {
        loop {
            if let Some(header) = self.read(body, &wanted) {
                return Some(header);
            }
            self.next_index = self.reader.pass_left_out().ok()??;
            self.offset = self.reader.position();
        }
    }

    fn read(&mut self, body: &mut Vec<u8>, wanted: &impl Fn(&Header) -> bool) -> Option<Header> {
        let bytes = self.take()?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let size = word(0) as usize;
        let rest = size.checked_sub(HEADER_BYTES)?;
        let header = Header {
            index: self.next_index,
            kind: EventKind::from_number(bytes[4]),
            flags: bytes[5],
            number: u16::from_le_bytes([bytes[6], bytes[7]]),
            value: (u64::from(word(8)) | u64::from(word(12)) << 32) as i64,
            size,
            offset: self.offset,
        };
        let is_whole = if wanted(&header) {
            body.clear();
            body.extend_from_slice(&bytes);
            (&mut self.reader).take(rest as u64).read_to_end(body).is_ok_and(|count| count == rest)
        } else {
            self.skip(rest)
        };
        if !is_whole {
            return None;
        }
        self.next_index += 1;
        self.offset += size as u64;
        Some(header)
    }

    fn take(&mut self) -> Option<[u8; HEADER_BYTES]> {
        let mut bytes = [0; HEADER_BYTES];
        self.reader.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn skip(&mut self, mut count: usize) -> bool {
        while count > 0 {
            let Ok(available) = self.reader.fill_buf().map(<[u8]>::len) else { return false };
            if available == 0 {
                return false;
            }
            let step = available.min(count);
            self.reader.consume(step);
            count -= step;
        }
        true
    }
}
