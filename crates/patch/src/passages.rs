//! Functions whose calls are counted, so that a thread can be stopped at one of them, and replay
//! can find the same call. Threads call these functions before they use shared memory.

use crate::chunk::Chunk;
use crate::elf::ElfView;
use crate::functions::Functions;

const COUNTED: [&[u8]; 6] = [
    b"pthread_mutex_lock",
    b"__pthread_mutex_lock",
    b"pthread_rwlock_rdlock",
    b"__pthread_rwlock_rdlock",
    b"pthread_rwlock_wrlock",
    b"__pthread_rwlock_wrlock",
];

/// `endbr64`, which must stay the first instruction of a function.
const ENTRY_MARK: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The first instructions of those functions that the file defines, ascending. An `endbr64` is
/// skipped.
pub(crate) fn find(elf: &ElfView, functions: &Functions) -> Vec<u64> {
    if !functions.known || !elf.defines([b"pthread_mutex_lock"])[0] {
        return Vec::new();
    }
    let symbols = elf.function_symbols();
    let counted = symbols.iter().filter(|symbol| {
        COUNTED.contains(&symbol.name) && begins(&functions.chunks, symbol.address)
    });
    let mut found: Vec<u64> = counted.map(|symbol| behind_mark(elf, symbol.address)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn begins(chunks: &[Chunk], address: u64) -> bool {
    chunks.binary_search_by_key(&address, |chunk| chunk.start).is_ok()
}

/// The address of a function's first instruction that may be displaced.
pub(crate) fn behind_mark(elf: &ElfView, address: u64) -> u64 {
    let marked = elf.bytes_from(address).starts_with(&ENTRY_MARK);
    address + if marked { ENTRY_MARK.len() as u64 } else { 0 }
}
