//! The body of an EXEC event: the initial address space of a new program, as the supervisor saw it.

use retake_contract::events::{exec_area, exec_body, exec_mapping};

use crate::bytes::{read_u32, read_u64};
use crate::ids::ContentId;
use crate::item::read_content;

pub use retake_contract::events::{
    EXEC_MAPPING_CONTENT as MAPPING_CONTENT, EXEC_MAPPING_GROWS_DOWN as MAPPING_GROWS_DOWN,
};

const HEAD_BYTES: usize = exec_body::LAYOUT_BYTES;
const MAPPING_BYTES: usize = exec_mapping::LAYOUT_BYTES;
const AREA_HEAD_BYTES: usize = exec_area::LAYOUT_BYTES;

/// The body of an EXEC event that `parse_event` has checked.
#[derive(Debug, Clone, Copy)]
pub struct ExecRef<'log> {
    body: &'log [u8],
}

/// A mapping of the new address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecMapping {
    pub start: u64,
    pub end: u64,
    /// `PROT_*`.
    pub protection: u32,
    pub flags: u32,
    /// The offset in the content at which the mapping begins.
    pub offset: u64,
    pub content: ContentId,
}

/// A memory area whose contents are in the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryArea<'log> {
    pub address: u64,
    pub bytes: &'log [u8],
}

impl<'log> ExecRef<'log> {
    pub(crate) fn new(body: &'log [u8]) -> Self {
        Self { body }
    }

    /// Checks a body. The error says what is wrong.
    pub(crate) fn check(body: &[u8]) -> Result<(), &'static str> {
        if body.len() < HEAD_BYTES {
            return Err("the head is cut off");
        }
        let mappings = usize::try_from(read_u64(body, exec_body::MAPPING_COUNT))
            .ok()
            .and_then(|count| count.checked_mul(MAPPING_BYTES));
        let areas_start = mappings
            .and_then(|bytes| bytes.checked_add(HEAD_BYTES))
            .filter(|end| *end <= body.len());
        let mut rest = &body[areas_start.ok_or("there are fewer mappings than it says")?..];
        for _ in 0..read_u64(body, exec_body::AREA_COUNT) {
            let (_, behind) = next_area(rest).ok_or("a memory area is cut off")?;
            rest = behind;
        }
        Ok(())
    }

    pub fn program_counter(&self) -> u64 {
        read_u64(self.body, exec_body::PROGRAM_COUNTER)
    }

    pub fn stack_pointer(&self) -> u64 {
        read_u64(self.body, exec_body::STACK_POINTER)
    }

    /// Returns the start of the program break.
    pub fn break_start(&self) -> u64 {
        read_u64(self.body, exec_body::BREAK_START)
    }

    /// Returns the ignored signals; bit 0 is signal 1.
    pub fn ignored_signals(&self) -> u64 {
        read_u64(self.body, exec_body::IGNORED)
    }

    /// Returns the blocked signals; bit 0 is signal 1.
    pub fn blocked_signals(&self) -> u64 {
        read_u64(self.body, exec_body::MASK)
    }

    /// Returns the soft limit of the stack size in bytes.
    pub fn stack_limit(&self) -> u64 {
        read_u64(self.body, exec_body::STACK_LIMIT)
    }

    pub fn mappings(&self) -> impl ExactSizeIterator<Item = ExecMapping> + use<'log> {
        let end = HEAD_BYTES + self.mapping_count() * MAPPING_BYTES;
        self.body[HEAD_BYTES..end].chunks_exact(MAPPING_BYTES).map(|bytes| ExecMapping {
            start: read_u64(bytes, exec_mapping::START),
            end: read_u64(bytes, exec_mapping::END),
            protection: read_u32(bytes, exec_mapping::PROTECTION),
            flags: read_u32(bytes, exec_mapping::FLAGS),
            offset: read_u64(bytes, exec_mapping::OFFSET),
            content: read_content(&bytes[exec_mapping::CONTENT..]),
        })
    }

    pub fn areas(&self) -> impl Iterator<Item = MemoryArea<'log>> + use<'log> {
        let count = read_u64(self.body, exec_body::AREA_COUNT);
        let mut rest = &self.body[HEAD_BYTES + self.mapping_count() * MAPPING_BYTES..];
        (0..count).map_while(move |_| {
            let (area, behind) = next_area(rest)?;
            rest = behind;
            Some(area)
        })
    }

    /// Returns the number of mappings, which `check` has verified.
    fn mapping_count(&self) -> usize {
        read_u64(self.body, exec_body::MAPPING_COUNT) as usize
    }
}

/// Returns the area at the beginning of `bytes`, and the bytes after it.
fn next_area(bytes: &[u8]) -> Option<(MemoryArea<'_>, &[u8])> {
    let (head, behind) = bytes.split_at_checked(AREA_HEAD_BYTES)?;
    let count = usize::try_from(read_u64(head, exec_area::BYTES)).ok()?;
    let data = behind.get(..count)?;
    let rest = behind.get(count.checked_next_multiple_of(8)?..)?;
    Some((MemoryArea { address: read_u64(head, exec_area::ADDRESS), bytes: data }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(mapping_count: u64, area_count: u64) -> Vec<u8> {
        let words = [0x401000, 0x7fff_0000, 0x600000, 4, 8, 0x80_0000, mapping_count, area_count];
        words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_whole_body_is_read() {
        let mut bytes = body(1, 2);
        for word in [0x400000_u64, 0x401000, 5 | 1 << 32, 0x2000] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([7; 32]);
        for (address, data) in [(0x1000_u64, &b"abc"[..]), (0x2000, &b"12345678"[..])] {
            bytes.extend(address.to_le_bytes());
            bytes.extend((data.len() as u64).to_le_bytes());
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        ExecRef::check(&bytes).unwrap();
        let exec = ExecRef::new(&bytes);
        assert_eq!((exec.program_counter(), exec.stack_pointer()), (0x401000, 0x7fff_0000));
        assert_eq!(
            (exec.break_start(), exec.ignored_signals(), exec.blocked_signals()),
            (0x600000, 4, 8)
        );
        let mapping = exec.mappings().next().unwrap();
        assert_eq!(
            (mapping.protection, mapping.flags, mapping.offset),
            (5, MAPPING_CONTENT, 0x2000)
        );
        assert_eq!(mapping.content, ContentId([7; 32]));
        let areas: Vec<_> = exec.areas().map(|area| (area.address, area.bytes)).collect();
        assert_eq!(areas, [(0x1000, &b"abc"[..]), (0x2000, &b"12345678"[..])]);
        for end in 0..bytes.len() {
            assert!(ExecRef::check(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn counts_that_lie_are_refused() {
        for (mappings, areas) in [(u64::MAX, 0), (1 << 58, 0), (1, 0), (0, u64::MAX), (0, 1)] {
            assert!(ExecRef::check(&body(mappings, areas)).is_err(), "{mappings} {areas}");
        }
        let mut bytes = body(0, 1);
        bytes.extend(0x1000_u64.to_le_bytes());
        bytes.extend(u64::MAX.to_le_bytes());
        assert!(ExecRef::check(&bytes).is_err());
    }
}
