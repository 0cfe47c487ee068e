//! How much of its frame a thread has made, or given up again, by the instructions around it.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use retake_python::Reader;

/// The most instructions that make or give up a frame.
const MOST_INSTRUCTIONS: usize = 16;
/// The most bytes of these.
const MOST_BYTES: u64 = 96;

/// The bytes between the stack pointer and the address where a method returns, if the thread stands
/// at `pc`, before the instructions from `entry` to `complete` have made the frame.
pub fn depth_while_made(reader: Reader<'_>, entry: u64, pc: u64, complete: u64) -> Option<u64> {
    if !(entry..complete.min(entry.saturating_add(MOST_BYTES))).contains(&pc) {
        return None;
    }
    let bytes = reader.bytes(entry, pc - entry)?;
    let mut depth = 0_u64;
    for instruction in Decoder::with_ip(64, &bytes, entry, DecoderOptions::NONE) {
        depth = depth.checked_add_signed(-moved(&instruction).unwrap_or_default())?;
    }
    Some(depth)
}

/// The same, if the thread is about to return: nothing follows but what gives the frame up.
pub fn depth_while_given_up(reader: Reader<'_>, pc: u64) -> Option<u64> {
    const PAGE_BYTES: u64 = 4096;
    let bytes = reader
        .bytes(pc, MOST_BYTES)
        .or_else(|| reader.bytes(pc, (PAGE_BYTES - pc % PAGE_BYTES).min(MOST_BYTES)))?;
    let mut depth = 0_u64;
    let decoder = Decoder::with_ip(64, &bytes, pc, DecoderOptions::NONE);
    for instruction in decoder.into_iter().take(MOST_INSTRUCTIONS) {
        match instruction.mnemonic() {
            Mnemonic::Ret => return Some(depth),
            // Whether the thread is to stop here, and old forms of that.
            Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Ja
            | Mnemonic::Jae
            | Mnemonic::Vzeroupper => {}
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Register => {}
            _ => depth = depth.checked_add_signed(moved(&instruction).filter(|by| *by > 0)?)?,
        }
    }
    None
}

/// How far an instruction moves the stack pointer, if it does nothing but that, or pushes or pops.
fn moved(instruction: &Instruction) -> Option<i64> {
    let by = || i64::try_from(instruction.immediate(1)).ok();
    let is_stack = instruction.op_count() > 0 && instruction.op0_register() == Register::RSP;
    match instruction.code() {
        Code::Push_r64 => Some(-8),
        Code::Pop_r64 => Some(8),
        Code::Add_rm64_imm8 | Code::Add_rm64_imm32 if is_stack => by(),
        Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 if is_stack => by().map(|by| -by),
        _ => None,
    }
}
