//! Items: the pieces of data behind the arguments of a CALL event.

use crate::event::{EventError, read_u32, read_u64};
use crate::ids::ContentId;

/// Bytes of an item's header.
pub const HEADER_BYTES: usize = 24;

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// What the call read; verified at replay.
    Input = 0,
    /// What the kernel wrote; copied at replay.
    Output = 1,
    /// The stream of the new thread.
    Child = 2,
    /// Which stored file a mapping shows.
    Mapping = 3,
    /// The place of console output in the global order.
    Console = 4,
    /// A change to a file that somebody maps shared: replay repeats it on its copy.
    FileWrite = 5,
    /// In traces: when the call was entered and left, and on which processor.
    Times = 6,
    /// In traces: nothing, in place of data that were gone when they were to be copied.
    Fill = 7,
    /// The call read a file that somebody maps shared: what was stored there before is seen by it.
    FileRead = 8,
    /// What the call moved between descriptors inside the kernel.
    Moved = 9,
    /// Behind [`Self::FileWrite`]: what the file holds there now, if that did not come from the program's memory.
    FileData = 10,
}

impl Direction {
    /// The direction with that number.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Input),
            1 => Some(Self::Output),
            2 => Some(Self::Child),
            3 => Some(Self::Mapping),
            4 => Some(Self::Console),
            5 => Some(Self::FileWrite),
            6 => Some(Self::Times),
            7 => Some(Self::Fill),
            8 => Some(Self::FileRead),
            9 => Some(Self::Moved),
            10 => Some(Self::FileData),
            _ => None,
        }
    }
}

/// One item, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemRef<'log> {
    direction: Direction,
    header: &'log [u8],
    data: &'log [u8],
}

impl<'log> ItemRef<'log> {
    /// Which argument it belongs to.
    pub fn argument(&self) -> usize {
        usize::from(self.header[0])
    }

    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// 1 on an input: the memory could not be read.
    pub fn flags(&self) -> u16 {
        u16::from_le_bytes([self.header[2], self.header[3]])
    }

    /// An input that the program had not mapped.
    pub fn faulted(&self) -> bool {
        self.direction == Direction::Input && self.flags() & 1 != 0
    }

    /// The data that were kept: all of an output, at most the beginning of an input.
    pub fn inline_bytes(&self) -> &'log [u8] {
        self.data
    }

    /// How long the data are in the program's memory.
    pub fn total_bytes(&self) -> u32 {
        read_u32(self.header, 8)
    }

    /// Of all data of an input; 0 for others.
    pub fn hash(&self) -> u32 {
        read_u32(self.header, 12)
    }

    /// Where the data are in the program's memory.
    pub fn address(&self) -> u64 {
        read_u64(self.header, 16)
    }

    /// Entered, returned, processor; if it is the item that says so.
    pub fn times(&self) -> Option<(u64, u64, u64)> {
        let is_times = self.direction == Direction::Times && self.data.len() >= 24;
        is_times.then(|| (read_u64(self.data, 0), read_u64(self.data, 8), read_u64(self.data, 16)))
    }

    /// The mapping, if it is one that is whole.
    pub fn mapping(&self) -> Option<Mapping> {
        if self.direction != Direction::Mapping || self.data.len() < MAPPING_BYTES {
            return None;
        }
        let count = read_u32(self.data, 48);
        let overlay = |index: usize| Overlay {
            address: read_u64(self.data, 56 + index * OVERLAY_BYTES),
            bytes: read_u64(self.data, 64 + index * OVERLAY_BYTES),
            content: read_content(&self.data[72 + index * OVERLAY_BYTES..]),
        };
        let count = usize::try_from(count).ok().filter(|count| self.data.len() >= MAPPING_BYTES + count * OVERLAY_BYTES)?;
        Some(Mapping {
            content: read_content(self.data),
            device: read_u64(self.data, 32),
            inode: read_u64(self.data, 40),
            may_change: read_u32(self.data, 52) != 0,
            overlays: (0..count).map(overlay).collect(),
        })
    }
}

const OVERLAY_BYTES: usize = 48;
const MAPPING_BYTES: usize = 56;

/// Which file a mapping shows, and the patched text over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub content: ContentId,
    pub device: u64,
    pub inode: u64,
    /// A private mapping of a file that the program could write to: it may see what is written.
    pub may_change: bool,
    pub overlays: Vec<Overlay>,
}

/// Patched text over a part of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlay {
    pub address: u64,
    pub bytes: u64,
    pub content: ContentId,
}

/// `bytes` holds 32 bytes: the caller has checked.
pub(crate) fn read_content(bytes: &[u8]) -> ContentId {
    let mut content = [0; 32];
    content.copy_from_slice(&bytes[..32]);
    ContentId(content)
}

/// Walks items that [`check`] has found whole.
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
        let direction = Direction::from_number(header[1])?;
        let inline = read_u32(header, 4) as usize;
        let data = behind.get(..inline)?;
        self.rest = behind.get(inline.next_multiple_of(8)..)?;
        Some(ItemRef { direction, header, data })
    }
}

/// Checks that `bytes` is a sequence of whole items. `offset` is where it begins in the event, `arguments` how many
/// arguments the call has.
pub(crate) fn check(bytes: &[u8], offset: usize, arguments: usize) -> Result<(), EventError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = offset + (bytes.len() - rest.len());
        let available = rest.len();
        let Some((header, behind)) = rest.split_at_checked(HEADER_BYTES) else {
            return Err(EventError::Item { offset, needed: HEADER_BYTES as u64, available });
        };
        let Some(direction) = Direction::from_number(header[1]) else {
            return Err(EventError::ItemDirection { offset, direction: header[1] });
        };
        let argument = header[0];
        let of_argument = matches!(direction, Direction::Input | Direction::Output);
        if of_argument && usize::from(argument) >= arguments {
            return Err(EventError::ItemArgument { offset, argument, count: arguments });
        }
        // In 64 bits, so that the padding of 4 GB cannot overflow.
        let padded = u64::from(read_u32(header, 4)).next_multiple_of(8);
        let next = usize::try_from(padded).ok().and_then(|padded| behind.get(padded..));
        let needed = HEADER_BYTES as u64 + padded;
        rest = next.ok_or(EventError::Item { offset, needed, available })?;
    }
    Ok(())
}
