//! Stopping a running program at one address: which instructions a jump planted there displaces, and what they look like in a stub.
//!
//! Unlike an image this is about memory of a live process, whatever put the code there: no file, no symbols. The rule is the same: a jump is
//! planted only where nothing known jumps to a byte inside it, and so that whoever does come to an instruction inside it ends in a trap. Where that
//! cannot be, a byte is planted, a trap.
//!
//! Also decides, from instructions that were traced while recording, where such a jump fits and which memory they wrote.

use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, OpAccess, OpKind, Register,
};
use std::collections::{HashMap, HashSet, VecDeque};

/// Bytes of a near jump.
const JUMP_BYTES: usize = 5;
/// Longest instruction.
const LONGEST: usize = 15;
/// Code this far on both sides is searched for jumps into the displaced instructions.
const REACH: u64 = 0x2000;
const PAGE_BYTES: u64 = 4096;

/// Memory that may be read: fills the page at a page-aligned address, or says that it is not there.
pub trait Pages {
    /// Whether the page could be read.
    fn read_page(&mut self, address: u64, page: &mut [u8; PAGE_BYTES as usize]) -> bool;
}

impl<F: FnMut(u64, &mut [u8; PAGE_BYTES as usize]) -> bool> Pages for F {
    fn read_page(&mut self, address: u64, page: &mut [u8; PAGE_BYTES as usize]) -> bool {
        self(address, page)
    }
}

/// The code of a process, read page by page and kept.
pub struct Text<P> {
    source: P,
    pages: HashMap<u64, Option<Box<[u8; PAGE_BYTES as usize]>>>,
}

impl<P: Pages> Text<P> {
    /// Nothing read yet.
    pub fn new(source: P) -> Self {
        Self { source, pages: HashMap::new() }
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

    /// What is readable of `[start, end)` in one piece that begins at `start`.
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

    /// The instruction at `address`; `None` if there is none.
    fn instruction(&mut self, address: u64) -> Option<Instruction> {
        let bytes = self.bytes(address, address.checked_add(LONGEST as u64)?);
        let instruction = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// The readable code around `address`: where it starts, and the bytes.
    fn around(&mut self, address: u64) -> (u64, Vec<u8>) {
        let mut start = address & !(PAGE_BYTES - 1);
        let lowest = address.saturating_sub(REACH);
        while start > lowest && start >= PAGE_BYTES && self.page(start - PAGE_BYTES).is_some() {
            start -= PAGE_BYTES;
        }
        let start = start.max(lowest);
        (start, self.bytes(start, address.saturating_add(REACH)))
    }
}

/// Bytes that end in a trap wherever they are executed as the first of an instruction: the breakpoint, and what is none in 64-bit mode.
const TRAPPING: [u8; 15] = [0xcc, 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0xce];
/// A jump's target in the stub page: behind the displaced instructions, with room for a jump to the page's first byte.
const ENTRY_OFFSETS: std::ops::RangeInclusive<u64> = 0x700..=PAGE_BYTES - JUMP_BYTES as u64;

/// The instructions that a stop at an address displaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    run: Vec<Instruction>,
    /// A jump fits over them; else a trap.
    jump: bool,
}

/// Displaced instructions as they must be at the stub's address, leading back behind themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moved {
    /// The machine code.
    pub code: Vec<u8>,
    /// Where each instruction was, counted from the watched address, and where it is in `code`.
    pub starts: Vec<(u8, u8)>,
}

impl Place {
    /// What is displaced at `address`; `None` if there is no instruction that can be.
    pub fn at<P: Pages>(text: &mut Text<P>, address: u64) -> Option<Self> {
        let first = text.instruction(address).filter(is_movable)?;
        Some(match run_for_jump(text, &first) {
            Some(run) => Self { run, jump: true },
            None => Self { run: vec![first], jump: false },
        })
    }

    /// The same with a trap.
    #[must_use]
    pub fn with_trap(&self) -> Self {
        Self { run: vec![self.run[0]], jump: false }
    }

    /// Bytes to overwrite: 1 with a trap, or at least 5 with a jump.
    pub fn patch_bytes(&self) -> usize {
        if self.jump { self.run.iter().map(Instruction::len).sum() } else { 1 }
    }

    /// Where in a stub page the jump may lead. Code that nobody knows of, a switch or an interpreter for example, may jump to any of the displaced
    /// instructions: the bytes of the planted jump must trap there.
    pub fn entry_in(&self, page: u64) -> Option<u64> {
        let after = self.run[0].ip() + JUMP_BYTES as u64;
        let traps = |entry: u64| {
            let distance = (entry.wrapping_sub(after) as u32).to_le_bytes();
            self.interior().all(|offset| TRAPPING.contains(&distance[offset - 1]))
        };
        let upper = |entry: u64| {
            let distance = (entry.wrapping_sub(after) as u32).to_le_bytes();
            self.interior().filter(|offset| *offset > 2).all(|offset| TRAPPING.contains(&distance[offset - 1]))
        };
        if !upper(page + ENTRY_OFFSETS.start()) && !upper(page + ENTRY_OFFSETS.end()) {
            return None;
        }
        ENTRY_OFFSETS.map(|offset| page + offset).find(|entry| traps(*entry))
    }

    /// Offsets of instructions, other than the first, that begin in the bytes of the jump.
    fn interior(&self) -> impl Iterator<Item = usize> {
        let first = self.run[0].ip();
        self.run[1..].iter().map(move |instruction| (instruction.ip() - first) as usize).filter(|offset| *offset < JUMP_BYTES)
    }

    /// The instructions at another address; `None` when something is out of reach.
    pub fn moved(&self, code_address: u64) -> Option<Moved> {
        relocate(&self.run, code_address)
    }
}

/// Whether an instruction can be made to do the same elsewhere. System calls and traps tell where they are.
fn is_movable(instruction: &Instruction) -> bool {
    let flow = match instruction.flow_control() {
        FlowControl::Next | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => true,
        FlowControl::ConditionalBranch => instruction.is_jcc_short_or_near(),
        FlowControl::Call => instruction.is_call_near(),
        FlowControl::IndirectCall => instruction.code() == Code::Call_rm64 && !uses_stack_pointer(instruction),
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
        if matches!(next.mnemonic(), Mnemonic::Endbr64 | Mnemonic::Endbr32) || is_repeated_string(&next) {
            return None;
        }
        bytes += next.len();
        run.push(next);
    }
    if run.len() > 1 {
        let starts: Vec<u64> = run[1..].iter().map(Instruction::ip).collect();
        let (window, code) = text.around(first.ip());
        if leads_to_any(window, &code, &starts) {
            return None;
        }
    }
    Some(run)
}

/// Whether anything in the code refers to one of the addresses. Decoding starts at several places, because nothing says where instructions
/// begin; it soon falls into step.
fn leads_to_any(start: u64, code: &[u8], addresses: &[u64]) -> bool {
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
            if refers_to(&instruction, addresses) {
                return true;
            }
        }
    }
    false
}

fn refers_to(instruction: &Instruction, addresses: &[u64]) -> bool {
    let branch = matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
        && addresses.contains(&instruction.near_branch_target());
    branch || (instruction.is_ip_rel_memory_operand() && addresses.contains(&instruction.ip_rel_memory_address()))
}

fn is_repeated_string(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// Whether the operand's place or value depends on the stack pointer, which a moved call changes before it looks.
fn uses_stack_pointer(instruction: &Instruction) -> bool {
    let operand_is_memory = instruction.op0_kind() == OpKind::Memory;
    (operand_is_memory && instruction.memory_base() == Register::RSP) || (!operand_is_memory && instruction.op0_register() == Register::RSP)
}

/// A call elsewhere: pushes the address that the original would, without changing flags, and jumps.
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

/// The same instructions at another address, followed by a jump to behind the last one. `None` when something is out of reach.
fn relocate(run: &[Instruction], code_address: u64) -> Option<Moved> {
    let mut encoder = Encoder::new(64);
    let mut at = code_address;
    let mut starts = Vec::new();
    for instruction in run {
        starts.push((u8::try_from(instruction.ip() - run[0].ip()).ok()?, u8::try_from(at - code_address).ok()?));
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

/// Encodes one instruction; its bytes.
fn put(encoder: &mut Encoder, mut instruction: Instruction, at: u64) -> Option<u64> {
    if matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
        instruction.as_near_branch();
    }
    encoder.encode(&instruction, at).ok().map(|bytes| bytes as u64)
}

// ---- traces ----

/// General registers, program counter and flags before a traced instruction, in the kernel's order (`struct registers` of the runtime).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step(pub [u64; 18]);

impl Step {
    /// Bytes of one step in the runtime's trace.
    pub const BYTES: usize = 18 * 8;

    /// Reads one from the runtime's memory.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut values = [0; 18];
        for (value, piece) in values.iter_mut().zip(bytes.as_chunks().0) {
            *value = u64::from_le_bytes(*piece);
        }
        Self(values)
    }

    /// Program counter.
    pub fn address(&self) -> u64 {
        self.0[16]
    }

    fn register(&self, register: Register) -> Option<u64> {
        const ORDER: [Register; 16] = [
            Register::R8,
            Register::R9,
            Register::R10,
            Register::R11,
            Register::R12,
            Register::R13,
            Register::R14,
            Register::R15,
            Register::RDI,
            Register::RSI,
            Register::RBP,
            Register::RBX,
            Register::RDX,
            Register::RAX,
            Register::RCX,
            Register::RSP,
        ];
        let full = register.full_register();
        let value = ORDER.iter().position(|candidate| *candidate == full).map(|index| self.0[index])?;
        if register.is_gpr64() { Some(value) } else { register.is_gpr32().then_some(value & 0xffff_ffff) }
    }
}

/// Addresses near where a jump can be planted, at most `limit`: those that are reached next from the end of the trace, then those of the trace.
pub fn good_places<P: Pages>(text: &mut Text<P>, trace: &[Step], limit: usize) -> Vec<u64> {
    let mut queue: VecDeque<u64> = trace.iter().rev().take(1).map(Step::address).collect();
    let mut seen = HashSet::new();
    let mut good = Vec::new();
    while let Some(address) = queue.pop_front() {
        if good.len() >= limit || seen.len() >= 4 * limit {
            return good;
        }
        if !seen.insert(address) {
            continue;
        }
        let Some(instruction) = text.instruction(address) else { continue };
        if is_good(text, &instruction) {
            good.push(address);
        }
        queue.extend(successors(&instruction));
        if queue.is_empty() {
            queue.extend(trace.iter().rev().map(Step::address).filter(|address| !seen.contains(address)).take(1));
        }
    }
    good
}

fn is_good<P: Pages>(text: &mut Text<P>, first: &Instruction) -> bool {
    is_movable(first) && !is_repeated_string(first) && run_for_jump(text, first).is_some_and(|run| !run.iter().any(may_be_rewritten))
}

/// What just-in-time compilers read and change in their own code: the targets of calls and jumps, and constants of 8 bytes.
fn may_be_rewritten(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::UnconditionalBranch) || instruction.code() == Code::Mov_r64_imm64
}

/// Where control may go from an instruction, as far as the instruction tells.
fn successors(instruction: &Instruction) -> impl Iterator<Item = u64> + use<> {
    let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
    let both = match instruction.flow_control() {
        FlowControl::Next => [Some(next), None],
        FlowControl::UnconditionalBranch | FlowControl::Call => [Some(target), None],
        FlowControl::ConditionalBranch => [Some(next), Some(target)],
        _ => [None, None],
    };
    both.into_iter().flatten()
}

/// The 8-byte words that the traced instructions wrote, the latest first, at most `limit`. `thread_base` is where `%fs` points.
pub fn written_words<P: Pages>(text: &mut Text<P>, trace: &[Step], thread_base: u64, limit: usize) -> Vec<u64> {
    let mut factory = InstructionInfoFactory::new();
    let mut words = Vec::new();
    for step in trace.iter().rev() {
        let Some(instruction) = text.instruction(step.address()) else { continue };
        for memory in factory.info(&instruction).used_memory() {
            let writes = matches!(memory.access(), OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite);
            let address = memory.virtual_address(0, |register, _, _| match register {
                Register::FS => Some(thread_base),
                Register::GS => None,
                Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
                _ => step.register(register),
            });
            let Some(address) = address.filter(|_| writes) else { continue };
            let last = address.wrapping_add(memory.memory_size().size().clamp(1, 16) as u64 - 1) & !7;
            for word in [address & !7, last] {
                if words.len() < limit && !words.contains(&word) {
                    words.push(word);
                }
            }
        }
    }
    words
}
