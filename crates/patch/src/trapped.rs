//! Instructions that become traps where they are, because hardly anybody executes them: those whose
//! answer differs from time to time without a system call, and those that would take `%gs` away
//! from the runtime. CPUID offers none of them, but programs need not ask.
//!
//! The trap is `int` with a vector that no other trap has. Prefixes, which `int` ignores, stay
//! before it, and a `nop` fills the rest. So the runtime finds the operand, and decoding the text
//! finds instructions. A program's own `int` with such a vector, which the kernel answers with
//! a fault, gets another that does the same.

use crate::chunk::Chunk;
use crate::elf::ElfView;
use crate::functions::Functions;
use crate::gather::chunk_index;
use crate::jump::Patch;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

const INT: u8 = 0xcd;
const NOP: u8 = 0x90;
/// Added to the lower half of the operand byte of RDRAND, RDSEED and RDPID, which says which of
/// them it is, and the register.
const RANDOM_TRAP: u8 = 0xd0;
/// Takes the place of RDGSBASE and WRGSBASE, which are refused.
const BASE_TRAP: u8 = 0xe0;
/// Vectors that mean something: these, and those of `syscall`, `rdtsc`, `cpuid`, `rdtscp`.
const MEANINGFUL: [u8; 4] = [0x05, 0x31, 0xa2, 0xf9];
/// One that means nothing.
const MEANINGLESS: u8 = 0x06;

fn means_something(vector: u8) -> bool {
    MEANINGFUL.contains(&vector) || (RANDOM_TRAP..=BASE_TRAP).contains(&vector)
}

/// Addresses of bytes that may be such an instruction, ascending; `others`: another one than `int`.
pub(crate) fn find(elf: &ElfView, others: bool) -> Vec<u64> {
    let mut found = Vec::new();
    for segment in elf.text_segments() {
        let bytes = elf.segment_bytes(segment);
        let places = bytes.windows(3).enumerate().filter(|(_, bytes)| may_be(bytes, others));
        found.extend(places.map(|(offset, _)| segment.address + offset as u64));
    }
    found
}

/// Whether three bytes may be the opcode and operand of such an instruction.
fn may_be(bytes: &[u8], others: bool) -> bool {
    match bytes {
        [0x0f, 0xc7, operand] => others && *operand >= 0xf0,
        [0x0f, 0xae, operand] => others && matches!(operand, 0xc8..=0xcf | 0xd8..=0xdf),
        [INT, vector, _] => means_something(*vector),
        _ => false,
    }
}

/// The edits for those of the places that surely are instructions, in functions that decode.
pub(crate) fn edits(elf: &ElfView, functions: &Functions, places: &[u64]) -> Vec<Patch> {
    let mut edits = Vec::new();
    let mut next = 0;
    while let Some(&place) = places.get(next).filter(|_| functions.known) {
        let Some(chunk) = chunk_index(&functions.chunks, place).map(|at| functions.chunks[at])
        else {
            next += 1;
            continue;
        };
        edits.extend(in_function(elf, &chunk).unwrap_or_default());
        next += places[next..].partition_point(|place| *place < chunk.end);
    }
    edits
}

/// `None` where the function does not decode cleanly.
fn in_function(elf: &ElfView, chunk: &Chunk) -> Option<Vec<Patch>> {
    let bytes = elf.bytes_from(chunk.start);
    let bytes = &bytes[..bytes.len().min((chunk.end - chunk.start) as usize)];
    let mut decoder = Decoder::with_ip(64, bytes, chunk.start, DecoderOptions::NONE);
    let mut edits = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        let own = &bytes[(instruction.ip() - chunk.start) as usize..][..instruction.len()];
        edits.extend(edit(&instruction, own));
    }
    Some(edits)
}

/// The edit of one instruction, if it needs one: its opcode and operand are at its end.
fn edit(instruction: &Instruction, bytes: &[u8]) -> Option<Patch> {
    let trap = match (instruction.mnemonic(), bytes) {
        (Mnemonic::Rdrand | Mnemonic::Rdseed | Mnemonic::Rdpid, [.., operand]) => {
            vec![INT, RANDOM_TRAP | (operand & 0xf), NOP]
        }
        (Mnemonic::Rdgsbase | Mnemonic::Wrgsbase, _) => vec![INT, BASE_TRAP, NOP],
        (Mnemonic::Int, [.., vector]) if means_something(*vector) => vec![INT, MEANINGLESS],
        _ => return None,
    };
    Some((instruction.next_ip() - trap.len() as u64, trap))
}
