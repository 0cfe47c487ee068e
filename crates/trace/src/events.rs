//! Extracts the events of a stream from pieces of any size.

use crate::{Error, Result};
use retake_model::event::event_size;
use retake_model::{EventRef, parse_event};

/// Assembles events from the bytes of one stream.
#[derive(Debug, Default)]
pub(crate) struct EventBuffer {
    bytes: Vec<u8>,
    consumed: usize,
    next_index: u64,
}

/// The most consumed bytes that are kept, so that the rest does not move for every event.
const KEPT_BYTES: usize = 1 << 20;

impl EventBuffer {
    /// Adds the next bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.consumed == self.bytes.len() {
            self.bytes.clear();
            self.consumed = 0;
        } else if self.consumed > KEPT_BYTES {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next event if it is complete.
    ///
    /// # Errors
    /// The event is malformed.
    pub fn next(&mut self, stream: u32) -> Result<Option<EventRef<'_>>> {
        let start = self.consumed;
        let available = self.bytes.len() - start;
        if available < 4 {
            return Ok(None);
        }
        let index = self.next_index;
        let malformed = |error| Error::Malformed { stream, index, error };
        let size = event_size(&self.bytes[start..]).map_err(malformed)?;
        if size > available {
            return Ok(None);
        }
        self.consumed += size;
        self.next_index += 1;
        let (event, _) = parse_event(&self.bytes[start..start + size]).map_err(malformed)?;
        Ok(Some(event))
    }
}
