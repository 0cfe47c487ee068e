//! Atomic instructions, and the functions that may have some.

use crate::chunk::Chunk;
use crate::declared::Declared;
use crate::elf::ElfView;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Whether threads synchronise by the instruction: it is atomic, or the compiler declared it.
pub(crate) fn is_operation(instruction: &Instruction, declared: &Declared) -> bool {
    is_atomic(instruction)
        || declared.contains(instruction.ip()) && accesses_memory(instruction)
        || declared.is_look(instruction.ip())
        || declared.is_known(instruction.ip()) && accesses_by_pointer(instruction)
        || declared.variables().is_some_and(|variables| may_be_shared(instruction, variables))
}

/// Whether the instruction accesses memory that is neither on the stack nor the thread's own.
/// `variables` is where those of the file begin.
fn may_be_shared(instruction: &Instruction, variables: u64) -> bool {
    let is_in_reach = match instruction.memory_base() {
        Register::RSP => false,
        Register::RIP => instruction.ip_rel_memory_address() >= variables,
        _ => true,
    };
    is_in_reach
        && accesses_memory(instruction)
        && instruction.segment_prefix() == Register::None
        && instruction.flow_control() == FlowControl::Next
}

/// Whether the instruction accesses memory that an argument or a result points to.
fn accesses_by_pointer(instruction: &Instruction) -> bool {
    let base = instruction.memory_base();
    accesses_memory(instruction)
        && base.is_gpr64()
        && !matches!(base, Register::RSP | Register::RBP)
        && instruction.segment_prefix() == Register::None
}

/// Whether the instruction accesses the memory of one of its operands.
pub(crate) fn accesses_memory(instruction: &Instruction) -> bool {
    let names =
        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    names && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
}

/// Whether the instruction is a locked one that may change memory.
pub(crate) fn is_atomic(instruction: &Instruction) -> bool {
    let locks = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
    locks && accesses_memory(instruction) && !is_fence(instruction)
}

/// Whether the instruction leaves the stack unchanged, as `lock orq $0,(%rsp)` does, and so only
/// orders other accesses.
fn is_fence(instruction: &Instruction) -> bool {
    let on_stack = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
    let keeps = matches!(
        instruction.mnemonic(),
        Mnemonic::Or | Mnemonic::Add | Mnemonic::Sub | Mnemonic::Xor
    );
    let constant = !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
    on_stack && keeps && constant && instruction.immediate(1) == 0
}

const LOCK: u8 = 0xf0;
/// The number of the futex call as an immediate of `mov`. It may be kept in any register.
const FUTEX_NUMBER: [u8; 4] = [0xca, 0, 0, 0];

/// The chunks, ascending, that have a declared instruction, or have bytes of an atomic instruction
/// or of the futex call's number. Most other chunks need not be decoded.
pub(crate) fn chunks_to_read(elf: &ElfView, declared: &Declared, chunks: &[Chunk]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let bytes = elf.bytes_from(chunk.start);
        let bytes = &bytes[..bytes.len().min((chunk.end - chunk.start) as usize)];
        let may_be = |at: usize| match bytes[at] {
            LOCK => may_be_locked(&bytes[at + 1..]),
            0x86 | 0x87 => may_be_exchange(&bytes[..at], &bytes[at + 1..]),
            0xb8..=0xbf => bytes[at + 1..].starts_with(&FUTEX_NUMBER),
            _ => false,
        };
        if declared.any_in(chunk.start, chunk.end) || (0..bytes.len()).any(may_be) {
            found.push(index);
        }
    }
    found
}

/// Whether the bytes may be an `xchg` with memory and its operands. A conditional jump with the
/// same second byte is far more frequent.
fn may_be_exchange(before: &[u8], operands: &[u8]) -> bool {
    before.last() != Some(&0x0f) && operands.first().is_some_and(|mode| *mode < 0xc0)
}

/// Whether the bytes after a LOCK prefix can be an instruction that takes one.
fn may_be_locked(mut bytes: &[u8]) -> bool {
    while let [0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3, rest @ ..] = bytes {
        bytes = rest;
    }
    if let [0x40..=0x4f, rest @ ..] = bytes {
        bytes = rest;
    }
    let mode = match bytes {
        [0x0f, 0xab | 0xb0 | 0xb1 | 0xb3 | 0xba | 0xbb | 0xc0 | 0xc1 | 0xc7, mode, ..] => mode,
        [0x00..=0x31, mode, ..] if bytes[0] & 7 < 2 => mode,
        [0x80..=0x83 | 0x86 | 0x87 | 0xf6 | 0xf7 | 0xfe | 0xff, mode, ..] => mode,
        _ => return false,
    };
    *mode < 0xc0
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn atomic(bytes: &[u8]) -> bool {
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        assert_eq!(instruction.len(), bytes.len());
        is_atomic(&instruction)
    }

    #[test]
    fn locked_instructions_and_exchanges() {
        let yes: [&[u8]; 8] = [
            &[0xf0, 0x0f, 0xb1, 0x17],
            &[0xf0, 0x48, 0x0f, 0xc1, 0x07],
            &[0xf0, 0x64, 0x83, 0x0c, 0x25, 8, 3, 0, 0, 0x10],
            &[0x66, 0xf0, 0x83, 0x07, 1],
            &[0xf0, 0xff, 0x0f],
            &[0xf0, 0x49, 0x0f, 0xba, 0x2f, 3],
            &[0xf0, 0x48, 0x0f, 0xc7, 0x0f],
            &[0xf0, 0x21, 0x07],
        ];
        for bytes in yes {
            assert!(atomic(bytes), "{bytes:x?}");
            let lock = bytes.iter().position(|byte| *byte == LOCK).expect("locked");
            assert!(may_be_locked(&bytes[lock + 1..]), "{bytes:x?}");
        }
        assert!(atomic(&[0x87, 0x07]) && may_be_exchange(&[0x48], &[0x07]));
        assert!(!atomic(&[0x87, 0xc7]) && !may_be_exchange(&[], &[0xc7]), "between registers");
        assert!(!may_be_exchange(&[0x0f], &[0x07]), "a conditional jump");
    }

    #[test]
    fn fences_are_none() {
        assert!(!atomic(&[0xf0, 0x48, 0x83, 0x0c, 0x24, 0]), "lock orq $0,(%rsp)");
        assert!(!atomic(&[0xf0, 0x83, 0x4c, 0x24, 0xc0, 0]), "lock orl $0,-64(%rsp)");
        assert!(
            atomic(&[0xf0, 0x83, 0x04, 0x24, 1]),
            "a counter on the stack, which other threads may know"
        );
    }
}
