//! The counts of `std::shared_ptr` in the GNU C++ library. After the pointer to its functions, an
//! object has the number of pointers that share it, and the number that know of it. Before a thread
//! lowers them, it reads whether both are 1: then no other thread knows of the object. Before a
//! thread raises the first one, for a `std::weak_ptr`, it reads whether that is 0.

use super::{bytes_of, decode, is_behind_register};
use crate::chunk::Chunk;
use crate::elf::ElfView;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use std::collections::BTreeSet;

/// Offset of the counts.
const COUNTS: u64 = 8;
/// Both counts are 1.
const BOTH_ONE: u64 = 0x1_0000_0001;
/// The most instructions between the load and the comparison.
const MOST_BETWEEN: usize = 6;

const LOCK: u8 = 0xf0;

pub(super) fn find(elf: &ElfView, chunks: &[Chunk]) -> Vec<u64> {
    let mut looks = Vec::new();
    for chunk in chunks.iter().filter(|chunk| may_look(bytes_of(elf, chunk))) {
        let code = decode(elf, chunk);
        looks.extend(looks_at_both(&code));
        if raises(&code) {
            looks.extend(looks_at_first(&code));
        }
    }
    looks
}

/// Whether the bytes may have the constant or a `lock cmpxchg`.
fn may_look(bytes: &[u8]) -> bool {
    let constant = BOTH_ONE.to_le_bytes();
    (0..bytes.len()).any(|at| match bytes[at] {
        0xb8..=0xbf => bytes[at + 1..].starts_with(&constant),
        LOCK => matches!(bytes[at + 1..], [0x0f, 0xb1, ..] | [0x40..=0x47, 0x0f, 0xb1, ..]),
        _ => false,
    })
}

/// Loads of both counts, into a register or in a comparison, that are compared with 1 and 1.
fn looks_at_both(code: &[Instruction]) -> Vec<u64> {
    let has_constant =
        |one: &&Instruction| one.code() == Code::Mov_r64_imm64 && one.immediate64() == BOTH_ONE;
    let constants: BTreeSet<Register> =
        code.iter().filter(has_constant).map(|one| one.op0_register()).collect();
    let compares = |one: &Instruction, register: Register| {
        let operands = [one.op0_register(), one.op1_register()];
        one.mnemonic() == Mnemonic::Cmp
            && operands.contains(&register)
            && operands.iter().any(|other| *other != register && constants.contains(other))
    };
    let looks = |at: usize, one: &Instruction| {
        let in_place = one.mnemonic() == Mnemonic::Cmp
            && one.memory_size().size() == 8
            && [one.op0_register(), one.op1_register()]
                .iter()
                .any(|register| constants.contains(register));
        let behind = &code[at + 1..code.len().min(at + 1 + MOST_BETWEEN)];
        let loads = one.code() == Code::Mov_r64_rm64 && one.op1_kind() == OpKind::Memory;
        is_behind_register(one, COUNTS)
            && (in_place || loads && behind.iter().any(|next| compares(next, one.op0_register())))
    };
    if constants.is_empty() {
        return Vec::new();
    }
    let places = code.iter().enumerate().filter(|(at, one)| looks(*at, one));
    places.map(|(_, one)| one.ip()).collect()
}

/// Whether the function raises a count by compare-and-exchange, by the count's address or a copy of
/// it.
fn raises(code: &[Instruction]) -> bool {
    let copies: BTreeSet<Register> = code
        .iter()
        .filter(|one| one.mnemonic() == Mnemonic::Lea && is_behind_register(one, COUNTS))
        .map(|one| one.op0_register())
        .collect();
    code.iter().any(|one| {
        one.code() == Code::Cmpxchg_rm32_r32
            && one.has_lock_prefix()
            && (is_behind_register(one, COUNTS)
                || is_behind_register(one, 0) && copies.contains(&one.memory_base()))
    })
}

/// Loads of the first count that are compared with 0.
fn looks_at_first(code: &[Instruction]) -> Vec<u64> {
    let is_compared = |at: usize, register: Register| {
        let mut behind = code[at + 1..].iter().take(MOST_BETWEEN);
        behind.any(|next| {
            next.mnemonic() == Mnemonic::Test
                && next.op0_register() == register
                && next.op1_register() == register
        })
    };
    let looks = |at: usize, one: &Instruction| {
        let loads = one.code() == Code::Mov_r32_rm32 && one.op1_kind() == OpKind::Memory;
        loads && is_behind_register(one, COUNTS) && is_compared(at, one.op0_register())
    };
    let places = code.iter().enumerate().filter(|(at, one)| looks(*at, one));
    places.map(|(_, one)| one.ip()).collect()
}
