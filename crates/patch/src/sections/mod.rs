//! Sections: code that one thread at a time executes, in an order that is recorded. These are
//! single atomic instructions, and whole functions of the C library that synchronise threads, whose
//! plain loads and stores must be ordered as well.

mod bindings;
mod bodies;
mod cancellation;
mod cleanups;
mod groups;
mod names;
mod objects;
mod pads;
mod planning;

pub(crate) use bindings::Binding;
pub(crate) use objects::Object;
pub(crate) use planning::choose_wanted;

use crate::atomic;
use crate::elf::ElfView;
use crate::functions::Functions;
use crate::image::Refusal;
use groups::Groups;
use names::Library;

/// Distance in a function, in bytes, of places that are examined closely. Their surroundings
/// overlap.
const PLACE_BYTES: usize = 128;

/// The code that should be in sections, or counted.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Functions that should be sections as a whole.
    pub functions: Vec<Function>,
    /// All atomic instructions, ascending.
    pub atomics: Vec<u64>,
    /// Whether the atomic instructions are ordered by the memory of their operands. In the C
    /// library, they share memory with functions that are sections, and are ordered by the baton.
    pub by_memory: bool,
    /// Those that are ordered by memory in any case, ascending: nothing else accesses the same
    /// memory.
    pub known: Vec<u64>,
    /// For each chunk, whether it begins with a symbol other than that of a function's cold part.
    pub named: Vec<bool>,
    /// First instructions of functions whose calls are counted, ascending. Empty if there are
    /// sections.
    pub passages: Vec<u64>,
    /// Instructions that threads execute while they spin, ascending. Empty if there are sections.
    pub spins: Vec<u64>,
    /// Where threads come by way of unbound slots, ascending.
    pub bindings: Vec<Binding>,
    /// Places in the text to be examined closely, ascending.
    pub places: Vec<u64>,
}

impl Wanted {
    /// Makes a set of passages and rounds of spinning alone.
    pub fn passages(passages: Vec<u64>, spins: Vec<u64>) -> Self {
        let mut places = [&passages[..], &spins].concat();
        places.sort_unstable();
        Self { places, passages, spins, ..Self::default() }
    }

    /// Whether there is nothing to patch.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
            && self.atomics.is_empty()
            && self.passages.is_empty()
            && self.spins.is_empty()
            && self.bindings.is_empty()
    }
}

/// Chunks that make up one function, and jump to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Indices of the chunks, ascending.
    pub chunks: Vec<usize>,
    /// Its object, if known.
    pub object: Option<Object>,
    /// Why it cannot be a section, if that is known.
    pub refusal: Option<Refusal>,
}

/// Finds the code that should be in sections. There is none in a file that does not tell its
/// functions, and none in the dynamic linker: threads are ordered before they come there to bind a
/// function, and it has locks of its own for the rest.
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
    let bindings = bindings::find(elf);
    places.extend(bindings.iter().map(|binding| binding.push));
    places.sort_unstable();
    Wanted {
        functions,
        atomics,
        by_memory: library == Library::Other,
        known,
        named: names.named,
        passages: Vec::new(),
        spins: Vec::new(),
        bindings,
        places,
    }
}
