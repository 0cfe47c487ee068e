//! Checks of stubs that begin and end sections.

use super::{check_same, decode, original, stub_jump};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use retake_contract::context::context;
use retake_patch::{Entry, Image, Site, SiteKind};

/// Offset in a thread's storage of the storage's own address.
const SELF: u64 = 0x10;

/// A step of a stub.
enum Step {
    /// Tells the runtime the memory of the operation.
    Operand(Instruction),
    /// A call of the runtime, and the address at which it continues.
    Call(Entry, u64),
    /// A call of the runtime, which may continue at the address instead.
    CallOrSkip(Entry, u64),
    Instruction(Instruction),
}

impl Step {
    fn entry(&self) -> Option<Entry> {
        match self {
            Step::Call(entry, _) | Step::CallOrSkip(entry, _) => Some(*entry),
            Step::Operand(_) | Step::Instruction(_) => None,
        }
    }
}

/// Checks the stub of a site that belongs to a section.
pub fn check_section_site(elf: &[u8], image: &Image, site: &Site) {
    let stub = stub_jump(image, site);
    let steps = steps(image, site, stub);
    let walk = Walk { elf, image, site };
    match site.kind {
        SiteKind::Atomic => walk.atomic(&steps),
        SiteKind::SectionBegin => walk.begin(&steps),
        SiteKind::SectionEnd => walk.end(&steps),
        kind => panic!("{kind:?} is of no section"),
    }
}

fn steps(image: &Image, site: &Site, stub: u64) -> Vec<Step> {
    let start = site.stub.offset as usize;
    let code = &image.stubs[start..start + site.stub.length as usize];
    let mut decoder = Decoder::with_ip(64, code, stub, DecoderOptions::NONE);
    let mut steps = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        assert!(!instruction.is_invalid());
        assert!(image.text_address(instruction.ip()).is_some());
        if (instruction.mnemonic(), instruction.memory_segment(), instruction.op1_register())
            == (Mnemonic::Mov, Register::GS, Register::RCX)
        {
            assert_eq!(instruction.memory_displacement64(), context::SCRATCH);
            steps.extend(operand(&mut decoder).map(Step::Operand));
            steps.push(call(image, &mut decoder, code));
        } else {
            steps.push(Step::Instruction(instruction));
        }
    }
    steps
}

/// Decodes `lea` and the instruction that saves the address, if they come next.
fn operand(decoder: &mut Decoder) -> Option<Instruction> {
    let (position, address) = (decoder.position(), decoder.ip());
    let mut lea = decoder.decode();
    if lea.memory_segment() == Register::FS {
        // The address of the thread's own storage.
        assert_eq!((lea.op0_register(), lea.memory_displacement64()), (Register::RCX, SELF));
        lea = decoder.decode();
        assert_eq!(lea.memory_base(), Register::RCX);
    }
    let mut save = decoder.decode();
    while save.mnemonic() == Mnemonic::Nop {
        save = decoder.decode();
    }
    if save.mnemonic() != Mnemonic::Mov {
        decoder.set_position(position).expect("inside the stub");
        decoder.set_ip(address);
        return None;
    }
    let loads = matches!(lea.mnemonic(), Mnemonic::Lea | Mnemonic::Mov);
    assert!(loads && lea.op0_register() == Register::RCX);
    assert_eq!((save.memory_segment(), save.op1_register()), (Register::GS, Register::RCX));
    assert_eq!(save.memory_displacement64(), context::OPERAND);
    Some(lea)
}

/// Decodes a call of the runtime, which continues after it, or after the byte that follows it.
fn call(image: &Image, decoder: &mut Decoder, code: &[u8]) -> Step {
    let lea = decoder.decode();
    assert_eq!((lea.mnemonic(), lea.op0_register()), (Mnemonic::Lea, Register::RCX));
    let leave = decoder.decode();
    let literal = leave.ip_rel_memory_address().wrapping_sub(image.stub_address) / 8;
    let entry = *Entry::ALL.get(literal as usize).expect("a literal");
    let byte = u64::from(entry == Entry::CompareBegin);
    let next = leave.next_ip() + byte;
    assert_eq!(
        (leave.flow_control(), lea.ip_rel_memory_address()),
        (FlowControl::IndirectBranch, next)
    );
    if byte == 0 {
        return Step::Call(entry, next);
    }
    let position = decoder.position();
    decoder.set_position(position + 1).expect("inside the stub");
    decoder.set_ip(next);
    Step::CallOrSkip(entry, next + u64::from(code[position]))
}

/// The parts of a memory operand, except the segment.
fn memory(instruction: &Instruction) -> (Register, Register, u32, u64) {
    (
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64(),
    )
}

struct Walk<'a> {
    elf: &'a [u8],
    image: &'a Image,
    site: &'a Site,
}

impl Walk<'_> {
    fn atomic(&self, steps: &[Step]) {
        let calls: Vec<usize> =
            (0..steps.len()).filter(|index| steps[*index].entry().is_some()).collect();
        let (operations, rest) = calls.as_chunks();
        assert!(rest.is_empty() && !operations.is_empty(), "two calls for each operation");
        let moved: Vec<&Instruction> =
            operations.iter().map(|calls| self.operation(steps, *calls)).collect();
        let is_site =
            |moved: &&&Instruction| self.image.text_address(moved.ip()) == Some(self.site.address);
        let moved_site = moved.iter().find(is_site).expect("the site is an operation");
        self.displaced_and_back(steps, Some(moved_site.ip()));
    }

    /// Checks the two calls around an instruction, and returns that.
    fn operation<'steps>(
        &self,
        steps: &'steps [Step],
        [begin, end]: [usize; 2],
    ) -> &'steps Instruction {
        match (&steps[begin], &steps[end]) {
            (Step::Call(Entry::SectionBegin, _), Step::Call(Entry::SectionEnd, _)) => {}
            (Step::CallOrSkip(Entry::CompareBegin, skip), Step::Call(Entry::CompareEnd, next)) => {
                assert_eq!(skip, next)
            }
            _ => panic!("other calls"),
        }
        let Some(Step::Instruction(moved)) = steps.get(end - 1) else {
            panic!("the instruction is in the section")
        };
        if let Some(Step::Operand(told)) = begin.checked_sub(1).map(|index| &steps[index]) {
            assert_eq!(memory(told), memory(moved));
        }
        moved
    }

    fn begin(&self, steps: &[Step]) {
        let calls = match steps {
            [Step::Operand(told), Step::Call(Entry::ObjectBegin, _), ..] => {
                let (base, _, _, word) = memory(told);
                assert!(base == Register::RCX || (base, word) == (Register::RDI, 0));
                2
            }
            [Step::Operand(told), Step::Call(Entry::ConditionBegin, _), ..] => {
                let (base, _, _, word) = memory(told);
                assert!((base, word) == (Register::RSI, 0) || base == Register::RDI && word > 0);
                2
            }
            [Step::Call(Entry::SectionBegin, _), ..] => 1,
            _ => panic!("other calls"),
        };
        assert_eq!(self.site.patch_address, self.site.address);
        self.displaced_and_back(&steps[calls..], None);
    }

    /// Checks that all instructions but the last are those of the text. The last one jumps to the
    /// text after them, or is the text's own instruction that leaves.
    fn displaced_and_back(&self, steps: &[Step], moved_site: Option<u64>) {
        let instructions = steps.iter().filter_map(|step| match step {
            Step::Instruction(instruction) => Some(instruction),
            Step::Operand(_) | Step::Call(..) | Step::CallOrSkip(..) => None,
        });
        let instructions: Vec<_> = instructions.collect();
        let (back, moved) = instructions.split_last().expect("a way back");
        let mut position = moved
            .iter()
            .fold(self.site.patch_address, |position, new| self.same(position, new, moved_site));
        if back.near_branch_target() != position {
            let old = decode(original(self.elf, self.image, position), position);
            assert_eq!(
                (back.flow_control(), back.near_branch_target()),
                (old.flow_control(), old.near_branch_target())
            );
            assert!(matches!(
                old.flow_control(),
                FlowControl::UnconditionalBranch
                    | FlowControl::Return
                    | FlowControl::IndirectBranch
            ));
            position += old.len() as u64;
        }
        assert!(self.site.patch_address + u64::from(self.site.patch_length) <= position);
    }

    /// Compares one instruction with that of the text. Returns the position after it.
    fn same(&self, position: u64, new: &Instruction, moved_site: Option<u64>) -> u64 {
        let old = decode(original(self.elf, self.image, position), position);
        assert_eq!(self.image.text_address(new.ip()), Some(position));
        if old.flow_control() == FlowControl::ConditionalBranch {
            assert_eq!(old.condition_code(), new.condition_code());
            let offset = old.near_branch_target().wrapping_sub(self.site.address);
            let inside = moved_site.filter(|_| (1..u64::from(self.site.length)).contains(&offset));
            assert_eq!(
                new.near_branch_target(),
                inside.map_or(old.near_branch_target(), |moved| moved + offset)
            );
        } else {
            check_same(&old, new);
        }
        position + old.len() as u64
    }

    /// Checks the stub of a call that cancels the thread: the runtime is told, and the text
    /// continues.
    fn leaves_all(&self, steps: &[Step]) {
        let [Step::Operand(told), Step::Call(Entry::ObjectBegin, _), rest @ ..] = steps else {
            panic!("one call")
        };
        assert_eq!((told.mnemonic(), told.immediate(1)), (Mnemonic::Mov, u64::MAX));
        self.displaced_and_back(rest, None);
    }

    fn end(&self, steps: &[Step]) {
        if matches!(steps[0], Step::Operand(_)) {
            return self.leaves_all(steps);
        }
        let call = steps
            .iter()
            .position(|step| matches!(step, Step::Call(Entry::SectionEnd, _)))
            .expect("a call");
        let [.., Step::Call(..), Step::Instruction(leave)] = steps else {
            panic!("the call, then it leaves")
        };
        assert_eq!(call, steps.len() - 2);
        let moved = steps[..call].iter().map(|step| match step {
            Step::Instruction(instruction) => instruction,
            Step::Operand(_) | Step::Call(..) | Step::CallOrSkip(..) => panic!("one call"),
        });
        let old = decode(original(self.elf, self.image, self.site.address), self.site.address);
        let mut position = self.site.patch_address;
        let mut moved: Vec<_> = moved.collect();
        if old.flow_control() == FlowControl::ConditionalBranch {
            let back = moved.pop().expect("a way back");
            let skip = moved.pop().expect("the condition");
            assert_eq!(
                (skip.condition_code(), skip.near_branch_target()),
                (old.condition_code(), back.next_ip())
            );
            assert_eq!(back.near_branch_target(), old.next_ip());
        }
        for new in moved {
            position = self.same(position, new, None);
        }
        assert_eq!(position, self.site.address);
        match old.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                assert_eq!(
                    (leave.flow_control(), leave.near_branch_target()),
                    (FlowControl::UnconditionalBranch, old.near_branch_target())
                );
            }
            _ => assert_eq!(
                (leave.code(), leave.memory_displacement64()),
                (old.code(), old.memory_displacement64())
            ),
        }
    }
}
