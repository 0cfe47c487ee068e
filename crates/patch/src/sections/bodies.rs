//! The properties of a chunk that matter to sections.

use super::cleanups::{self, Cleanups};
use crate::atomic::{accesses_memory, is_operation};
use crate::chunk::Chunk;
use crate::declared::Declared;
use crate::elf::{ElfView, Section};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// The number of the futex call.
const FUTEX: u64 = libc::SYS_futex as u64;

/// The properties of one chunk.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    /// Whether all its bytes are instructions.
    pub is_clean: bool,
    /// Addresses of atomic instructions.
    pub atomics: Vec<u64>,
    /// Whether it makes the futex call.
    pub has_futex_call: bool,
    /// Whether it only computes, or only jumps elsewhere, so that there is nothing to order.
    pub is_idle: bool,
    /// Whether it calls, or jumps to, an address from a register or a variable.
    pub calls_anything: bool,
    /// Whether it can be left other than by a return or an ordinary jump, for instance by running
    /// on into the following code.
    pub leaves_oddly: bool,
    /// Targets of its jumps outside the chunk.
    pub jumps: Vec<u64>,
    /// Functions that it registers to be called if the thread is cancelled.
    pub cleanups: Vec<u64>,
}

/// Decodes chunks.
pub(crate) struct Reader<'a, 'data> {
    elf: &'a ElfView<'data>,
    declared: &'a Declared,
    /// The tables into which the linker writes addresses of functions.
    tables: Vec<Section<'data>>,
    /// The function that registers such functions.
    push: Option<u64>,
}

impl<'a, 'data> Reader<'a, 'data> {
    pub fn new(elf: &'a ElfView<'data>, declared: &'a Declared) -> Self {
        let tables = [&b".got"[..], b".got.plt"].into_iter().filter_map(|name| elf.section(name));
        Self { elf, declared, tables: tables.collect(), push: cleanups::push(elf) }
    }

    pub fn read(&self, chunk: &Chunk) -> Body {
        let bytes = self.elf.bytes_from(chunk.start);
        let bytes = &bytes[..bytes.len().min((chunk.end - chunk.start) as usize)];
        let mut decoder = Decoder::with_ip(64, bytes, chunk.start, DecoderOptions::NONE);
        let mut body = Body { is_clean: true, is_idle: true, ..Body::default() };
        let (mut instruction, mut before) = (Instruction::default(), Instruction::default());
        let (mut has_number, mut cleanups) = (false, Cleanups::of(self.push));
        while decoder.can_decode() {
            std::mem::swap(&mut instruction, &mut before);
            decoder.decode_out(&mut instruction);
            body.is_clean &= !instruction.is_invalid();
            body.cleanups.extend(cleanups.next(&instruction));
            body.is_idle &= !does_something(&instruction);
            match instruction.flow_control() {
                FlowControl::Next => {
                    let operates = is_operation(&instruction, self.declared);
                    body.atomics.extend(operates.then_some(instruction.ip()));
                    has_number |= is_futex_number(&instruction);
                }
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    let target = instruction.near_branch_target();
                    let leaves = !(chunk.start..chunk.end).contains(&target);
                    body.jumps.extend(leaves.then_some(target));
                    body.leaves_oddly |= leaves && !is_ordinary(&instruction);
                }
                FlowControl::IndirectCall => body.calls_anything |= !self.is_linked(&instruction),
                FlowControl::IndirectBranch => {
                    body.calls_anything |=
                        !self.is_linked(&instruction) && !is_switch(&instruction, &before)
                }
                FlowControl::Call => {
                    body.has_futex_call |= has_number && instruction.mnemonic() == Mnemonic::Syscall
                }
                _ => {}
            }
        }
        let runs_on = matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        );
        body.leaves_oddly |=
            runs_on && !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Hlt);
        body
    }

    /// Whether a call or jump takes its target from a table of the linker, and so leads to a
    /// function with a known name.
    fn is_linked(&self, instruction: &Instruction) -> bool {
        let in_table = |table: &Section| {
            (instruction.ip_rel_memory_address().wrapping_sub(table.address))
                < table.bytes.len() as u64
        };
        instruction.is_ip_rel_memory_operand()
            && (self.tables.is_empty() || self.tables.iter().any(in_table))
    }

    /// Whether there is a linker's stub at the address, which jumps to a function of another file.
    pub fn is_link_stub(&self, address: u64) -> bool {
        let bytes = self.elf.bytes_from(address);
        let bytes = bytes.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(bytes);
        let bytes = bytes.strip_prefix(&[0xf2]).unwrap_or(bytes);
        bytes.starts_with(&[0xff, 0x25])
    }
}

/// Whether an instruction accesses memory other than its own stack, or calls.
fn does_something(instruction: &Instruction) -> bool {
    let accesses = accesses_memory(instruction) || instruction.is_string_instruction();
    let calls = matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
    calls || accesses && instruction.flow_control() != FlowControl::IndirectBranch
}

/// Whether a jump does not depend on `%rcx`, and has no prefix if it is conditional.
fn is_ordinary(jump: &Instruction) -> bool {
    jump.flow_control() == FlowControl::UnconditionalBranch
        || jump.is_jcc_short_or_near() && matches!(jump.len(), 2 | 6)
}

/// Whether the instruction is `mov $202` to a register: `%eax`, or one from which it is copied
/// later.
fn is_futex_number(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Register
        && matches!(instruction.op1_kind(), OpKind::Immediate32 | OpKind::Immediate32to64)
        && instruction.immediate(1) == FUTEX
}

/// Whether an indirect jump is a switch within its own function: by a table of addresses, or of
/// distances that the instruction before added up.
fn is_switch(jump: &Instruction, before: &Instruction) -> bool {
    match jump.op0_kind() {
        OpKind::Memory => jump.memory_index() != Register::None && jump.memory_index_scale() == 8,
        OpKind::Register => {
            before.mnemonic() == Mnemonic::Add
                && before.op0_kind() == OpKind::Register
                && before.op0_register() == jump.op0_register()
        }
        _ => false,
    }
}
