//! A hash of everything that the program could see of itself, to compare two visits of a place.

use crate::error::Result;
use crate::inferior::Inferior;
use crate::place::{STACK_POINTER, dead_ranges};
use retake_kernel::context::words_of;
use retake_kernel::{maps, memory};
use retake_snapshot::in_runtime;
use retake_snapshot::{PAGE_BYTES, Page, Pagemap};
use xxhash_rust::xxh3::Xxh3;

const PIECE_BYTES: usize = 1 << 20;
const PROGRAM_COUNTER: usize = retake_contract::context::registers::RIP / 8;

/// Hashes the registers of all threads and all writable memory, except for the memory just below
/// the stacks.
///
/// # Errors
/// The process is gone.
pub(crate) fn hash_of_state(inferior: &Inferior) -> Result<u64> {
    let mut hash = Xxh3::new();
    let mut tops = Vec::new();
    for (tid, known) in inferior.threads() {
        let words = words_of(&inferior.registers(tid)?);
        tops.push(words[STACK_POINTER]);
        hash.update(&known.to_le_bytes());
        // Leave the flags out: they depend on how the thread was stopped.
        words[..=PROGRAM_COUNTER].iter().for_each(|word| hash.update(&word.to_le_bytes()));
    }
    let pid = inferior.process.pid;
    let pagemap = Pagemap::of(pid)?;
    let is_seen = |one: &&maps::Mapping| {
        one.writable
            && one.readable
            && !in_runtime(one.start)
            && !inferior.process.memory.is_probe_page(one.start)
    };
    let mut end = 0;
    for mapping in maps::of_process(pid)?.iter().filter(is_seen) {
        // Treat adjacent mappings as one. Whether they are one is up to the kernel, and in copies
        // of the process they often are not.
        if mapping.start != end {
            hash.update(&mapping.start.to_le_bytes());
        }
        end = mapping.end;
        for address in (mapping.start..mapping.end).step_by(PIECE_BYTES) {
            let count = PIECE_BYTES.min((mapping.end - address) as usize);
            let is_anonymous = mapping.inode == 0;
            let Ok(mut bytes) = read(pid, &pagemap, (address, count), is_anonymous) else {
                continue;
            };
            inferior.process.memory.take_traps_out(address, &mut bytes);
            for dead in dead_ranges(&tops) {
                let start = dead.start.clamp(address, address + count as u64) - address;
                let end = dead.end.clamp(address, address + count as u64) - address;
                bytes[start as usize..end as usize].fill(0);
            }
            hash.update(&bytes);
        }
    }
    Ok(hash.digest())
}

/// Reads memory. Untouched anonymous pages are not read, because that would allocate them; they are
/// zeros.
fn read(
    pid: i32,
    pagemap: &Pagemap,
    (address, count): (u64, usize),
    is_anonymous: bool,
) -> std::io::Result<Vec<u8>> {
    if !is_anonymous {
        return memory::peek_vec(pid, address, count);
    }
    let mut bytes = vec![0; count];
    let pages = pagemap.pages(address, count / PAGE_BYTES as usize)?;
    let mut from = 0;
    for run in pages.chunk_by(|one, other| one.is_absent() == other.is_absent()) {
        let to = from + run.len() * PAGE_BYTES as usize;
        if !run.first().is_some_and(|page: &Page| page.is_absent()) {
            memory::peek(pid, address + from as u64, &mut bytes[from..to])?;
        }
        from = to;
    }
    Ok(bytes)
}
