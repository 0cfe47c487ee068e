//! Instructions that become traps in place, because they are rarely executed. Some of them give
//! different answers at different times without a system call. Others would take `%gs` away from
//! the runtime. CPUID offers none of them, but programs need not ask.
//!
//! The trap is an `int` with a vector that no other trap has. Prefixes, which `int` ignores, stay
//! before it, and a `nop` fills the rest. The runtime can therefore find the operand, and decoding
//! the text still finds instructions. A program's own `int` with such a vector, which the kernel
//! answers with a fault, gets another vector with the same effect.

use crate::chunk::Chunk;
use crate::elf::ElfView;
use crate::functions::Functions;
use crate::gather::chunk_index;
use crate::jump::Patch;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

const INT: u8 = 0xcd;
const NOP: u8 = 0x90;
/// The vector for RDRAND, RDSEED and RDPID. The lower half of the operand byte, which tells the
/// instruction and the register, is added to it.
const RANDOM_TRAP: u8 = 0xd0;
/// The vector for RDGSBASE and WRGSBASE, which are refused.
const BASE_TRAP: u8 = 0xe0;
/// The other vectors with a meaning: those of the traps for `syscall`, `rdtsc`, `cpuid` and
/// `rdtscp`.
const MEANINGFUL: [u8; 4] = [0x05, 0x31, 0xa2, 0xf9];
/// A vector without a meaning.
const MEANINGLESS: u8 = 0x06;

fn means_something(vector: u8) -> bool {
    MEANINGFUL.contains(&vector) || (RANDOM_TRAP..=BASE_TRAP).contains(&vector)
}

/// Addresses of bytes that may be such an instruction, ascending. `others` includes instructions
/// other than `int`.
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

/// The edits for those places that are surely instructions, in functions that decode cleanly.
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

/// The edits of one function. `None` if it does not decode cleanly.
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

/// The edit of one instruction, if it needs one. The opcode and operand are at its end.
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
