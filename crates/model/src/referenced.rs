//! Completes events that refer to bytes of stored files with these bytes.

use retake_contract::events::{event as event_layout, item as layout};

use crate::event::parse_event;
use crate::item::{Direction, HEADER_BYTES, ItemRef, Reference};

/// A callback that returns bytes of a stored file, if it has them.
pub type Read<'a> = &'a mut dyn FnMut(&Reference, u64) -> Option<Vec<u8>>;

/// Returns the event with the bytes to which it refers, as if they were outputs: at most `most`
/// bytes for each. Returns `None` if the event needs no change.
pub fn with_referenced(event: &[u8], most: usize, read: Read<'_>) -> Option<Vec<u8>> {
    let (parsed, size) = parse_event(event).ok()?;
    let call = parsed.as_call()?;
    let item_bytes =
        |item: &ItemRef<'_>| HEADER_BYTES + item.inline_bytes().len().next_multiple_of(8);
    let all: usize = call.items().map(|item| item_bytes(&item)).sum();
    if !call.items().any(|item| item.reference().is_some()) {
        return None;
    }
    let end = size - if parsed.has_stamp() { STAMP_BYTES } else { 0 };
    let mut bytes = event[..end.checked_sub(all)?].to_vec();
    let mut left = MOST_READ_BYTES;
    for item in call.items() {
        let wanted = u64::from(item.total_bytes()).min(most as u64);
        let reference = item.reference().filter(|_| wanted <= left);
        let data = reference.and_then(|reference| read(&reference, wanted));
        left -= data.as_ref().map_or(0, |data| data.len() as u64).min(left);
        let start = bytes.len();
        bytes.extend_from_slice(item.head());
        bytes.extend_from_slice(data.as_deref().unwrap_or(item.inline_bytes()));
        if let Some(data) = &data {
            bytes[start + layout::DIRECTION] = Direction::Output as u8;
            let count = u32::try_from(data.len()).ok()?.to_le_bytes();
            bytes[start + layout::INLINE_BYTES..][..4].copy_from_slice(&count);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes.extend_from_slice(&event[end..size]);
    let size = u32::try_from(bytes.len()).ok()?.to_le_bytes();
    bytes[event_layout::SIZE..][..4].copy_from_slice(&size);
    Some(bytes)
}

const STAMP_BYTES: usize = 8;
/// The most bytes that one call reads.
const MOST_READ_BYTES: u64 = 0x7fff_f000;
