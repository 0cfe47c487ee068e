//! A set of text addresses close to something of interest, with a quick test for each byte or
//! instruction.

use crate::elf::ElfView;

struct Segment {
    start: u64,
    end: u64,
    /// One bit for each byte of text.
    bits: Vec<u64>,
    /// One bit for each block of text: whether any byte of the block is in the set. It is small
    /// enough for the cache even if `bits` is not.
    blocks: Vec<u64>,
}

/// Bytes of text in a block.
const BLOCK_BYTES: u64 = 256;

fn set(bits: &mut [u64], index: u64) {
    bits[(index / 64) as usize] |= 1 << (index % 64);
}

#[inline]
fn is_set(bits: &[u64], index: u64) -> bool {
    bits[(index / 64) as usize] >> (index % 64) & 1 == 1
}

/// A set of addresses in text segments.
pub(crate) struct Windows {
    segments: Vec<Segment>,
}

impl Windows {
    /// All text within `reach` bytes of one of `addresses`.
    pub fn around(elf: &ElfView, addresses: impl Iterator<Item = u64>, reach: u64) -> Self {
        let segments = elf.text_segments().map(|segment| Segment {
            start: segment.address,
            end: segment.file_end(),
            bits: vec![0; (segment.file_bytes / 64 + 1) as usize],
            blocks: vec![0; (segment.file_bytes / BLOCK_BYTES / 64 + 1) as usize],
        });
        let mut windows = Self { segments: segments.collect() };
        for address in addresses {
            windows.mark(address, reach);
        }
        windows
    }

    fn mark(&mut self, address: u64, reach: u64) {
        let holds = |segment: &&mut Segment| (segment.start..segment.end).contains(&address);
        let Some(segment) = self.segments.iter_mut().find(holds) else {
            return;
        };
        let first = address.saturating_sub(reach).max(segment.start);
        let last = (address + reach).min(segment.end - 1);
        for marked in first..=last {
            let offset = marked - segment.start;
            set(&mut segment.bits, offset);
            set(&mut segment.blocks, offset / BLOCK_BYTES);
        }
    }

    /// Whether `address` is in the set.
    #[inline]
    pub fn contains(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            // For an address below the start, the difference wraps around to more than any
            // segment's size.
            let offset = address.wrapping_sub(segment.start);
            offset < segment.end - segment.start
                && is_set(&segment.blocks, offset / BLOCK_BYTES)
                && is_set(&segment.bits, offset)
        })
    }

    /// Whether `address` is in any text segment.
    #[inline]
    pub fn is_text(&self, address: u64) -> bool {
        self.segments
            .iter()
            .any(|segment| address.wrapping_sub(segment.start) < segment.end - segment.start)
    }
}
