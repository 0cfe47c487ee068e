//! Stops a running program at one address: chooses the instructions that a jump planted there
//! displaces, and writes them for a stub.
//!
//! Unlike an image, this works on the memory of a live process, whatever put the code there,
//! without a file or symbols. The rule is the same: a jump is planted only if nothing known jumps
//! to a byte inside it. Execution that does reach an instruction inside it must end in a trap. If
//! that is impossible, a one-byte trap is planted.

use crate::references::{self, SHORT_REACH};
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, MemoryOperand, Mnemonic,
    OpKind, Register, RflagsBits,
};
use std::collections::{HashMap, HashSet};

/// Bytes of a near jump.
const JUMP_BYTES: usize = 5;
/// Longest instruction.
const LONGEST: usize = 15;
/// Distance in bytes, on both sides of the displaced instructions, within which code is searched
/// for jumps into them.
const REACH: u64 = 0x2000;
const PAGE_BYTES: u64 = 4096;
/// Bytes after which decoding falls into step, wherever it begins.
const UNTIL_IN_STEP: u64 = 96;

/// Readable memory. Fills the page at a page-aligned address, or reports that it is not mapped.
pub trait Pages {
    /// Fills `page` with the page at `address`. Returns whether it could be read.
    fn read_page(&mut self, address: u64, page: &mut [u8; PAGE_BYTES as usize]) -> bool;
}

impl<F: FnMut(u64, &mut [u8; PAGE_BYTES as usize]) -> bool> Pages for F {
    fn read_page(&mut self, address: u64, page: &mut [u8; PAGE_BYTES as usize]) -> bool {
        self(address, page)
    }
}

/// The code of a process, read page by page and cached.
pub struct Text<P> {
    source: P,
    pages: HashMap<u64, Option<Box<[u8; PAGE_BYTES as usize]>>>,
    instructions: HashMap<u64, Option<Instruction>>,
    /// Possible references of the code, with their addresses, by piece of [`REACH`] bytes.
    references: HashMap<u64, Vec<(u64, u64)>>,
}

impl<P: Pages> Text<P> {
    /// Makes a cache in which nothing is read yet.
    pub fn new(source: P) -> Self {
        Self {
            source,
            pages: HashMap::new(),
            instructions: HashMap::new(),
            references: HashMap::new(),
        }
    }

    fn page(&mut self, address: u64) -> Option<&[u8; PAGE_BYTES as usize]> {
        let source = &mut self.source;
        self.pages
            .entry(address)
            .or_insert_with(|| {
                let mut page = Box::new([0; PAGE_BYTES as usize]);
                source.read_page(address, &mut page).then_some(page)
            })
            .as_deref()
    }

    /// The readable bytes of `[start, end)` up to the first gap.
    fn bytes(&mut self, start: u64, end: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = start;
        while at < end {
            let base = at & !(PAGE_BYTES - 1);
            let Some(page) = self.page(base) else { break };
            let from = (at - base) as usize;
            let to = (end - base).min(PAGE_BYTES) as usize;
            bytes.extend_from_slice(&page[from..to]);
            let Some(next) = base.checked_add(PAGE_BYTES) else { break };
            at = next;
        }
        bytes
    }

    /// The readable bytes within `reach`, less than a page, of a readable address, and the address
    /// of the first one.
    fn bytes_around(&mut self, address: u64, reach: u64) -> (u64, Vec<u8>) {
        let (start, end) = (address.saturating_sub(reach), address.saturating_add(reach));
        let code = self.bytes(start, end);
        if !code.is_empty() {
            return (start, code);
        }
        let page = address & !(PAGE_BYTES - 1);
        (page, self.bytes(page, end))
    }

    /// Decodes the instruction at `address`. `None` if there is none.
    pub(crate) fn instruction(&mut self, address: u64) -> Option<Instruction> {
        if let Some(known) = self.instructions.get(&address) {
            return *known;
        }
        let bytes = self.bytes(address, address.checked_add(LONGEST as u64)?);
        let instruction = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE).decode();
        let found = (!instruction.is_invalid()).then_some(instruction);
        self.instructions.insert(address, found);
        found
    }

    /// Whether anything in the code nearby refers to the address.
    fn leads_to(&mut self, address: u64) -> bool {
        let (start, around) = self.bytes_around(address, SHORT_REACH as u64);
        let mut sources: Vec<u64> = references::possible_short(&around, (address - start) as usize)
            .map(|at| start + at as u64)
            .collect();
        for piece in address.saturating_sub(REACH) / REACH..=address.saturating_add(REACH) / REACH {
            if !self.references.contains_key(&piece) {
                let found = self.references_of(piece);
                self.references.insert(piece, found);
            }
            let references = &self.references[&piece];
            let first = references.partition_point(|(target, _)| *target < address);
            sources.extend(
                references[first..]
                    .iter()
                    .take_while(|(target, _)| *target == address)
                    .map(|(_, source)| *source),
            );
        }
        sources.into_iter().any(|source| self.truly_leads(source, address))
    }

    /// Whether an instruction near `source` refers to the address, and not just bytes that look
    /// like one.
    fn truly_leads(&mut self, source: u64, address: u64) -> bool {
        let (start, code) = self.bytes_around(source, UNTIL_IN_STEP);
        let mut found = HashSet::new();
        references::of_code(start, &code, &mut found);
        found.contains(&address)
    }

    /// The possible references of one piece of code, as target and address, sorted. Only targets
    /// within reach are included.
    fn references_of(&mut self, piece: u64) -> Vec<(u64, u64)> {
        let (start, end) = (piece * REACH, (piece + 1).saturating_mul(REACH));
        let near = start.saturating_sub(REACH)..=end.saturating_add(REACH);
        let mut found = Vec::new();
        let mut at = start;
        while at < end {
            let mut code = self.bytes(at, end.saturating_add(LONGEST as u64));
            let readable = code.len();
            // The last instruction may be shorter than the bytes that are tested.
            code.extend([0; LONGEST]);
            references::possible(at, &code, |target, source| {
                if near.contains(&target) {
                    found.push((target, source));
                }
            });
            at = (at + readable as u64).max(at + 1).next_multiple_of(PAGE_BYTES);
        }
        found.sort_unstable();
        found
    }
}

/// Bytes that trap when executed as the first byte of an instruction: the breakpoint, and opcodes
/// that are invalid in 64-bit mode.
const TRAPPING: [u8; 15] =
    [0xcc, 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0xce];
/// Bytes of the code to which a jump leads: a comparison, and jumps to the displaced instructions
/// and to the page's first byte.
pub const ENTRY_BYTES: u64 = 24;
/// The range of a jump's target in the stub page, after the displaced instructions.
const ENTRY_OFFSETS: std::ops::RangeInclusive<u64> = 0x700..=PAGE_BYTES - ENTRY_BYTES;

/// The instructions that a stop at an address displaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    run: Vec<Instruction>,
    /// Whether a jump fits over them. Otherwise, a trap is planted.
    jump: bool,
}

/// Displaced instructions in the form they need at the stub's address, followed by a jump back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moved {
    /// The machine code.
    pub code: Vec<u8>,
    /// The offset of each instruction from the watched address, and its offset in `code`.
    pub starts: Vec<(u8, u8)>,
}

impl Place {
    /// Chooses the instructions displaced at `address`. `None` if there is no instruction that can
    /// be displaced.
    pub fn at<P: Pages>(text: &mut Text<P>, address: u64) -> Option<Self> {
        let first = text.instruction(address).filter(is_movable)?;
        Some(match run_for_jump(text, &first) {
            Some(run) => Self { run, jump: true },
            None => Self { run: vec![first], jump: false },
        })
    }

    /// The same place with a trap instead of a jump.
    #[must_use]
    pub fn with_trap(&self) -> Self {
        Self { run: vec![self.run[0]], jump: false }
    }

    /// Bytes to overwrite: 1 for a trap, at least 5 for a jump.
    pub fn patch_bytes(&self) -> usize {
        if self.jump { self.run.iter().map(Instruction::len).sum() } else { 1 }
    }

    /// Finds an address in a stub page to which the jump may lead. Unknown code, such as a switch
    /// or an interpreter, may jump to any of the displaced instructions. The bytes of the planted
    /// jump must trap there.
    pub fn entry_in(&self, page: u64) -> Option<u64> {
        let after = self.run[0].ip() + JUMP_BYTES as u64;
        let traps_from = |first: usize, entry: u64| {
            let distance = (entry.wrapping_sub(after) as u32).to_le_bytes();
            self.interior()
                .filter(|offset| *offset >= first)
                .all(|offset| TRAPPING.contains(&distance[offset - 1]))
        };
        // The upper bytes of the distance are the same all over a page, or on each half of it.
        if !traps_from(3, page + ENTRY_OFFSETS.start())
            && !traps_from(3, page + ENTRY_OFFSETS.end())
        {
            return None;
        }
        ENTRY_OFFSETS.map(|offset| page + offset).find(|entry| traps_from(1, *entry))
    }

    /// Offsets of instructions, other than the first, that begin in the bytes of the jump.
    fn interior(&self) -> impl Iterator<Item = usize> {
        let first = self.run[0].ip();
        self.run[1..]
            .iter()
            .map(move |instruction| (instruction.ip() - first) as usize)
            .filter(|offset| *offset < JUMP_BYTES)
    }

    /// Returns the instructions for another address. `None` if something is out of reach.
    pub fn moved(&self, code_address: u64) -> Option<Moved> {
        relocate(&self.run, code_address)
    }
}

/// The status flags that a stub's comparison overwrites.
const STATUS_FLAGS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;
/// The most instructions that are checked for setting the flags.
const MOST_UNTIL_SET: usize = 16;

/// Whether all status flags are set from `address` on before they are read. A flag that an
/// instruction leaves undefined does not count as set.
pub fn flags_are_dead<P: Pages>(text: &mut Text<P>, address: u64) -> bool {
    let (mut at, mut old) = (address, STATUS_FLAGS);
    for _ in 0..MOST_UNTIL_SET {
        let Some(instruction) = text.instruction(at) else { return false };
        if instruction.rflags_read() & old != 0
            || instruction.flow_control() != FlowControl::Next
            || is_repeated_string(&instruction)
        {
            return false;
        }
        old &= !(instruction.rflags_written()
            | instruction.rflags_cleared()
            | instruction.rflags_set());
        if old == 0 {
            return true;
        }
        at = instruction.next_ip();
    }
    false
}

/// Whether an instruction can be displaced. System calls and traps reveal their own address.
fn is_movable(instruction: &Instruction) -> bool {
    let flow = match instruction.flow_control() {
        FlowControl::Next
        | FlowControl::UnconditionalBranch
        | FlowControl::IndirectBranch
        | FlowControl::Return => true,
        FlowControl::ConditionalBranch => instruction.is_jcc_short_or_near(),
        FlowControl::Call => instruction.is_call_near(),
        FlowControl::IndirectCall => {
            instruction.code() == Code::Call_rm64 && !uses_stack_pointer(instruction)
        }
        _ => false,
    };
    flow && !matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall
            | Mnemonic::Sysenter
            | Mnemonic::Int
            | Mnemonic::Int1
            | Mnemonic::Int3
            | Mnemonic::Xbegin
            | Mnemonic::Rdtsc
            | Mnemonic::Rdtscp
    )
}

/// The instructions from `first` on that a jump overwrites, if nothing jumps between them.
fn run_for_jump<P: Pages>(text: &mut Text<P>, first: &Instruction) -> Option<Vec<Instruction>> {
    let mut run = vec![*first];
    let mut bytes = first.len();
    while bytes < JUMP_BYTES {
        let last = run.last().expect("never empty");
        if !matches!(last.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch) {
            return None;
        }
        let next = text.instruction(last.next_ip()).filter(is_movable)?;
        if matches!(next.mnemonic(), Mnemonic::Endbr64 | Mnemonic::Endbr32)
            || is_repeated_string(&next)
        {
            return None;
        }
        bytes += next.len();
        run.push(next);
    }
    if run.len() > 1 {
        let starts: Vec<u64> = run[1..].iter().map(Instruction::ip).collect();
        if starts.iter().any(|start| text.leads_to(*start)) {
            return None;
        }
    }
    Some(run)
}

fn is_repeated_string(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// Whether the location or value of the operand depends on the stack pointer. A displaced call
/// changes that before it reads the operand.
fn uses_stack_pointer(instruction: &Instruction) -> bool {
    let operand_is_memory = instruction.op0_kind() == OpKind::Memory;
    (operand_is_memory && instruction.memory_base() == Register::RSP)
        || (!operand_is_memory && instruction.op0_register() == Register::RSP)
}

/// A displaced call: pushes the address that the original would push, without changing flags, and
/// jumps.
fn moved_call(call: &Instruction) -> Option<[Instruction; 4]> {
    let below = |displacement| MemoryOperand::with_base_displ(Register::RSP, displacement);
    let halves = [call.next_ip() as i32, (call.next_ip() >> 32) as i32];
    let jump = if call.is_call_near() {
        Instruction::with_branch(Code::Jmp_rel32_64, call.near_branch_target()).ok()?
    } else {
        let mut jump = *call;
        jump.set_code(Code::Jmp_rm64);
        jump
    };
    Some([
        Instruction::with2(Code::Lea_r64_m, Register::RSP, below(-8)).ok()?,
        Instruction::with2(Code::Mov_rm32_imm32, below(0), halves[0]).ok()?,
        Instruction::with2(Code::Mov_rm32_imm32, below(4), halves[1]).ok()?,
        jump,
    ])
}

/// Writes the instructions for another address, with a jump to the end of the last one. `None` if
/// something is out of reach.
fn relocate(run: &[Instruction], code_address: u64) -> Option<Moved> {
    let mut encoder = Encoder::new(64);
    let mut at = code_address;
    let mut starts = Vec::new();
    for instruction in run {
        starts.push((
            u8::try_from(instruction.ip() - run[0].ip()).ok()?,
            u8::try_from(at - code_address).ok()?,
        ));
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            for piece in moved_call(instruction)? {
                at += put(&mut encoder, piece, at)?;
            }
        } else {
            at += put(&mut encoder, *instruction, at)?;
        }
    }
    let last = run.last()?;
    if matches!(last.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch) {
        put(&mut encoder, Instruction::with_branch(Code::Jmp_rel32_64, last.next_ip()).ok()?, at)?;
    }
    Some(Moved { code: encoder.take_buffer(), starts })
}

/// Encodes one instruction. Returns its length in bytes.
pub(crate) fn put(encoder: &mut Encoder, mut instruction: Instruction, at: u64) -> Option<u64> {
    if matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    ) {
        instruction.as_near_branch();
    }
    encoder.encode(&instruction, at).ok().map(|bytes| bytes as u64)
}

/// Whether a jump fits at an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// A jump fits, and the bytes there are neither read nor changed by the program.
    Good,
    /// A jump fits, but over bytes that a just-in-time compiler might read or change.
    Rewritable,
    /// No jump fits.
    None,
}

/// Whether a jump fits at the instruction.
pub(crate) fn fit<P: Pages>(text: &mut Text<P>, first: &Instruction) -> Fit {
    let run = (is_movable(first) && !is_repeated_string(first))
        .then(|| run_for_jump(text, first))
        .flatten();
    match run {
        Some(run) if run.iter().any(may_be_rewritten) => Fit::Rewritable,
        Some(_) => Fit::Good,
        None => Fit::None,
    }
}

/// Whether an instruction has bytes that just-in-time compilers read or change in their own code:
/// targets of calls and jumps, and constants of 8 bytes.
fn may_be_rewritten(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::UnconditionalBranch)
        || instruction.code() == Code::Mov_r64_imm64
}
