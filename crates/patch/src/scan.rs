//! A scan of every byte of the text, without decoding. It finds the functions that may refer to the
//! neighbourhood of a site, and possible jump tables.
//!
//! Decoding a large program takes seconds, the scan a fraction of that. A reference to a site from
//! far away has a 32-bit displacement among its bytes (or, in programs at a fixed address, the
//! address itself). Only functions with such bytes need to be decoded. Short jumps come only from
//! near a site.

use crate::bytes::u32_at;
use crate::elf::{ElfView, LoadSegment};
use crate::windows::Windows;

/// The result of the scan.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// 4-byte words that lead near a site if they are displacements or addresses, by ascending
    /// address.
    pub hits: Vec<Hit>,
    /// Possible starts of jump tables.
    pub table_bases: Vec<TableBase>,
}

/// A word that may lead near a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub address: u64,
    /// The address it leads to as a displacement.
    pub target: u64,
}

/// An address that code loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableBase {
    pub base: u64,
    /// The text address that loads it.
    pub user: u64,
}

/// Scans all text for references to `windows`.
pub(crate) fn scan_text(elf: &ElfView, windows: &Windows) -> Scan {
    let mut scan = Scan::default();
    for segment in elf.text_segments() {
        scan.segment(elf, windows, segment);
    }
    scan
}

impl Scan {
    fn segment(&mut self, elf: &ElfView, windows: &Windows, segment: &LoadSegment) {
        let bytes = elf.segment_bytes(segment);
        for (offset, word) in bytes.windows(4).enumerate() {
            let address = segment.address + offset as u64;
            let word = u32::from_le_bytes(word.try_into().expect("windows of 4 bytes"));
            let target = (address + 4).wrapping_add_signed(i64::from(word as i32));
            if windows.contains(target) || elf.fixed_address && windows.contains(u64::from(word)) {
                self.hits.push(Hit { address, target });
            }
            let before = &bytes[..offset];
            if loads_address(before) && may_be_table(elf, windows, target) {
                self.table_bases.push(TableBase { base: target, user: address });
            } else if elf.fixed_address
                && loads_constant(before)
                && may_be_table(elf, windows, u64::from(word))
            {
                self.table_bases.push(TableBase { base: u64::from(word), user: address });
            }
        }
    }
}

/// Whether `before` ends with the bytes of `lea disp32(%rip),%register` before the displacement.
fn loads_address(before: &[u8]) -> bool {
    matches!(before, [.., 0x8d, mode] if mode & 0xc7 == 0x05)
}

/// Whether `before` ends with the bytes of `mov $imm32,%register` before the constant, in either
/// form.
fn loads_constant(before: &[u8]) -> bool {
    matches!(before, [.., 0xb8..=0xbf] | [.., 0xc7, 0xc0..=0xc7])
}

/// Whether the first entry of a table at `base` leads into text.
fn may_be_table(elf: &ElfView, windows: &Windows, base: u64) -> bool {
    let entry = u32_at(elf.bytes_from(base), 0);
    entry.is_some_and(|entry| windows.is_text(base.wrapping_add_signed(i64::from(entry as i32))))
}

/// Whether the displacement, in code outside all known functions, follows the opcode of a jump or
/// call.
pub(crate) fn is_unknown_jump(elf: &ElfView, hit: &Hit) -> bool {
    let before = |bytes: u64| {
        hit.address.checked_sub(bytes).map(|start| elf.bytes_from(start)).unwrap_or_default()
    };
    matches!(before(1), [0xe8 | 0xe9, ..]) || matches!(before(2), [0x0f, 0x80..=0x8f, ..])
}
