//! Thread-local variables: where a thread has those of a module, in the layout of the C libraries.
//!
//! Modules loaded at the start lie at fixed distances below the thread pointer. Others are found
//! through the thread's table of modules. For the dynamic linker's data about a module, glibc has
//! descriptions for debuggers. In musl, modules are numbered in the order of the list.

use crate::diversion::Changes;
use crate::inferior::Inferior;
use crate::program::Program;
use object::LittleEndian;
use object::elf::{FileHeader64, PT_TLS};
use object::read::elf::{FileHeader, ProgramHeader, Sym};

type Elf = FileHeader64<LittleEndian>;

/// The offset in the thread control block of the address of the thread's table, in both libraries.
const TABLE: u64 = 8;
/// The symbols with which glibc's dynamic linker describes where a module's number is, and where
/// the distance of its variables below the thread pointer is.
const NUMBER_SYMBOL: &[u8] = b"_thread_db_link_map_l_tls_modid";
const DISTANCE_SYMBOL: &[u8] = b"_thread_db_link_map_l_tls_offset";
/// Such a description has three 4-byte numbers: bits, elements, offset. This is where the last is.
const DESCRIBED_OFFSET: u64 = 8;
const DESCRIPTION_BYTES: u64 = 12;

/// The process, and the user's view of it.
pub(crate) struct Locals<'a> {
    pub program: &'a Program,
    pub inferior: &'a Inferior,
    pub changes: &'a Changes,
}

impl Locals<'_> {
    /// The address of the thread-local variable at `offset` among those of a module. `module` is
    /// the address of its link map, or 0 for a program without a dynamic linker. `None` if the
    /// thread has no variables of that module yet.
    pub fn address(&self, thread: u32, offset: u64, module: u64) -> Option<u64> {
        let pointer = self.changes.registers(self.inferior, thread).ok()?.0.fs_base;
        if pointer == 0 {
            return None;
        }
        let start = if module == 0 {
            pointer.checked_sub(self.static_bytes()?)?
        } else {
            self.block(pointer, module)?
        };
        Some(start.wrapping_add(offset))
    }

    /// The distance below the thread pointer at which the program's own variables begin.
    fn static_bytes(&self) -> Option<u64> {
        let file = self.program.main_file(self.inferior)?;
        let (bytes, align) = thread_local_segment(&std::fs::read(file).ok()?)?;
        bytes.checked_next_multiple_of(align)
    }

    /// Where a thread has the variables of a module.
    fn block(&self, pointer: u64, module: u64) -> Option<u64> {
        const ENTRY_BYTES: u64 = 16;
        let Some((number_at, distance_at)) = self.glibc_offsets() else {
            return self.block_of_musl(pointer, module);
        };
        let distance = self.changes.word(self.inferior, module + distance_at)?;
        let is_static = distance != 0 && distance != u64::MAX;
        if is_static {
            return pointer.checked_sub(distance);
        }
        let (number, table) = (
            self.changes.word(self.inferior, module + number_at)?,
            self.changes.word(self.inferior, pointer + TABLE)?,
        );
        let most = self.changes.word(self.inferior, table.checked_sub(ENTRY_BYTES)?)?;
        let block = (1..=most)
            .contains(&number)
            .then(|| self.changes.word(self.inferior, table + number * ENTRY_BYTES))
            .flatten()?;
        (block != 0 && block != u64::MAX).then_some(block)
    }

    fn block_of_musl(&self, pointer: u64, module: u64) -> Option<u64> {
        const ENTRY_BYTES: u64 = 8;
        let mut number = 0;
        for library in self.program.loaded(self.inferior) {
            let file = self.inferior.text.original_at(library.dynamic);
            let has_any = file
                .and_then(|file| std::fs::read(file).ok())
                .is_some_and(|elf| thread_local_segment(&elf).is_some());
            number += u64::from(has_any);
            if library.link_map == module {
                let table = self.changes.word(self.inferior, pointer + TABLE)?;
                let most = self.changes.word(self.inferior, table)?;
                return (has_any && number <= most)
                    .then(|| self.changes.word(self.inferior, table + number * ENTRY_BYTES))
                    .flatten();
            }
        }
        None
    }

    /// The offsets in glibc's link map of a module's number and of its distance; `None` if this is
    /// not glibc.
    fn glibc_offsets(&self) -> Option<(u64, u64)> {
        self.program.loaded(self.inferior).iter().find_map(|library| {
            let elf = std::fs::read(self.inferior.text.original_at(library.dynamic)?).ok()?;
            let described = |name: &[u8]| {
                Some(u64::from(
                    self.described(library.bias.wrapping_add(dynamic_symbol(&elf, name)?))?,
                ))
            };
            Some((described(NUMBER_SYMBOL)?, described(DISTANCE_SYMBOL)?))
        })
    }

    fn described(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; DESCRIPTION_BYTES as usize];
        let is_there = self.changes.read(self.inferior, address, &mut bytes) == bytes.len();
        let offset: [u8; 4] = bytes.get(DESCRIBED_OFFSET as usize..)?.try_into().ok()?;
        is_there.then(|| u32::from_le_bytes(offset))
    }
}

/// The size and the alignment of a file's thread-local variables.
fn thread_local_segment(elf: &[u8]) -> Option<(u64, u64)> {
    let header = Elf::parse(elf).ok()?;
    let segments = header.program_headers(LittleEndian, elf).ok()?;
    let segment = segments.iter().find(|segment| segment.p_type(LittleEndian) == PT_TLS)?;
    Some((segment.p_memsz(LittleEndian), segment.p_align(LittleEndian).max(1)))
}

/// The value of a symbol that a file exports.
fn dynamic_symbol(elf: &[u8], name: &[u8]) -> Option<u64> {
    let sections = Elf::parse(elf).ok()?.sections(LittleEndian, elf).ok()?;
    let symbols = sections.symbols(LittleEndian, elf, object::elf::SHT_DYNSYM).ok()?;
    let found =
        symbols.iter().find(|symbol| symbol.name(LittleEndian, symbols.strings()) == Ok(name))?;
    Some(found.st_value(LittleEndian))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_elf_file_has_nothing() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 64]] {
            assert_eq!(
                (thread_local_segment(bytes), dynamic_symbol(bytes, NUMBER_SYMBOL)),
                (None, None)
            );
        }
    }
}
