//! Sections: what one thread at a time does, and in an order that is recorded. Single atomic
//! instructions, and whole functions of the C library that synchronise threads, whose plain loads
//! and stores must be ordered as well.

mod bodies;
mod cancellation;
mod cleanups;
mod groups;
mod names;
mod objects;
mod pads;
mod planning;

pub(crate) use objects::Object;
pub(crate) use planning::choose_wanted;

use crate::atomic;
use crate::elf::ElfView;
use crate::functions::Functions;
use crate::image::Refusal;
use groups::Groups;
use names::Library;

/// Bytes of a function between places that are looked at closely: their surroundings overlap.
const PLACE_BYTES: usize = 128;

/// What should be in sections, or counted.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Functions that should be sections as a whole.
    pub functions: Vec<Function>,
    /// All atomic instructions, ascending.
    pub atomics: Vec<u64>,
    /// The atomic instructions are ordered by the memory that they name. In the C library they
    /// share it with functions that are sections, and are ordered by the baton.
    pub by_memory: bool,
    /// Those of them that are ordered by memory all the same, ascending: nothing else is ordered
    /// with what they name.
    pub known: Vec<u64>,
    /// Chunks that begin with a symbol that is not that of a function's cold part; for each chunk.
    pub named: Vec<bool>,
    /// First instructions of functions whose calls are to be counted, ascending. Where there are
    /// sections there are none.
    pub passages: Vec<u64>,
    /// The text to be looked at closely, ascending.
    pub places: Vec<u64>,
}

impl Wanted {
    /// Passages alone.
    pub fn passages(passages: Vec<u64>) -> Self {
        Self { places: passages.clone(), passages, ..Self::default() }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.atomics.is_empty() && self.passages.is_empty()
    }
}

/// Chunks that are one function, among which control goes to and fro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Ascending.
    pub chunks: Vec<usize>,
    /// What it works on, if that is known.
    pub object: Option<Object>,
    /// Why it cannot be a section, if that is known already.
    pub refusal: Option<Refusal>,
}

/// Finds what should be in sections. In a file that does not tell its functions there is nothing,
/// nor in the dynamic linker, where threads that bind the same symbol race, but do the same.
pub(crate) fn find(elf: &ElfView, functions: &Functions) -> Wanted {
    let library = Library::of(elf);
    if !functions.known || library == Library::Linker {
        return Wanted::default();
    }
    let chunks = &functions.chunks;
    let names = names::Names::of(elf, library, chunks);
    let declared = &functions.declared;
    let mut groups = Groups::new(elf, declared, chunks, &names);
    for index in atomic::chunks_to_read(elf, declared, chunks) {
        groups.read(index);
    }
    groups.add_named();
    let atomics = groups.atomics();
    let functions = groups.functions();
    let is_known = |address: &u64| declared.is_known(*address) || declared.is_look(*address);
    let known = atomics.iter().copied().filter(is_known).collect();
    let mut places = atomics.clone();
    for index in functions
        .iter()
        .filter(|function| function.refusal.is_none())
        .flat_map(|function| &function.chunks)
    {
        places.extend((chunks[*index].start..chunks[*index].end).step_by(PLACE_BYTES));
    }
    places.sort_unstable();
    Wanted {
        functions,
        atomics,
        by_memory: library == Library::Other,
        known,
        named: names.named,
        passages: Vec::new(),
        places,
    }
}
