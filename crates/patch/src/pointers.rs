//! Jump targets that no instruction names: in jump tables, pointers in data, and relocations.

use crate::bytes::u32_at;
use crate::chunk::Chunk;
use crate::elf::ElfView;
use crate::scan::TableBase;
use crate::windows::Windows;

/// The most entries read in one possible jump table.
const TABLE_ENTRIES: u64 = 4096;

/// The most entries read in all tables together. Real programs have far fewer.
const TOTAL_ENTRIES: usize = 1 << 26;

/// Adds the addresses near sites to which pointers in data lead. Relocations need no separate
/// treatment: their addends are 8-byte words in loaded segments too, and so are the words to which
/// relative relocations apply.
pub(crate) fn pointer_targets(elf: &ElfView, windows: &Windows, targets: &mut Vec<u64>) {
    for segment in &elf.segments {
        let bytes = elf.segment_bytes(segment);
        let skip = (segment.address.wrapping_neg() % 8) as usize;
        let words = bytes.get(skip..).unwrap_or_default().chunks_exact(8);
        let values =
            words.map(|word| u64::from_le_bytes(word.try_into().expect("chunks of 8 bytes")));
        targets.extend(values.filter(|value| windows.contains(*value)));
    }
}

/// Adds the addresses near sites to which jump tables lead. These tables have 4-byte offsets
/// relative to the table. Any address that code loads may be one. Reading stops at the first entry
/// that does not lead into text.
///
/// A table should end where the next one starts. But an apparent start may be just an address
/// computed from one, so reading continues while entries lead into the function that uses the
/// table.
///
/// Returns false if there are more entries than the limit: targets may then be missing.
#[must_use]
pub(crate) fn table_targets(
    elf: &ElfView,
    windows: &Windows,
    chunks: &[Chunk],
    mut bases: Vec<TableBase>,
    targets: &mut Vec<u64>,
) -> bool {
    bases.sort_unstable();
    bases.dedup();
    let mut left = TOTAL_ENTRIES;
    for (position, table) in bases.iter().enumerate() {
        if chunk_at(chunks, table.base).is_some() {
            continue;
        }
        let user = chunk_at(chunks, table.user);
        let next = bases[position..].iter().map(|other| other.base).find(|base| *base > table.base);
        let bytes = elf.bytes_from(table.base);
        for index in 0..TABLE_ENTRIES {
            let Some(offset) = u32_at(bytes, index as usize * 4) else {
                break;
            };
            let target = table.base.wrapping_add_signed(i64::from(offset as i32));
            let own = user.is_none_or(|user| (user.start..user.end).contains(&target));
            let past_next = next.is_some_and(|next| table.base + index * 4 >= next);
            if !windows.is_text(target) || past_next && !own {
                break;
            }
            if windows.contains(target) {
                targets.push(target);
            }
            left -= 1;
            if left == 0 {
                return false;
            }
        }
    }
    true
}

/// Returns the chunk that contains `address`.
fn chunk_at(chunks: &[Chunk], address: u64) -> Option<&Chunk> {
    let index = chunks.partition_point(|chunk| chunk.start <= address);
    chunks[..index].last().filter(|chunk| address < chunk.end)
}
