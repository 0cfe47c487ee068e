//! The addresses that a piece of code refers to.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use std::collections::HashSet;

/// Longest instruction.
const LONGEST: usize = 15;
/// The longest distance between a jump with a one-byte displacement and its target.
pub(crate) const SHORT_REACH: usize = 2 + 128;

/// Finds possible references in the code at `start`, by its bytes alone: jumps and calls with a
/// four-byte displacement, and operands relative to the program counter. No reference of an
/// instruction is missed, wherever instructions begin. [`of_code`] tells which ones are real. Calls
/// `found` with the target and the address of the reference.
pub(crate) fn possible(start: u64, code: &[u8], mut found: impl FnMut(u64, u64)) {
    // An address is relative to the end of its instruction, and 0, 1, 2 or 4 more bytes of it may
    // follow.
    const BEHIND: [u64; 4] = [0, 1, 2, 4];
    for (at, bytes) in code.windows(6).enumerate() {
        let (from, behind) = match KINDS[bytes[0] as usize] {
            Kind::Branch => (1, &BEHIND[..1]),
            Kind::Escape if bytes[1] & 0xf0 == 0x80 => (2, &BEHIND[..1]),
            Kind::Transaction if bytes[1] == 0xf8 => (2, &BEHIND[..1]),
            Kind::Operands => (1, &BEHIND[..]),
            _ => continue,
        };
        let distance =
            i32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]]);
        let source = start + at as u64;
        let target = (source + from as u64 + 4).wrapping_add_signed(distance.into());
        behind.iter().for_each(|more| found(target.wrapping_add(*more), source));
    }
}

/// Finds jumps with a one-byte displacement that may lead to `target`, which is at offset `place`
/// in the code.
pub(crate) fn possible_short(code: &[u8], place: usize) -> impl Iterator<Item = usize> + use<'_> {
    let first = place.saturating_sub(2 + i8::MAX as usize);
    code.windows(2).enumerate().skip(first).take(2 * SHORT_REACH).filter_map(move |(at, bytes)| {
        let jumps = matches!(bytes[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb);
        (jumps && (at + 2).checked_add_signed((bytes[1] as i8).into()) == Some(place)).then_some(at)
    })
}

/// The kinds of bytes that a reference may begin with.
#[derive(Clone, Copy)]
enum Kind {
    None,
    /// The opcode of a call or jump. The displacement follows.
    Branch,
    /// The first byte of a two-byte opcode, which may be a conditional jump.
    Escape,
    Transaction,
    /// The ModRM byte of an operand relative to the program counter.
    Operands,
}

static KINDS: [Kind; 256] = {
    let mut kinds = [Kind::None; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte & 0xc7 == 0x05 {
            kinds[byte] = Kind::Operands;
        }
        byte += 1;
    }
    kinds[0xe8] = Kind::Branch;
    kinds[0xe9] = Kind::Branch;
    kinds[0x0f] = Kind::Escape;
    kinds[0xc7] = Kind::Transaction;
    kinds
};

/// Adds the addresses that the code at `start` refers to. Decoding starts at several places,
/// because nothing says where instructions begin. It soon falls into step.
pub(crate) fn of_code(start: u64, code: &[u8], found: &mut HashSet<u64>) {
    let mut seen = vec![false; code.len()];
    let mut instruction = Instruction::default();
    for first in 0..LONGEST.min(code.len()) {
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        if decoder.set_position(first).is_err() {
            break;
        }
        decoder.set_ip(start + first as u64);
        while decoder.can_decode() && !seen[decoder.position()] {
            seen[decoder.position()] = true;
            let at = decoder.position();
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                let _ = decoder.set_position(at + 1);
                decoder.set_ip(start + at as u64 + 1);
                continue;
            }
            found.extend(of_instruction(&instruction));
        }
    }
}

fn of_instruction(instruction: &Instruction) -> Option<u64> {
    if matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    ) {
        return Some(instruction.near_branch_target());
    }
    instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For any bytes, each decoded reference is among the possible ones.
    #[test]
    fn no_reference_is_missed() {
        const START: u64 = 0x10_0000;
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        for round in 0..40 {
            // Short displacements, and a larger share of bytes that occur in references.
            let mut code: Vec<u8> = (0..4096).map(|_| next()).collect();
            for at in (0..4096 - 8).step_by(7) {
                let first =
                    [0xe8, 0xe9, 0x0f, 0xeb, 0x74, 0x48, 0xe3, 0xc7][usize::from(next()) % 8];
                code[at..at + 5].copy_from_slice(&[
                    first,
                    next(),
                    next(),
                    if round % 2 == 0 { 0 } else { 0xff },
                    if round % 2 == 0 { 0 } else { 0xff },
                ]);
            }
            let mut decoded = HashSet::new();
            of_code(START, &code, &mut decoded);
            code.extend([0; LONGEST]);
            let mut expected = HashSet::new();
            possible(START, &code, |target, _| {
                expected.insert(target);
            });
            for target in decoded {
                let place = target.wrapping_sub(START) as usize;
                let is_short = place < code.len() && possible_short(&code, place).next().is_some();
                assert!(
                    expected.contains(&target)
                        || is_short
                        || !(START..START + 4096).contains(&target),
                    "{target:#x}"
                );
            }
        }
    }
}
