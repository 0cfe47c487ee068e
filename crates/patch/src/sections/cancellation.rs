//! The word of a thread in the GNU C library by which it is cancelled. At each cancellation point,
//! functions without a name read and change it. Such a function is recognised because all its
//! locked instructions are on that word of its own thread.

use super::objects::Object;
use crate::bytes::array_at;
use crate::chunk::Chunk;
use crate::elf::ElfView;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use std::collections::BTreeSet;

/// A function that reads the word, and does little else.
const LOOKS: &[u8] = b"pthread_testcancel";
/// A function that changes the word of another thread.
const CANCELS: &[u8] = b"pthread_cancel";

/// Offset in a thread's storage of the storage's own address.
const SELF: u64 = 0x10;
/// The last bytes of an instruction with the operand `%fs:0x10`.
const SELF_BYTES: [u8; 5] = [0x25, 0x10, 0, 0, 0];
/// The longest function of this kind, in bytes.
const MOST_BYTES: u64 = 512;

/// The chunks of the functions that work on the word, with their objects. Empty if the word is not
/// found.
pub(super) fn find(elf: &ElfView, chunks: &[Chunk]) -> Vec<(usize, Object)> {
    let named = |name: &[u8]| {
        let symbols = elf.function_symbols();
        let symbol = symbols.iter().find(|symbol| symbol.name == name)?;
        chunks.binary_search_by_key(&symbol.address, |chunk| chunk.start).ok()
    };
    let (Some(looks), Some(cancels)) = (named(LOOKS), named(CANCELS)) else { return Vec::new() };
    let Some(word) = decode(elf, &chunks[looks]).and_then(|code| first_word(&code)) else {
        return Vec::new();
    };
    let is_own = |chunk: &Chunk| {
        may_be_own(elf, chunk) && decode(elf, chunk).is_some_and(|code| works_on(&code, word))
    };
    let own = (0..chunks.len()).filter(|index| is_own(&chunks[*index]));
    own.map(|index| (index, Object::Own(word))).chain([(cancels, Object::OfThread(word))]).collect()
}

/// Decodes a chunk. `None` if not all bytes are instructions.
fn decode(elf: &ElfView, chunk: &Chunk) -> Option<Vec<Instruction>> {
    let bytes = elf.bytes_from(chunk.start).get(..(chunk.end - chunk.start) as usize)?;
    let decoder = Decoder::with_ip(64, bytes, chunk.start, DecoderOptions::NONE);
    let code: Vec<Instruction> = decoder.into_iter().collect();
    code.iter().all(|one| !one.is_invalid()).then_some(code)
}

fn may_be_own(elf: &ElfView, chunk: &Chunk) -> bool {
    let bytes = elf.bytes_from(chunk.start);
    let bytes = &bytes[..bytes.len().min((chunk.end - chunk.start) as usize)];
    chunk.end - chunk.start <= MOST_BYTES
        && (0..bytes.len()).any(|at| array_at(bytes, at) == Some(SELF_BYTES))
}

/// The register into which an instruction loads the address of the thread's storage.
fn loads_self(instruction: &Instruction) -> Option<Register> {
    let is_self = instruction.code() == Code::Mov_r64_rm64
        && instruction.op1_kind() == OpKind::Memory
        && instruction.segment_prefix() == Register::FS
        && instruction.memory_base() == Register::None
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64() == SELF;
    is_self.then(|| instruction.op0_register())
}

/// The registers that point to the thread's storage anywhere in the code.
fn to_self(code: &[Instruction]) -> BTreeSet<Register> {
    code.iter().filter_map(loads_self).collect()
}

fn is_at(instruction: &Instruction, bases: &BTreeSet<Register>, displacement: u64) -> bool {
    bases.contains(&instruction.memory_base())
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64() == displacement
}

/// The offset of the first four-byte word that the code loads from the thread's storage.
fn first_word(code: &[Instruction]) -> Option<u32> {
    let bases = to_self(code);
    let loads = |one: &&Instruction| {
        one.code() == Code::Mov_r32_rm32
            && one.op1_kind() == OpKind::Memory
            && is_at(one, &bases, one.memory_displacement64())
    };
    code.iter().find(loads).and_then(|one| u32::try_from(one.memory_displacement64()).ok())
}

/// Whether there are locked instructions, all of them are on the word, and at most one function is
/// called: the one that never returns.
fn works_on(code: &[Instruction], word: u32) -> bool {
    let bases = to_self(code);
    let copies: BTreeSet<Register> = code
        .iter()
        .filter(|one| one.mnemonic() == Mnemonic::Lea && is_at(one, &bases, word.into()))
        .map(|one| one.op0_register())
        .collect();
    let mut locked = code.iter().filter(|one| one.has_lock_prefix()).peekable();
    let calls = code.iter().filter(|one| {
        matches!(one.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
            && one.mnemonic() != Mnemonic::Syscall
    });
    locked.peek().is_some()
        && locked.all(|one| is_at(one, &bases, word.into()) || is_at(one, &copies, 0))
        && calls.count() <= 1
}
