//! Where the dynamic linker begins to bind a function.

use crate::elf::ElfView;
use crate::functions::Functions;
use crate::gather::chunk_index;
use crate::lazy_binding;
use crate::passages::behind_mark;
use std::collections::BTreeSet;

/// The first instructions of the functions that save registers for lazy binding, ascending. A
/// thread comes there when it calls a function for the first time.
pub(super) fn find(elf: &ElfView, functions: &Functions) -> Vec<u64> {
    let starts = lazy_binding::patches(elf).into_iter().filter_map(|(address, _)| {
        let index = chunk_index(&functions.chunks, address)?;
        Some(behind_mark(elf, functions.chunks[index].start))
    });
    starts.collect::<BTreeSet<u64>>().into_iter().collect()
}
