//! Layout of the stub area, and emission of stubs and jumps.
//!
//! All references are relative, so an image works at any load address.

use crate::bytes::page_ceiling;
use crate::choice::{Operand, Plan};
use crate::elf::ElfView;
use crate::entry::Entry;
use crate::image::{Placement, Site, StubInfo, StubPoint};
use crate::jump::{JUMP_BYTES, Jump, Patch, SHORT_JUMP_BYTES};
use crate::sections::Object;
use crate::stub::{
    CALL_BYTES, COUNT, JUMP_INDIRECT, JUMP_NOT_NEGATIVE, JUMP_RCX_ZERO, LEA_OPERAND_BYTES, LEA_RCX,
    LOAD_HIGHEST, LOAD_ROUNDS, LOAD_SELF, NEXT_ROUND, Piece, RESTORE_RCX, SAVE_OPERAND, SAVE_RCX,
    STORE_ROUNDS, pieces,
};
use crate::survey::{Listed, Role};
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, IcedError, Instruction, MemoryOperand, Register,
};

/// `jmp rel32`
const JUMP: u8 = 0xe9;
/// `jmp rel8`
const JUMP_SHORT: u8 = 0xeb;
/// `nop`
const NOP: u8 = 0x90;
/// `int3`, for places that no thread can reach, as was proven. A thread that does must not go on.
const TRAP: u8 = 0xcc;
/// Stubs start at multiples of this, so that few span more cache lines than necessary.
const STUB_ALIGNMENT: usize = 8;
/// The literals at the start of the stub area.
const LITERAL_BYTES: usize = 8 * Entry::ALL.len();

/// The error that a distance does not fit in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfReach;

/// The stub area and the sites that it serves.
pub(crate) struct Emitted {
    pub stub_address: u64,
    pub stubs: Vec<u8>,
    pub sites: Vec<Site>,
}

/// Lays out and writes the stubs of all plans.
pub(crate) fn emit(
    elf: &ElfView,
    placement: Placement,
    plans: &[Plan],
) -> Result<Emitted, OutOfReach> {
    let (offsets, total_bytes) = lay_out(plans);
    u32::try_from(total_bytes).map_err(|_| OutOfReach)?;
    let area_bytes = page_ceiling(total_bytes as u64).ok_or(OutOfReach)?;
    let stub_address = match placement {
        Placement::After => elf.high,
        Placement::Before => elf.low.wrapping_sub(area_bytes),
    };
    let mut stubs = Vec::with_capacity(area_bytes as usize);
    for entry in Entry::ALL {
        stubs.extend(entry.address().to_le_bytes());
    }
    let mut sites = Vec::with_capacity(plans.len());
    for (plan, offset) in plans.iter().zip(offsets) {
        stubs.resize(offset, TRAP);
        let mut writer =
            Writer { area: stub_address, out: &mut stubs, start: offset, points: Vec::new() };
        sites.push(writer.stub(elf, plan)?);
    }
    assert_eq!(stubs.len(), total_bytes, "layout and emission agree");
    stubs.resize(area_bytes as usize, TRAP);
    Ok(Emitted { stub_address, stubs, sites })
}

/// The offset of each stub, and the end of the last.
fn lay_out(plans: &[Plan]) -> (Vec<usize>, usize) {
    let mut end = LITERAL_BYTES;
    let offsets = plans.iter().map(|plan| {
        let offset = end.next_multiple_of(STUB_ALIGNMENT);
        end = offset + pieces(plan).iter().map(Piece::bytes).sum::<usize>();
        offset
    });
    (offsets.collect(), end)
}

/// The jumps of a site: one at its start, and another in padding if the first one is short.
pub(crate) fn jumps(site: &Site, stub_area: u64) -> Result<Vec<Patch>, OutOfReach> {
    let stub = stub_area.wrapping_add(u64::from(site.stub.offset));
    let near = |from: u64| -> Result<Vec<u8>, OutOfReach> {
        let mut bytes = vec![JUMP];
        bytes.extend(displacement(from.wrapping_add(JUMP_BYTES), stub)?.to_le_bytes());
        Ok(bytes)
    };
    let mut patches = Vec::new();
    let mut first = match site.pad_address {
        None => near(site.patch_address)?,
        Some(pad) => {
            patches.push((pad, near(pad)?));
            let short = displacement(site.patch_address.wrapping_add(SHORT_JUMP_BYTES), pad)?;
            vec![JUMP_SHORT, i8::try_from(short).map_err(|_| OutOfReach)? as u8]
        }
    };
    first.resize(usize::from(site.patch_length), TRAP);
    patches.push((site.patch_address, first));
    Ok(patches)
}

/// The distance from `from` to `to`.
fn displacement(from: u64, to: u64) -> Result<i32, OutOfReach> {
    i32::try_from(to.wrapping_sub(from) as i64).map_err(|_| OutOfReach)
}

/// The memory operand of an instruction. If it is relative to the thread's own storage (`%fs`), the
/// operand for the runtime is, too.
fn memory_of(elf: &ElfView, instruction: &Listed) -> MemoryOperand {
    let bytes = &elf.bytes_from(instruction.address)[..usize::from(instruction.length)];
    let operation = Decoder::with_ip(64, bytes, instruction.address, DecoderOptions::NONE).decode();
    MemoryOperand::new(
        operation.memory_base(),
        operation.memory_index(),
        operation.memory_index_scale(),
        operation.memory_displacement64() as i64,
        operation.memory_displ_size(),
        false,
        Register::None,
    )
}

/// What the runtime is told, in place of an address, when the thread leaves all functions that it
/// is in.
const LEAVES: i32 = -1;

struct Writer<'a> {
    area: u64,
    out: &'a mut Vec<u8>,
    start: usize,
    points: Vec<StubPoint>,
}

impl Writer<'_> {
    /// Writes one stub.
    fn stub(&mut self, elf: &ElfView, plan: &Plan) -> Result<Site, OutOfReach> {
        let mut continue_at = None;
        for piece in pieces(plan) {
            self.point(piece.stands_for());
            match piece {
                Piece::Moved(instruction) => self.displaced(elf, &instruction)?,
                Piece::Skip { condition, bytes, .. } => {
                    self.out.extend([0x0f, 0x80 | condition]);
                    self.out.extend(i32::try_from(bytes).expect("inside the stub").to_le_bytes());
                }
                Piece::Call { entry, text_next, skipped, operand, .. } => {
                    let next = text_next
                        .unwrap_or_else(|| self.address().wrapping_add(piece.bytes() as u64));
                    continue_at.get_or_insert(next);
                    if entry != Entry::SystemCall {
                        self.out.extend(SAVE_RCX);
                    }
                    if let Some((operand, instruction)) = operand {
                        self.tell(elf, operand, &instruction)?;
                    }
                    self.call(entry, next)?;
                    self.out.extend(skipped);
                }
                Piece::Count { bytes, .. } => {
                    self.out.extend(COUNT);
                    self.out.extend(JUMP_NOT_NEGATIVE);
                    self.out.push(bytes);
                }
                Piece::Round { .. } => {
                    let next = self.round(piece.bytes())?;
                    continue_at.get_or_insert(next);
                }
                Piece::Jump { target, .. } => {
                    self.out.push(JUMP);
                    self.relative(target)?;
                }
            }
        }
        Ok(Site {
            kind: plan.kind,
            address: plan.site.address,
            length: plan.site.length,
            patch_address: plan.patch_start(),
            patch_length: u8::try_from(plan.patch_end - plan.patch_start())
                .expect("a jump and at most one more instruction"),
            pad_address: match plan.jump {
                Jump::Near => None,
                Jump::ByWayOf { pad } => Some(pad),
            },
            stub: StubInfo {
                offset: self.start as u32,
                length: (self.out.len() - self.start) as u32,
                continue_at: continue_at.expect("every stub calls the runtime"),
                points: std::mem::take(&mut self.points),
            },
        })
    }

    /// Writes the count of a round, with a length of `bytes`. Returns the address behind it: there
    /// the runtime continues, which restores `%rcx` itself.
    fn round(&mut self, bytes: usize) -> Result<u64, OutOfReach> {
        let next = self.address().wrapping_add(bytes as u64);
        self.out.extend(SAVE_RCX);
        self.out.extend(LOAD_ROUNDS);
        self.out.extend(NEXT_ROUND);
        self.out.extend(STORE_ROUNDS);
        self.out.extend(LOAD_HIGHEST);
        self.out.extend(JUMP_RCX_ZERO);
        self.out.push(CALL_BYTES as u8);
        self.call(Entry::Passage, next)?;
        self.out.extend(RESTORE_RCX);
        Ok(next)
    }

    /// Writes a call of the runtime, which continues at `next`.
    fn call(&mut self, entry: Entry, next: u64) -> Result<(), OutOfReach> {
        self.out.extend(LEA_RCX);
        self.relative(next)?;
        self.out.extend(JUMP_INDIRECT);
        self.relative(self.area.wrapping_add(8 * entry.index() as u64))
    }

    /// Writes the instructions that tell the runtime which memory an operation is on. `%rcx` is
    /// saved already.
    fn tell(
        &mut self,
        elf: &ElfView,
        operand: Operand,
        instruction: &Listed,
    ) -> Result<(), OutOfReach> {
        let memory = match operand {
            Operand::Memory => memory_of(elf, instruction),
            Operand::Argument(Object::First) => MemoryOperand::with_base(Register::RDI),
            Operand::Argument(Object::Second) => MemoryOperand::with_base(Register::RSI),
            Operand::Argument(Object::Own(word)) => {
                self.out.extend(LOAD_SELF);
                MemoryOperand::with_base_displ(Register::RCX, word.into())
            }
            Operand::Argument(Object::OfThread(word)) => {
                MemoryOperand::with_base_displ(Register::RDI, word.into())
            }
            Operand::Slot(slot) => {
                MemoryOperand::with_base_displ(Register::RIP, slot.cast_signed())
            }
            Operand::Leaves => {
                return self.load(Instruction::with2(Code::Mov_rm64_imm32, Register::RCX, LEAVES));
            }
        };
        self.load(Instruction::with2(Code::Lea_r64_m, Register::RCX, memory))
    }

    /// Writes the instruction that loads the operand.
    fn load(&mut self, load: Result<Instruction, IcedError>) -> Result<(), OutOfReach> {
        let mut encoder = Encoder::new(64);
        let length = encoder
            .encode(&load.map_err(|_| OutOfReach)?, self.address())
            .map_err(|_| OutOfReach)?;
        self.out.extend(encoder.take_buffer());
        self.out.extend(std::iter::repeat_n(NOP, LEA_OPERAND_BYTES - length));
        self.out.extend(SAVE_OPERAND);
        Ok(())
    }

    /// Link-time address of the next byte.
    fn address(&self) -> u64 {
        self.area.wrapping_add(self.out.len() as u64)
    }

    /// Records that the stub stands for `text_address` from here on.
    fn point(&mut self, text_address: u64) {
        self.points.push(StubPoint { offset: (self.out.len() - self.start) as u32, text_address });
    }

    /// Writes a displacement to `target`, relative to the end of the displacement.
    fn relative(&mut self, target: u64) -> Result<(), OutOfReach> {
        let value = displacement(self.address().wrapping_add(4), target)?;
        self.out.extend(value.to_le_bytes());
        Ok(())
    }

    /// Copies an instruction, and adjusts a displacement relative to the instruction's own address.
    fn displaced(&mut self, elf: &ElfView, instruction: &Listed) -> Result<(), OutOfReach> {
        if let Role::Conditional { condition, target } = instruction.role {
            self.out.extend([0x0f, 0x80 | condition]);
            return self.relative(target);
        }
        let moved_back = instruction.address.wrapping_sub(self.address()) as i64;
        let at = self.out.len();
        self.out.extend(&elf.bytes_from(instruction.address)[..usize::from(instruction.length)]);
        if let Some(offset) = instruction.displacement_at {
            let field = at + usize::from(offset);
            let old =
                i32::from_le_bytes(self.out[field..field + 4].try_into().expect("four bytes"));
            let new = i32::try_from(i64::from(old) + moved_back).map_err(|_| OutOfReach)?;
            self.out[field..field + 4].copy_from_slice(&new.to_le_bytes());
        }
        Ok(())
    }
}
