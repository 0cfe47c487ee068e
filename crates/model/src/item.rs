//! Items: the pieces of data that belong to a CALL event.

use retake_contract::events::{
    ITEM_FAULTED, call_times, item as layout, mapping_body, mapping_overlay, reference_body,
};

use crate::bytes::{read_u32, read_u64};
use crate::event_error::EventError;
use crate::ids::ContentId;

pub use retake_contract::events::Direction;

/// The size of an item's header.
pub const HEADER_BYTES: usize = layout::LAYOUT_BYTES;

/// A checked item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemRef<'log> {
    direction: Direction,
    header: &'log [u8],
    data: &'log [u8],
}

impl<'log> ItemRef<'log> {
    /// Returns the number of the argument to which the item belongs.
    pub fn argument(&self) -> usize {
        usize::from(self.header[layout::ARGUMENT])
    }

    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the flags. Bit 0 of an input means that its memory could not be read.
    pub fn flags(&self) -> u16 {
        u16::from_le_bytes([self.header[layout::FLAGS], self.header[layout::FLAGS + 1]])
    }

    /// Whether this is an input whose memory could not be read.
    pub fn faulted(&self) -> bool {
        self.direction == Direction::Input && self.flags() & ITEM_FAULTED != 0
    }

    /// Returns the item's header as it is in the event.
    pub(crate) fn head(&self) -> &'log [u8] {
        self.header
    }

    /// Returns the data in the event: all of an output, at most the beginning of an input.
    pub fn inline_bytes(&self) -> &'log [u8] {
        self.data
    }

    /// Returns the size of the data in the program's memory.
    pub fn total_bytes(&self) -> u32 {
        read_u32(self.header, layout::TOTAL_BYTES)
    }

    /// Returns the hash of all data of an input; 0 for other items.
    pub fn hash(&self) -> u32 {
        read_u32(self.header, layout::HASH)
    }

    /// Returns the address of the data in the program's memory.
    pub fn address(&self) -> u64 {
        read_u64(self.header, layout::ADDRESS)
    }

    /// Returns the times of entry and return and the processor, if the item holds them.
    pub fn times(&self) -> Option<(u64, u64, u64)> {
        let is_times =
            self.direction == Direction::Times && self.data.len() >= call_times::LAYOUT_BYTES;
        let word = |offset: usize| read_u64(self.data, offset);
        is_times.then(|| {
            (
                word(call_times::ENTERED_NS),
                word(call_times::RETURNED_NS),
                word(call_times::PROCESSOR),
            )
        })
    }

    /// Returns the place of the data, if they are in a stored file.
    pub fn reference(&self) -> Option<Reference> {
        let is_reference = self.direction == Direction::Reference
            && self.data.len() >= reference_body::LAYOUT_BYTES;
        is_reference.then(|| Reference {
            content: read_content(&self.data[reference_body::CONTENT..]),
            offset: read_u64(self.data, reference_body::OFFSET),
        })
    }

    /// Returns the mapping, if the item is a complete one.
    pub fn mapping(&self) -> Option<Mapping> {
        if self.direction != Direction::Mapping || self.data.len() < MAPPING_BYTES {
            return None;
        }
        let count = read_u32(self.data, mapping_body::OVERLAY_COUNT);
        let overlay = |index: usize| Overlay {
            address: read_u64(
                self.data,
                MAPPING_BYTES + index * OVERLAY_BYTES + mapping_overlay::ADDRESS,
            ),
            bytes: read_u64(
                self.data,
                MAPPING_BYTES + index * OVERLAY_BYTES + mapping_overlay::BYTES,
            ),
            content: read_content(
                &self.data[MAPPING_BYTES + index * OVERLAY_BYTES + mapping_overlay::CONTENT..],
            ),
        };
        let count = usize::try_from(count)
            .ok()
            .filter(|count| self.data.len() >= MAPPING_BYTES + count * OVERLAY_BYTES)?;
        Some(Mapping {
            content: read_content(&self.data[mapping_body::CONTENT..]),
            device: read_u64(self.data, mapping_body::DEVICE),
            inode: read_u64(self.data, mapping_body::INODE),
            may_change: read_u32(self.data, mapping_body::MAY_CHANGE) != 0,
            overlays: (0..count).map(overlay).collect(),
        })
    }
}

const OVERLAY_BYTES: usize = mapping_overlay::LAYOUT_BYTES;
const MAPPING_BYTES: usize = mapping_body::OVERLAYS;

/// The file that a mapping shows, and the patched text over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub content: ContentId,
    pub device: u64,
    pub inode: u64,
    /// Whether this is a writable private mapping of a file, which may see later writes to the
    /// file.
    pub may_change: bool,
    pub overlays: Vec<Overlay>,
}

/// A place in a stored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    pub content: ContentId,
    pub offset: u64,
}

/// Patched text that covers a part of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlay {
    pub address: u64,
    pub bytes: u64,
    pub content: ContentId,
}

/// Reads a content ID. The caller has checked that `bytes` has 32 bytes.
pub(crate) fn read_content(bytes: &[u8]) -> ContentId {
    let mut content = [0; 32];
    content.copy_from_slice(&bytes[..32]);
    ContentId(content)
}

/// Iterates over items that [`check`] has verified.
#[derive(Debug, Clone)]
pub struct Items<'log> {
    rest: &'log [u8],
}

impl<'log> Items<'log> {
    pub(crate) fn new(rest: &'log [u8]) -> Self {
        Self { rest }
    }
}

impl<'log> Iterator for Items<'log> {
    type Item = ItemRef<'log>;

    fn next(&mut self) -> Option<ItemRef<'log>> {
        let (header, behind) = self.rest.split_at_checked(HEADER_BYTES)?;
        let direction = Direction::from_number(header[layout::DIRECTION])?;
        let inline = read_u32(header, layout::INLINE_BYTES) as usize;
        let data = behind.get(..inline)?;
        self.rest = behind.get(inline.next_multiple_of(8)..)?;
        Some(ItemRef { direction, header, data })
    }
}

/// Checks that `bytes` is a sequence of complete items. `offset` is its place in the event,
/// `arguments` the number of the call's arguments.
pub(crate) fn check(bytes: &[u8], offset: usize, arguments: usize) -> Result<(), EventError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = offset + (bytes.len() - rest.len());
        let available = rest.len();
        let Some((header, behind)) = rest.split_at_checked(HEADER_BYTES) else {
            return Err(EventError::Item { offset, needed: HEADER_BYTES as u64, available });
        };
        let Some(direction) = Direction::from_number(header[layout::DIRECTION]) else {
            return Err(EventError::ItemDirection { offset, direction: header[layout::DIRECTION] });
        };
        let argument = header[layout::ARGUMENT];
        let of_argument =
            matches!(direction, Direction::Input | Direction::Output | Direction::Reference);
        if of_argument && usize::from(argument) >= arguments {
            return Err(EventError::ItemArgument { offset, argument, count: arguments });
        }
        // Computed in 64 bits, so that padding up to 4 GB cannot overflow.
        let padded = u64::from(read_u32(header, layout::INLINE_BYTES)).next_multiple_of(8);
        let next = usize::try_from(padded).ok().and_then(|padded| behind.get(padded..));
        let needed = HEADER_BYTES as u64 + padded;
        rest = next.ok_or(EventError::Item { offset, needed, available })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_in_all_its_bytes() {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[layout::DIRECTION] = Direction::Input as u8;
        bytes[layout::ARGUMENT] = 2;
        bytes[layout::FLAGS..][..2].copy_from_slice(&0x8002_u16.to_le_bytes());
        bytes[layout::ADDRESS..][..8].copy_from_slice(&0x1122_3344_5566_7788_u64.to_le_bytes());
        assert!(check(&bytes, 0, 3).is_ok() && check(&bytes, 0, 2).is_err());
        let item = Items { rest: &bytes }.next().unwrap();
        assert_eq!((item.argument(), item.flags()), (2, 0x8002));
        assert_eq!(item.address(), 0x1122_3344_5566_7788);
        assert!(!item.faulted());
    }
}
