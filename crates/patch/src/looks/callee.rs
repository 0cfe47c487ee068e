//! The callers of a function that may come from another file.

use super::bytes_of;
use crate::bytes::u32_at;
use crate::chunk::Chunk;
use crate::elf::ElfView;
use iced_x86::{FlowControl, Instruction};

/// Sections of stubs that the linker makes.
const STUBS: [&[u8]; 3] = [b".plt", b".plt.sec", b".plt.got"];

/// `call rel32`
const CALL: u8 = 0xe8;
/// `call *disp32(%rip)`, and the same jump.
const CALL_THROUGH: [u8; 2] = [0xff, 0x15];
const JUMP_THROUGH: [u8; 2] = [0xff, 0x25];
const ENTRY_MARK: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// A function of a certain name.
pub(super) struct Callee {
    /// Its address, and those of stubs that lead to it, ascending.
    places: Vec<u64>,
    /// The words into which the dynamic linker writes its address, ascending.
    slots: Vec<u64>,
}

impl Callee {
    /// Finds the function. `None` if the file neither has nor imports it.
    pub fn of(elf: &ElfView, name: &[u8]) -> Option<Self> {
        let mut slots = elf.slots_of(name);
        slots.sort_unstable();
        let own = elf.function_symbols().into_iter().filter(|symbol| symbol.name == name);
        let mut places: Vec<u64> = own.map(|symbol| symbol.address).collect();
        if !slots.is_empty() {
            places.extend(STUBS.iter().flat_map(|section| stubs(elf, section, &slots)));
        }
        places.sort_unstable();
        (!places.is_empty() || !slots.is_empty()).then_some(Self { places, slots })
    }

    /// The chunks that have the bytes of a call of it.
    pub fn callers(&self, elf: &ElfView, chunks: &[Chunk]) -> Vec<usize> {
        let calls = |chunk: &Chunk| {
            let bytes = bytes_of(elf, chunk);
            let may_call = |at: usize| {
                let next = |from: usize| {
                    let distance = u32_at(bytes, from)? as i32;
                    let end = chunk.start + from as u64 + 4;
                    Some(end.wrapping_add_signed(i64::from(distance)))
                };
                let leads = |from, to| next(from).is_some_and(|end| holds(to, end));
                bytes[at] == CALL && leads(at + 1, &self.places)
                    || bytes[at..].starts_with(&CALL_THROUGH) && leads(at + 2, &self.slots)
            };
            (0..bytes.len()).any(may_call)
        };
        (0..chunks.len()).filter(|index| calls(&chunks[*index])).collect()
    }

    pub fn is_called_by(&self, instruction: &Instruction) -> bool {
        match instruction.flow_control() {
            FlowControl::Call => {
                instruction.is_call_near() && holds(&self.places, instruction.near_branch_target())
            }
            FlowControl::IndirectCall => {
                instruction.is_ip_rel_memory_operand()
                    && holds(&self.slots, instruction.ip_rel_memory_address())
            }
            _ => false,
        }
    }
}

fn holds(addresses: &[u64], address: u64) -> bool {
    addresses.binary_search(&address).is_ok()
}

/// The starts of stubs that jump through the slots: the jump itself, or a prefix or entry mark
/// before it.
fn stubs(elf: &ElfView, section: &[u8], slots: &[u64]) -> Vec<u64> {
    let Some(section) = elf.section(section) else { return Vec::new() };
    let mut found = Vec::new();
    for (at, bytes) in section.bytes.windows(6).enumerate() {
        let from = section.address + at as u64;
        let distance = u32_at(bytes, 2).unwrap_or_default() as i32;
        let slot = (from + 6).wrapping_add_signed(i64::from(distance));
        if !bytes.starts_with(&JUMP_THROUGH) || !holds(slots, slot) {
            continue;
        }
        let before = &section.bytes[..at];
        let unprefixed = before.strip_suffix(&[0xf2]).unwrap_or(before);
        let unmarked = unprefixed.strip_suffix(&ENTRY_MARK).unwrap_or(unprefixed);
        let starts = [before, unprefixed, unmarked].map(|before| before.len() as u64);
        found.extend(starts.map(|start| section.address + start));
    }
    found
}
