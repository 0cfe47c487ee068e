//! Counts the bytes of events in a recording's `events` file, from the headers of its frames
//! (docs/FORMAT.md, "Frames"). It does not use the recorder's own code, so that the count of its
//! output is independent of it.

use crate::bench::Result;

const HEADER_BYTES: usize = 64;
const MAGIC: &[u8] = b"RTKF";
/// The kind of frames with events.
const CHUNK: u8 = 3;

/// The bytes of all streams together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EventBytes {
    /// The size of the events in memory.
    pub events: u64,
    /// The size of the events in the file: compressed, without the headers of frames.
    pub stored: u64,
}

/// Adds up the frames of a whole file.
///
/// # Errors
/// The file does not consist of frames.
pub fn event_bytes(file: &[u8]) -> Result<EventBytes> {
    let mut bytes = EventBytes::default();
    let mut rest = file;
    while !rest.is_empty() {
        let header = rest.get(..HEADER_BYTES).filter(|header| header.starts_with(MAGIC));
        let header =
            header.ok_or_else(|| format!("no frame at byte {}", file.len() - rest.len()))?;
        let number =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (events, stored) = (number(32), number(36));
        if header[6] == CHUNK {
            bytes.events += u64::from(events);
            bytes.stored += u64::from(stored);
        }
        let frame_bytes = HEADER_BYTES + (stored as usize).next_multiple_of(8);
        rest = rest.get(frame_bytes..).ok_or("the last frame is cut off")?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, events: u32, stored: u32) -> Vec<u8> {
        let mut frame = vec![0; HEADER_BYTES + (stored as usize).next_multiple_of(8)];
        frame[..4].copy_from_slice(MAGIC);
        frame[6] = kind;
        frame[32..36].copy_from_slice(&events.to_le_bytes());
        frame[36..40].copy_from_slice(&stored.to_le_bytes());
        frame
    }

    #[test]
    fn only_chunks_have_events() {
        let file = [frame(1, 100, 100), frame(CHUNK, 50, 13), frame(CHUNK, 8, 8), frame(7, 0, 0)];
        assert_eq!(event_bytes(&file.concat()).unwrap(), EventBytes { events: 58, stored: 21 });
        assert_eq!(event_bytes(b"").unwrap(), EventBytes::default());
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        assert!(event_bytes(b"nothing of the kind").is_err());
        let cut = &frame(CHUNK, 50, 13)[..70];
        assert!(event_bytes(cut).is_err());
    }
}
