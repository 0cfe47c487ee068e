//! Instructions that a thread executes only while it spins: waits for another thread, and looks at
//! memory again and again. That is `pause`, and the end of a loop that does nothing but look.
//!
//! Such a loop writes no memory, and each round of it does the same as the one before: every
//! register that it changes gets its value in the same round. So only another thread, or a signal
//! handler, can end it. It may exchange memory with a constant: the second exchange puts back what
//! the first one left. A loop that loads a value, and tries to exchange it for another one, is no
//! such loop: it nearly always succeeds at once, and must stay quick.

use crate::chunk::Chunk;
use crate::elf::ElfView;
use crate::functions::Functions;
use crate::gather::chunk_index;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
};

/// `pause`, which compilers and libraries put into such loops.
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// The most instructions of a loop without `pause`.
const LOOP_INSTRUCTIONS: usize = 8;
/// A file with more bytes of text is not searched for loops without `pause`: all of it would have
/// to be decoded.
const SEARCHED_BYTES: u64 = 1 << 20;
/// A file with more bytes of text is not searched for `pause` either. Its image would be as large.
const MOST_BYTES: u64 = 64 << 20;

/// All places in executable text with the bytes of `pause`, ascending. There are none in a very
/// large file.
pub(crate) fn candidates(elf: &ElfView) -> Vec<u64> {
    if text_bytes(elf) > MOST_BYTES {
        return Vec::new();
    }
    elf.text_segments()
        .flat_map(|segment| {
            let pairs = elf.segment_bytes(segment).windows(PAUSE.len()).enumerate();
            let pauses = pairs.filter(|(_, pair)| *pair == PAUSE);
            pauses.map(|(offset, _)| segment.address + offset as u64)
        })
        .collect()
}

/// Whether the file is searched for loops without `pause`.
pub(crate) fn searches_loops(elf: &ElfView) -> bool {
    text_bytes(elf) <= SEARCHED_BYTES
}

fn text_bytes(elf: &ElfView) -> u64 {
    elf.text_segments().map(|segment| segment.file_bytes).sum()
}

/// The instructions of known functions that count as rounds, ascending. `candidates` are those of
/// `pause`.
pub(crate) fn find(elf: &ElfView, functions: &Functions, candidates: &[u64]) -> Vec<u64> {
    if !functions.known {
        return Vec::new();
    }
    let mut finder = Finder { found: Vec::new(), factory: InstructionInfoFactory::new() };
    if searches_loops(elf) {
        functions.chunks.iter().for_each(|chunk| finder.read(elf, chunk));
        return finder.found;
    }
    let mut rest = candidates;
    while let [first, others @ ..] = rest {
        let Some(index) = chunk_index(&functions.chunks, *first) else {
            rest = others;
            continue;
        };
        let chunk = functions.chunks[index];
        finder.read(elf, &chunk);
        rest = &rest[rest.partition_point(|address| *address < chunk.end)..];
    }
    finder.found
}

struct Finder {
    found: Vec<u64>,
    factory: InstructionInfoFactory,
}

impl Finder {
    /// Reads one function.
    fn read(&mut self, elf: &ElfView, chunk: &Chunk) {
        let bytes = elf.bytes_from(chunk.start);
        let bytes = &bytes[..bytes.len().min((chunk.end - chunk.start) as usize)];
        let mut latest: Vec<Instruction> = Vec::with_capacity(2 * LOOP_INSTRUCTIONS);
        for instruction in Decoder::with_ip(64, bytes, chunk.start, DecoderOptions::NONE) {
            if latest.len() == 2 * LOOP_INSTRUCTIONS {
                latest.drain(..LOOP_INSTRUCTIONS);
            }
            latest.push(instruction);
            let goes_round = instruction.flow_control() == FlowControl::ConditionalBranch
                && self.only_looks(&latest);
            if instruction.mnemonic() == Mnemonic::Pause || goes_round {
                self.found.push(instruction.ip());
            }
        }
    }

    /// Whether the last of the instructions jumps back, and the loop only looks.
    fn only_looks(&mut self, latest: &[Instruction]) -> bool {
        let Some(jump) = latest.last() else { return false };
        let target = jump.near_branch_target();
        let from = latest.iter().rposition(|instruction| instruction.ip() == target);
        let Some(body) = from.map(|from| &latest[from..]) else { return false };
        body.len() <= LOOP_INSTRUCTIONS
            && body.iter().all(|instruction| stays(instruction, target..jump.next_ip()))
            && self.repeats(body)
    }

    /// Whether the instructions look at memory, write none, and do the same each time.
    fn repeats(&mut self, body: &[Instruction]) -> bool {
        let (mut read, mut written) = (Vec::new(), Vec::new());
        let mut looks = false;
        for instruction in body {
            let info = self.factory.info(instruction);
            for memory in info.used_memory() {
                if writes(memory.access()) && (looks || !exchanges(instruction)) {
                    return false;
                }
                looks = true;
            }
            for used in info.used_registers() {
                let register = used.register().full_register();
                if reads(used.access()) && !written.contains(&register) {
                    read.push(register);
                }
            }
            let used = info.used_registers().iter().filter(|used| writes(used.access()));
            written.extend(used.map(|used| used.register().full_register()));
        }
        looks && !written.iter().any(|register| read.contains(register))
    }
}

/// Whether an instruction of a loop leads to the next one, or back, or out of the loop.
fn stays(instruction: &Instruction, inside: std::ops::Range<u64>) -> bool {
    match instruction.flow_control() {
        FlowControl::Next => {
            instruction.mnemonic() != Mnemonic::Pause
                && !instruction.is_stack_instruction()
                && !instruction.is_string_instruction()
                && !instruction.is_privileged()
        }
        FlowControl::ConditionalBranch => {
            let target = instruction.near_branch_target();
            target == inside.start || !inside.contains(&target)
        }
        _ => false,
    }
}

fn exchanges(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Xchg | Mnemonic::Cmpxchg)
}

fn reads(access: OpAccess) -> bool {
    !matches!(
        access,
        OpAccess::None | OpAccess::Write | OpAccess::CondWrite | OpAccess::NoMemAccess
    )
}

fn writes(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
}
