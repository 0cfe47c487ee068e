//! The auxiliary vector: what the kernel told the program about itself when it was executed.
//!
//! The vector lies at the beginning of the stack. In a process that has just executed a program,
//! the stack pointer is there. In a forked child, the stack pointer is deeper in the stack, or in
//! another thread's stack. Then the vector is searched for by entries that every vector has and
//! that hardly occur elsewhere.

use crate::inferior::Inferior;
use retake_kernel::maps::Mapping;

const AT_NULL: u64 = 0;
const AT_PHDR: u64 = 3;
const AT_PAGESZ: u64 = 6;
const AT_CLKTCK: u64 = 17;
const LAST_KEY: u64 = 64;
const PAGE_BYTES: u64 = 4096;
/// Consecutive entries of every vector: the page size, the clock ticks a second, and the program
/// headers.
const KNOWN: [(usize, u64); 4] = [(0, AT_PAGESZ), (1, PAGE_BYTES), (2, AT_CLKTCK), (4, AT_PHDR)];
const KNOWN_WORDS: usize = 6;
/// The limit for arguments or variables. No program has that many.
const LIMIT: usize = 1 << 20;
/// The most bytes searched. Arguments and environment lie above the vector.
const MOST_BYTES: u64 = 8 << 20;
/// The number of highest mappings searched. The first thread's stack is among them.
const HIGHEST: usize = 3;
const MOST_ENTRIES: usize = 128;

/// Returns the entries of the vector, including the last one, and the first stack pointer. There
/// are no entries if the vector is not found.
pub(crate) fn vector(inferior: &Inferior) -> (Vec<(u64, u64)>, u64) {
    let stack = inferior.registers(inferior.current).map_or(0, |registers| registers.rsp);
    let begun = behind_null(inferior, stack.wrapping_add(8))
        .and_then(|environment| behind_null(inferior, environment))
        .map(|start| entries(inferior, start))
        .filter(|entries| is_complete(entries));
    if let Some(entries) = begun {
        return (entries, stack);
    }
    let is_stack = |mapping: &&Mapping| mapping.writable && !mapping.shared && !mapping.executable;
    let all = inferior.text.mappings();
    let own = inferior.text.mapping(stack).into_iter();
    let candidates = own.chain(all.iter().rev().filter(is_stack).take(HIGHEST));
    let found = candidates.into_iter().find_map(|mapping| search(inferior, mapping));
    found.unwrap_or((Vec::new(), stack))
}

/// Searches for the vector at the end of a mapping.
fn search(inferior: &Inferior, mapping: &Mapping) -> Option<(Vec<(u64, u64)>, u64)> {
    let start = mapping.start.max(mapping.end.saturating_sub(MOST_BYTES));
    let mut bytes = vec![0; (mapping.end - start) as usize];
    let count = inferior.process.memory.read(start, &mut bytes);
    let words: Vec<u64> = bytes[..count]
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        .collect();
    let is_known =
        |words: &[u64]| KNOWN.iter().all(|(index, value)| words.get(*index) == Some(value));
    let known = words.windows(KNOWN_WORDS).rposition(is_known)?;
    let is_entry = |at: usize| (1..=LAST_KEY).contains(&words[at]);
    let first = (0..=known).rev().step_by(2).take_while(|at| is_entry(*at)).last()?;
    let first = start + 8 * first as u64;
    let entries = entries(inferior, first);
    is_complete(&entries).then_some((entries, first))
}

fn is_complete(entries: &[(u64, u64)]) -> bool {
    let has = |key: u64| entries.iter().any(|(known, _)| *known == key);
    has(AT_NULL) && has(AT_PHDR) && entries.contains(&(AT_PAGESZ, PAGE_BYTES))
}

fn entries(inferior: &Inferior, mut at: u64) -> Vec<(u64, u64)> {
    let mut entries = Vec::new();
    while let (Some(key), Some(value)) =
        (inferior.process.memory.word(at), inferior.process.memory.word(at.wrapping_add(8)))
    {
        entries.push((key, value));
        at = at.wrapping_add(16);
        if key == AT_NULL || entries.len() > MOST_ENTRIES {
            break;
        }
    }
    entries
}

/// The address after the zero word that ends the words at `at`.
fn behind_null(inferior: &Inferior, mut at: u64) -> Option<u64> {
    for _ in 0..LIMIT {
        let word = inferior.process.memory.word(at)?;
        at = at.wrapping_add(8);
        if word == 0 {
            return Some(at);
        }
    }
    None
}
