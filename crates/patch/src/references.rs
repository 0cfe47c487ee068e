//! Which addresses a piece of code refers to.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use std::collections::HashSet;

/// Longest instruction.
const LONGEST: usize = 15;

/// Adds what the code that lies at `start` refers to. Decoding starts at several places, because nothing says where instructions begin; it soon
/// falls into step.
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
    if matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64) {
        return Some(instruction.near_branch_target());
    }
    instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address())
}
