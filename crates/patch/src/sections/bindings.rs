//! Calls by way of slots that the dynamic linker has not bound yet.
//!
//! Code calls a function of another file by way of its entry in the procedure linkage table. The
//! entry jumps to where the slot leads. That is at first the rest of the entry, which pushes the
//! number of a relocation and goes on to the dynamic linker (System V ABI for x86-64, section 5.2).

use crate::elf::ElfView;
use crate::passages::behind_mark;

/// `push imm32`
const PUSH: u8 = 0x68;

/// An instruction that a thread comes to only by way of an unbound slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binding {
    /// The instruction that pushes the number of the relocation.
    pub push: u64,
    /// The slot's address.
    pub slot: u64,
}

/// All bindings of a file, ascending.
pub(super) fn find(elf: &ElfView) -> Vec<Binding> {
    let mut found: Vec<Binding> =
        elf.lazy_slots().into_iter().filter_map(|slot| binding_of(elf, slot)).collect();
    found.sort_unstable();
    found.dedup_by_key(|binding| binding.push);
    found
}

fn binding_of(elf: &ElfView, slot: u64) -> Option<Binding> {
    let leads_to = u64::from_le_bytes(*elf.bytes_from(slot).first_chunk()?);
    let push = behind_mark(elf, leads_to);
    (elf.is_text(push) && elf.bytes_from(push).first() == Some(&PUSH))
        .then_some(Binding { push, slot })
}
