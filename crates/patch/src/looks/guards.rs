//! Guards of functions' static variables. Before a thread calls `__cxa_guard_acquire`, it reads the
//! guard's first byte. It does not call if the variable is ready.

use super::callee::Callee;
use super::{bytes_of, decode, is_behind_register};
use crate::chunk::Chunk;
use crate::elf::ElfView;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use std::collections::BTreeSet;

const ACQUIRE: &[u8] = b"__cxa_guard_acquire";

/// The most instructions between the load of the argument and the call.
const MOST_BETWEEN: usize = 16;

/// A pointer that code loads into a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pointer {
    /// An address in the file.
    To(u64),
    /// The address that the dynamic linker writes to this address.
    From(u64),
}

impl Pointer {
    /// The address in the instruction that loads the pointer.
    fn named(self) -> u64 {
        match self {
            Pointer::To(address) | Pointer::From(address) => address,
        }
    }
}

pub(super) fn find(elf: &ElfView, chunks: &[Chunk]) -> Vec<u64> {
    let Some(acquire) = Callee::of(elf, ACQUIRE) else { return Vec::new() };
    let mut guards = BTreeSet::new();
    for index in acquire.callers(elf, chunks) {
        guards.extend(acquired(elf, &decode(elf, &chunks[index]), &acquire));
    }
    let mut looks = Vec::new();
    for index in naming(elf, chunks, &guards) {
        looks.extend(looks_among(elf, &decode(elf, &chunks[index]), &guards));
    }
    looks
}

/// The register that an instruction makes a pointer, and that pointer.
fn pointing(elf: &ElfView, instruction: &Instruction) -> Option<(Register, Pointer)> {
    if instruction.op_count() != 2 || instruction.op0_kind() != OpKind::Register {
        return None;
    }
    let register = instruction.op0_register();
    let relative = instruction.is_ip_rel_memory_operand();
    let pointer = match (instruction.mnemonic(), instruction.op1_kind()) {
        (Mnemonic::Lea, _) if relative => Pointer::To(instruction.ip_rel_memory_address()),
        (Mnemonic::Mov, OpKind::Memory) if relative && register.is_gpr64() => {
            Pointer::From(instruction.ip_rel_memory_address())
        }
        (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate64) if elf.fixed_address => {
            Pointer::To(instruction.immediate(1))
        }
        _ => return None,
    };
    Some((register.full_register(), pointer))
}

/// The pointers that callers pass. A call may be reached from several places, so every pointer that
/// the function loads into that register counts.
fn acquired(elf: &ElfView, code: &[Instruction], acquire: &Callee) -> BTreeSet<Pointer> {
    let (mut found, mut sources) = (BTreeSet::new(), BTreeSet::new());
    let calls = code.iter().enumerate().filter(|(_, one)| acquire.is_called_by(one));
    for (call, _) in calls {
        let writes_argument = |one: &&Instruction| {
            one.op_count() == 2
                && one.op0_kind() == OpKind::Register
                && one.op0_register().full_register() == Register::RDI
        };
        let before = &code[call.saturating_sub(MOST_BETWEEN)..call];
        let Some(argument) = before.iter().rev().find(writes_argument) else { continue };
        if let Some((_, pointer)) = pointing(elf, argument) {
            found.insert(pointer);
        } else if argument.mnemonic() == Mnemonic::Mov && argument.op1_kind() == OpKind::Register {
            sources.insert(argument.op1_register().full_register());
        }
    }
    let pointers = code.iter().filter_map(|one| pointing(elf, one));
    found.extend(pointers.filter(|(to, _)| sources.contains(to)).map(|(_, pointer)| pointer));
    found
}

/// The chunks whose bytes have the address of a guard.
fn naming(elf: &ElfView, chunks: &[Chunk], guards: &BTreeSet<Pointer>) -> Vec<usize> {
    let mut named: Vec<u64> = guards.iter().map(|guard| guard.named()).collect();
    named.sort_unstable();
    let (Some(first), Some(last)) = (named.first(), named.last()) else { return Vec::new() };
    let is_named =
        |address: u64| (*first..=*last).contains(&address) && named.binary_search(&address).is_ok();
    let names = |chunk: &Chunk| {
        bytes_of(elf, chunk).windows(4).enumerate().any(|(at, word)| {
            let word = u32::from_le_bytes(word.try_into().expect("windows of 4 bytes"));
            let end = chunk.start + at as u64 + 4;
            let target = end.wrapping_add_signed(i64::from(word as i32));
            // A one-byte immediate that is compared with the guard may follow.
            is_named(target)
                || is_named(target.wrapping_add(1))
                || elf.fixed_address && is_named(u64::from(word))
        })
    };
    (0..chunks.len()).filter(|index| names(&chunks[*index])).collect()
}

fn looks_among(elf: &ElfView, code: &[Instruction], guards: &BTreeSet<Pointer>) -> Vec<u64> {
    let registers: BTreeSet<Register> = code
        .iter()
        .filter_map(|one| pointing(elf, one))
        .filter(|(_, pointer)| guards.contains(pointer))
        .map(|(register, _)| register)
        .collect();
    let is_guard = |one: &Instruction| {
        if one.is_ip_rel_memory_operand() {
            return guards.contains(&Pointer::To(one.ip_rel_memory_address()));
        }
        let is_absolute =
            one.memory_base() == Register::None && one.memory_index() == Register::None;
        is_behind_register(one, 0) && registers.contains(&one.memory_base())
            || is_absolute && guards.contains(&Pointer::To(one.memory_displacement64()))
    };
    code.iter().filter(|one| loads_byte(one) && is_guard(one)).map(Instruction::ip).collect()
}

/// Whether an instruction reads one byte of memory and does not write it.
fn loads_byte(instruction: &Instruction) -> bool {
    let from_memory = instruction.op1_kind() == OpKind::Memory;
    let compares = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    let loads = matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx);
    instruction.op_count() == 2
        && instruction.memory_size().size() == 1
        && (loads && from_memory
            || compares && (from_memory || instruction.op0_kind() == OpKind::Memory))
}
