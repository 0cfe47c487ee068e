//! Go's table of functions (`.gopclntab`). Every Go program has it, even a stripped one. Go
//! programs have no unwinding tables.
//!
//! This decoder is our own: the table is neither ELF nor DWARF, which are what object and gimli
//! read.

use crate::bytes::{u32_at, u64_at};
use crate::chunk::Chunk;
use crate::elf::ElfView;

/// Go 1.18 and 1.19, then 1.20 and later. The older 1.16 form has absolute addresses.
const MAGIC_118: u32 = 0xffff_fff0;
const MAGIC_120: u32 = 0xffff_fff1;
const MAGIC_116: u32 = 0xffff_fffa;
/// The bytes after the magic: two zero bytes, the instruction unit (1 on x86), the size of a
/// pointer.
const TRAITS: u32 = 0x0801_0000;

/// All functions of a Go program; empty for other programs and unknown versions of the table.
pub(crate) fn go_functions(elf: &ElfView) -> Vec<Chunk> {
    let table = [b".gopclntab".as_slice(), b".data.rel.ro.gopclntab".as_slice()]
        .into_iter()
        .find_map(|name| elf.section(name));
    table.and_then(|table| parse(elf, table.bytes)).unwrap_or_default()
}

fn parse(elf: &ElfView, table: &[u8]) -> Option<Vec<Chunk>> {
    if u32_at(table, 4)? != TRAITS {
        return None;
    }
    let count = usize::try_from(u64_at(table, 8)?).ok()?;
    match u32_at(table, 0)? {
        MAGIC_118 | MAGIC_120 => {
            let entries = table.get(usize::try_from(u64_at(table, 64)?).ok()?..)?;
            // Since Go 1.26 the field is zero, and offsets are relative to the start of .text.
            let text = match u64_at(table, 24)? {
                0 => elf.section(b".text")?.address,
                address => address,
            };
            ranges(count, |index| {
                text.checked_add(u64::from(u32_at(entries, index.checked_mul(8)?)?))
            })
        }
        MAGIC_116 => {
            let entries = table.get(usize::try_from(u64_at(table, 56)?).ok()?..)?;
            ranges(count, |index| u64_at(entries, index.checked_mul(16)?))
        }
        _ => None,
    }
}

/// Each function ends where the next one starts. One more entry ends the last function.
fn ranges(count: usize, start_of: impl Fn(usize) -> Option<u64>) -> Option<Vec<Chunk>> {
    let mut chunks = Vec::new();
    let mut start = start_of(0)?;
    for index in 1..=count {
        let end = start_of(index)?;
        if end > start {
            chunks.push(Chunk { start, end });
        }
        start = end;
    }
    Some(chunks)
}
