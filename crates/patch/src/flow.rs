//! The ends of functions whose size is unknown: assembler functions without `.size`, and the entry
//! point.

use crate::elf::ElfView;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// Longest function whose end is inferred, in bytes.
const INFERENCE_LIMIT: usize = 64 * 1024;

/// Infers the end of the function at `start`. Decoding goes straight on up to an instruction that
/// never falls through and that no earlier branch skips. Returns `None` if there is no such
/// instruction, if the bytes do not decode, or when `left_bytes` are used up.
pub(crate) fn inferred_end(elf: &ElfView, start: u64, left_bytes: &mut usize) -> Option<u64> {
    let bytes = elf.bytes_from(start);
    let bytes = &bytes[..bytes.len().min(INFERENCE_LIMIT)];
    let limit = start + bytes.len() as u64;
    let mut furthest = start;
    let mut instruction = Instruction::default();
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        *left_bytes = left_bytes.checked_sub(instruction.len())?;
        let target = instruction.near_branch_target();
        let flow = instruction.flow_control();
        let stays =
            matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
        if stays && target > start && target < limit {
            furthest = furthest.max(target);
        }
        let ends = matches!(
            flow,
            FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return
                | FlowControl::Exception
        );
        if ends && instruction.next_ip() > furthest {
            return Some(instruction.next_ip());
        }
    }
    None
}
