//! Decoding of functions. Collects the instructions near sites, and every address near them that
//! something may jump to.

use crate::atomic::{accesses_memory, is_operation};
use crate::chunk::Chunk;
use crate::declared::Declared;
use crate::elf::ElfView;
use crate::functions::Functions;
use crate::image::SiteKind;
use crate::windows::Windows;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// Longest gap between functions that may be padding.
const GAP_BYTES: usize = 256;

/// How an instruction may be patched or displaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A site to be patched.
    Site(SiteKind),
    /// An instruction that does the same at another address, once its displacement, if any, is
    /// adjusted.
    Movable,
    /// A conditional jump, which does the same at another address in its long form.
    Conditional {
        /// The condition, as in the low four bits of the opcode.
        condition: u8,
        /// The target.
        target: u64,
    },
    /// An instruction that enters the kernel in another way than a site. It stays in place.
    Gate,
    /// An instruction that must stay in place.
    Fixed,
}

/// The meaning of an instruction to a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Nothing.
    Plain,
    /// Reads and writes memory in one step.
    Atomic {
        /// Whether it compares first, and may find a difference.
        compares: bool,
    },
    /// Calls a function.
    Call,
    /// Returns.
    Return,
    /// Always jumps.
    Jump {
        /// The target.
        target: u64,
    },
    /// Jumps to the address in a word, which is addressed relative to the instruction.
    JumpThrough,
}

/// An instruction near a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub address: u64,
    pub length: u8,
    pub role: Role,
    pub nature: Nature,
    /// Whether it accesses memory, and so may fault.
    pub memory: bool,
    /// Offset of a displacement relative to the program counter, if it has one.
    pub displacement_at: Option<u8>,
    /// Index of its chunk.
    pub chunk: u32,
}

impl Listed {
    /// Address after the instruction.
    pub fn end(&self) -> u64 {
        self.address + u64::from(self.length)
    }

    /// Whether an address is inside the instruction, after its start.
    pub fn has_inside(&self, address: u64) -> bool {
        self.address < address && address < self.end()
    }

    /// Whether it never falls through.
    pub fn leaves(&self) -> bool {
        matches!(self.nature, Nature::Return | Nature::Jump { .. } | Nature::JumpThrough)
    }

    /// Whether the next instruction always follows.
    pub fn goes_on(&self) -> bool {
        self.nature == Nature::Plain && self.role == Role::Movable
    }

    /// Whether it can be displaced.
    pub fn is_movable(&self) -> bool {
        matches!(self.role, Role::Movable | Role::Conditional { .. })
    }
}

/// A jump or call near a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Branch {
    pub target: u64,
    pub source: u64,
    pub is_call: bool,
}

/// Padding that is never executed: it follows an instruction that never falls through, and does
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pad {
    pub start: u64,
    pub end: u64,
}

/// The result of one pass over the functions.
pub(crate) struct Survey {
    /// Instructions near candidates, by address.
    pub listing: Vec<Listed>,
    /// Branches that lead near sites.
    pub branches: Vec<Branch>,
    /// Addresses near sites that code refers to in other ways.
    pub references: Vec<u64>,
    /// Padding near sites, by address.
    pub pads: Vec<Pad>,
    /// For each chunk, whether it did not decode cleanly.
    pub suspect: Vec<bool>,
}

/// The file to decode, and what is wanted of it.
struct Source<'a, 'data> {
    elf: &'a ElfView<'data>,
    windows: &'a Windows,
    declared: &'a Declared,
}

/// Decodes the functions whose index `wanted` accepts.
pub(crate) fn survey(
    elf: &ElfView,
    functions: &Functions,
    windows: &Windows,
    wanted: impl Fn(usize) -> bool,
) -> Survey {
    let chunks = &functions.chunks;
    let mut result = Survey {
        listing: Vec::new(),
        branches: Vec::new(),
        references: Vec::new(),
        pads: Vec::new(),
        suspect: vec![false; chunks.len()],
    };
    let source = Source { elf, windows, declared: &functions.declared };
    for (index, chunk) in chunks.iter().enumerate().filter(|(index, _)| wanted(*index)) {
        if windows.contains(chunk.start) {
            result.references.push(chunk.start);
        }
        let next = chunks.get(index + 1).map_or(chunk.end, |next| next.start);
        result.suspect[index] = result.decode(&source, chunk, index as u32, next);
    }
    result
}

impl Survey {
    /// Decodes one chunk, and the gap up to the next one at `next`. Returns true if the chunk does
    /// not decode cleanly.
    fn decode(&mut self, source: &Source, chunk: &Chunk, index: u32, next: u64) -> bool {
        let &Source { elf, windows, declared } = source;
        let bytes = elf.bytes_from(chunk.start);
        let bytes = &bytes[..bytes.len().min((chunk.end - chunk.start) as usize)];
        let mut decoder = Decoder::with_ip(64, bytes, chunk.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut suspect = false;
        let mut padding = Padding::default();
        let known_pads = self.pads.len();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                suspect = true;
                padding = Padding::default();
                continue;
            }
            self.pads.extend(padding.next(&instruction).filter(|pad| windows.contains(pad.start)));
            self.note_references(elf, windows, &instruction);
            if windows.contains(instruction.ip()) {
                let offset = (instruction.ip() - chunk.start) as usize;
                let own = &bytes[offset..offset + instruction.len()];
                let nature = nature_of(&instruction, declared);
                let mut listed = listed(&instruction, own, &decoder, index, nature);
                if padding.is_in(&instruction) {
                    // Padding is never executed, so it does not lead to the site.
                    (listed.role, listed.nature) = (Role::Fixed, Nature::Plain);
                }
                self.listing.push(listed);
            }
        }
        if windows.contains(chunk.end - 1) || windows.contains(chunk.end) {
            self.pads.extend(padding.through_gap(elf, chunk.end, next));
        }
        if suspect {
            self.pads.truncate(known_pads);
        }
        suspect
    }

    /// Returns the instruction near a site that contains the byte at `address`, if its function
    /// decodes cleanly.
    pub fn covering(&self, address: u64) -> Option<&Listed> {
        let index = self.listing.partition_point(|listed| listed.address <= address);
        let listed = self.listing[..index].last()?;
        (address < listed.end() && !self.suspect[listed.chunk as usize]).then_some(listed)
    }

    /// Whether `address` is inside an instruction near a site, not at its start.
    pub fn is_inside_instruction(&self, address: u64) -> bool {
        self.covering(address).is_some_and(|listed| listed.address != address)
    }

    /// Records the addresses that an instruction refers to.
    fn note_references(&mut self, elf: &ElfView, windows: &Windows, instruction: &Instruction) {
        let branch = instruction.near_branch_target();
        if branch != 0 && windows.contains(branch) {
            self.branches.push(Branch {
                target: branch,
                source: instruction.ip(),
                is_call: instruction.is_call_near(),
            });
        }
        if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            if windows.contains(address) {
                self.references.push(address);
            }
        }
        if elf.fixed_address {
            self.note_constants(windows, instruction);
        }
    }

    /// Records constants, any of which may be an address if addresses are final.
    fn note_constants(&mut self, windows: &Windows, instruction: &Instruction) {
        for operand in 0..instruction.op_count() {
            let kind = instruction.op_kind(operand);
            if matches!(kind, OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64) {
                let address = instruction.immediate(operand);
                if windows.contains(address) {
                    self.references.push(address);
                }
            }
        }
    }
}

fn touches_memory(instruction: &Instruction) -> bool {
    accesses_memory(instruction)
        || instruction.is_stack_instruction()
        || instruction.is_string_instruction()
}

fn listed(
    instruction: &Instruction,
    bytes: &[u8],
    decoder: &Decoder,
    chunk: u32,
    nature: Nature,
) -> Listed {
    let mut role = role_of(instruction, bytes);
    let mut displacement_at = None;
    if instruction.is_ip_rel_memory_operand() {
        let offsets = decoder.get_constant_offsets(instruction);
        displacement_at = Some(offsets.displacement_offset() as u8);
        if offsets.displacement_size() != 4 {
            role = Role::Fixed;
        }
    }
    let (address, length, memory) =
        (instruction.ip(), instruction.len() as u8, touches_memory(instruction));
    Listed { address, length, role, nature, memory, displacement_at, chunk }
}

fn nature_of(instruction: &Instruction, declared: &Declared) -> Nature {
    match instruction.flow_control() {
        FlowControl::Next if is_operation(instruction, declared) => Nature::Atomic {
            compares: matches!(
                instruction.mnemonic(),
                Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b
            ),
        },
        FlowControl::Return if matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) => {
            Nature::Return
        }
        FlowControl::Call if instruction.is_call_near() => Nature::Call,
        FlowControl::UnconditionalBranch => {
            Nature::Jump { target: instruction.near_branch_target() }
        }
        FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
            Nature::JumpThrough
        }
        _ => Nature::Plain,
    }
}

fn role_of(instruction: &Instruction, bytes: &[u8]) -> Role {
    match instruction.mnemonic() {
        Mnemonic::Syscall => return Role::Site(SiteKind::SystemCall),
        Mnemonic::Rdtsc => return Role::Site(SiteKind::Rdtsc),
        Mnemonic::Rdtscp => return Role::Site(SiteKind::Rdtscp),
        Mnemonic::Cpuid => return Role::Site(SiteKind::Cpuid),
        Mnemonic::Sysenter => return Role::Gate,
        Mnemonic::Int if instruction.immediate8() == 0x80 => return Role::Gate,
        // Something jumps to an entry mark. The other instructions belong to mechanisms that depend
        // on addresses.
        Mnemonic::Endbr64 | Mnemonic::Endbr32 | Mnemonic::Xend | Mnemonic::Xabort => {
            return Role::Fixed;
        }
        // These become traps in place.
        Mnemonic::Rdrand
        | Mnemonic::Rdseed
        | Mnemonic::Rdpid
        | Mnemonic::Rdgsbase
        | Mnemonic::Wrgsbase => return Role::Fixed,
        _ => {}
    }
    if instruction.flow_control() == FlowControl::ConditionalBranch {
        return conditional(instruction, bytes).unwrap_or(Role::Fixed);
    }
    let relative_to_short_pointer = instruction.memory_base() == Register::EIP;
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if instruction.flow_control() != FlowControl::Next
        || relative_to_short_pointer
        || repeated && instruction.is_string_instruction()
        || instruction.segment_prefix() == Register::GS
    {
        return Role::Fixed;
    }
    Role::Movable
}

/// The plain forms of a conditional jump, short and long. Jumps with prefixes, `loop` and `jrcxz`
/// stay in place.
fn conditional(instruction: &Instruction, bytes: &[u8]) -> Option<Role> {
    let opcode = match bytes {
        [opcode @ 0x70..=0x7f, _] => opcode,
        [0x0f, opcode @ 0x80..=0x8f, _, _, _, _] => opcode,
        _ => return None,
    };
    Some(Role::Conditional { condition: opcode & 0x0f, target: instruction.near_branch_target() })
}

/// Follows the instructions to find padding.
#[derive(Debug, Default)]
struct Padding {
    /// Whether the next instruction cannot be reached from the one before.
    unreached: bool,
    start: u64,
    end: u64,
}

impl Padding {
    /// Takes the next instruction. Returns the padding that ends before it.
    fn next(&mut self, instruction: &Instruction) -> Option<Pad> {
        let ends_flow = matches!(
            instruction.flow_control(),
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
        );
        if self.unreached && does_nothing(instruction) {
            self.end = instruction.next_ip();
            return None;
        }
        let pad = self.finish();
        *self =
            Self { unreached: ends_flow, start: instruction.next_ip(), end: instruction.next_ip() };
        pad
    }

    /// Whether the last instruction is padding.
    fn is_in(&self, instruction: &Instruction) -> bool {
        self.unreached && instruction.ip() >= self.start && instruction.next_ip() == self.end
    }

    fn finish(&self) -> Option<Pad> {
        (self.unreached && self.end > self.start)
            .then_some(Pad { start: self.start, end: self.end })
    }

    /// The padding that continues in the gap between the end of one function and the start of the
    /// next.
    fn through_gap(mut self, elf: &ElfView, from: u64, to: u64) -> Option<Pad> {
        let gap = usize::try_from(to.checked_sub(from)?).ok().filter(|bytes| *bytes <= GAP_BYTES);
        let bytes = gap.and_then(|gap| elf.bytes_from(from).get(..gap)).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, bytes, from, DecoderOptions::NONE);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() || !does_nothing(&instruction) {
                break;
            }
            self.end = instruction.next_ip();
        }
        self.finish()
    }
}

fn does_nothing(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
}
