//! The contents of stubs: instructions displaced from the text, calls of the runtime, and jumps
//! back into the text.

use crate::choice::{Operand, Plan};
use crate::entry::Entry;
use crate::image::SiteKind;
use crate::jump::JUMP_BYTES;
use crate::sections::Object;
use crate::survey::{Listed, Nature, Role};
use retake_contract::context::context;

/// `mov %rcx,%gs:scratch`: saves the program's `%rcx` for the runtime.
pub(crate) const SAVE_RCX: [u8; 9] = with_offset([0x65, 0x48, 0x89, 0x0c, 0x25], context::SCRATCH);
/// `mov %rcx,%gs:operand`: tells the runtime which memory an operation is on.
pub(crate) const SAVE_OPERAND: [u8; 9] =
    with_offset([0x65, 0x48, 0x89, 0x0c, 0x25], context::OPERAND);
/// Room for the longest form of `lea OPERAND,%rcx`.
pub(crate) const LEA_OPERAND_BYTES: usize = 9;
/// `mov %fs:0x10,%rcx`: loads the address of the thread's own storage.
pub(crate) const LOAD_SELF: [u8; 9] = [0x64, 0x48, 0x8b, 0x0c, 0x25, 0x10, 0, 0, 0];
/// `lea disp32(%rip),%rcx`
pub(crate) const LEA_RCX: [u8; 3] = [0x48, 0x8d, 0x0d];
/// `jmp *disp32(%rip)`
pub(crate) const JUMP_INDIRECT: [u8; 2] = [0xff, 0x25];
/// `incq %gs:passages`: counts a passage.
pub(crate) const COUNT: [u8; 9] = with_offset([0x65, 0x48, 0xff, 0x04, 0x25], context::PASSAGES);
/// `mov %gs:rounds,%rcx`, and back.
pub(crate) const LOAD_ROUNDS: [u8; 9] =
    with_offset([0x65, 0x48, 0x8b, 0x0c, 0x25], context::ROUNDS);
pub(crate) const STORE_ROUNDS: [u8; 9] =
    with_offset([0x65, 0x48, 0x89, 0x0c, 0x25], context::ROUNDS);
/// `lea 1(%rcx),%rcx`: adds without a change of flags.
pub(crate) const NEXT_ROUND: [u8; 4] = [0x48, 0x8d, 0x49, 0x01];
/// `movzbl %gs:rounds+7,%ecx`
pub(crate) const LOAD_HIGHEST: [u8; 9] =
    with_offset([0x65, 0x0f, 0xb6, 0x0c, 0x25], context::ROUNDS + 7);
/// `jrcxz rel8`
pub(crate) const JUMP_RCX_ZERO: [u8; 1] = [0xe3];
/// `mov %gs:scratch,%rcx`
pub(crate) const RESTORE_RCX: [u8; 9] =
    with_offset([0x65, 0x48, 0x8b, 0x0c, 0x25], context::SCRATCH);
/// `jns rel8`
pub(crate) const JUMP_NOT_NEGATIVE: [u8; 1] = [0x79];
/// Bytes of `lea` and `jmp` to an entry.
pub(crate) const CALL_BYTES: usize = LEA_RCX.len() + 4 + JUMP_INDIRECT.len() + 4;
const ROUND_BYTES: usize = SAVE_RCX.len()
    + LOAD_ROUNDS.len()
    + NEXT_ROUND.len()
    + STORE_ROUNDS.len()
    + LOAD_HIGHEST.len()
    + JUMP_RCX_ZERO.len()
    + 1
    + CALL_BYTES
    + RESTORE_RCX.len();
/// `0f 80+condition rel32`
const CONDITIONAL_BYTES: usize = 6;

/// An instruction that ends with the offset of a field in the thread's context.
const fn with_offset(instruction: [u8; 5], offset: u64) -> [u8; 9] {
    let [a, b, c, d, e] = instruction;
    let [f, g, h, i] = (offset as u32).to_le_bytes();
    [a, b, c, d, e, f, g, h, i]
}

/// A piece of a stub. Each stands for an instruction of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece {
    /// A displaced instruction.
    Moved(Listed),
    /// A conditional jump over the next `bytes` of the stub.
    Skip { condition: u8, bytes: usize, stands_for: u64 },
    /// A call of the runtime, which continues after it, or at `text_next` in the text. With
    /// `skipped`, the next byte is the distance from its own end to the place where the runtime may
    /// continue instead. With `operand`, the runtime is first told the memory of that instruction's
    /// operand.
    Call {
        entry: Entry,
        text_next: Option<u64>,
        skipped: Option<u8>,
        operand: Option<(Operand, Listed)>,
        stands_for: u64,
    },
    /// Counts a passage, and jumps over the next `bytes` of the stub while the count is not
    /// negative.
    Count { bytes: u8, stands_for: u64 },
    /// Counts a round of spinning, with `%rcx` saved, and calls the runtime if the count's highest
    /// byte is not 0. No flag changes.
    Round { stands_for: u64 },
    /// A jump to the text.
    Jump { target: u64, stands_for: u64 },
}

impl Piece {
    fn call(entry: Entry, stands_for: u64) -> Self {
        Piece::Call { entry, text_next: None, skipped: None, operand: None, stands_for }
    }

    /// A jump back to the text.
    fn back(target: u64) -> Self {
        Piece::Jump { target, stands_for: target }
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Piece::Moved(instruction) => moved_bytes(instruction),
            Piece::Skip { .. } => CONDITIONAL_BYTES,
            Piece::Call { entry: Entry::SystemCall, .. } => CALL_BYTES,
            Piece::Call { skipped, operand, .. } => {
                let told = operand.map_or(0, |(operand, _)| match operand {
                    Operand::Argument(Object::Own(_)) => LOAD_SELF.len(),
                    _ => 0,
                } + LEA_OPERAND_BYTES
                    + SAVE_OPERAND.len());
                SAVE_RCX.len() + told + CALL_BYTES + usize::from(skipped.is_some())
            }
            Piece::Count { .. } => COUNT.len() + JUMP_NOT_NEGATIVE.len() + 1,
            Piece::Round { .. } => ROUND_BYTES,
            Piece::Jump { .. } => JUMP_BYTES as usize,
        }
    }

    /// The address of the instruction in the text that it stands for.
    pub fn stands_for(&self) -> u64 {
        match self {
            Piece::Moved(instruction) => instruction.address,
            Piece::Skip { stands_for, .. }
            | Piece::Call { stands_for, .. }
            | Piece::Count { stands_for, .. }
            | Piece::Round { stands_for }
            | Piece::Jump { stands_for, .. } => *stands_for,
        }
    }
}

/// The pieces of a plan's stub.
pub(crate) fn pieces(plan: &Plan) -> Vec<Piece> {
    match plan.kind {
        SiteKind::SystemCall => replaced(plan, Entry::SystemCall),
        SiteKind::Rdtsc => replaced(plan, Entry::Rdtsc),
        SiteKind::Rdtscp => replaced(plan, Entry::Rdtscp),
        SiteKind::Cpuid => replaced(plan, Entry::Cpuid),
        SiteKind::Atomic => atomic(plan),
        SiteKind::SectionBegin => section_begin(plan),
        SiteKind::SectionEnd => section_end(plan),
        SiteKind::Passage => passage(plan),
        SiteKind::Spin => spin(plan),
        SiteKind::Binding => binding(plan),
    }
}

fn moved(instructions: &[Listed]) -> impl Iterator<Item = Piece> {
    instructions.iter().copied().map(Piece::Moved)
}

/// Calls the runtime, which executes the instruction instead.
fn replaced(plan: &Plan, entry: Entry) -> Vec<Piece> {
    let text_next = plan.after.is_empty().then_some(plan.site.end());
    let mut pieces: Vec<Piece> = moved(&plan.before).collect();
    let stands_for = plan.site.address;
    pieces.push(Piece::Call { entry, text_next, skipped: None, operand: None, stands_for });
    pieces.extend(moved(&plan.after));
    pieces.extend((!plan.after.is_empty()).then(|| Piece::back(plan.end())));
    pieces
}

/// Executes the instruction between two calls. Jumps over its LOCK prefix are also between them.
fn atomic(plan: &Plan) -> Vec<Piece> {
    let (outside, inside) = plan.before.split_at(plan.outside);
    let mut within: Vec<Piece> = inside
        .iter()
        .enumerate()
        .map(|(index, instruction)| between_calls(plan, instruction, &inside[index + 1..]))
        .collect();
    within.push(Piece::Moved(plan.site));
    // If the runtime skips the section, it skips the instruction and nothing else.
    let is_compare = plan.site.nature == Nature::Atomic { compares: true }
        && inside.iter().all(|instruction| matches!(instruction.role, Role::Conditional { .. }));
    let (begin, end) = if is_compare {
        (Entry::CompareBegin, Entry::CompareEnd)
    } else {
        (Entry::SectionBegin, Entry::SectionEnd)
    };
    within.push(Piece::call(end, plan.site.end()));
    let skipped = is_compare.then(|| within.iter().map(Piece::bytes).sum::<usize>() as u8);
    let mut pieces: Vec<Piece> = neighbours(plan, outside).collect();
    pieces.push(Piece::Call {
        entry: begin,
        text_next: None,
        skipped,
        operand: plan.operand.map(|operand| (operand, plan.site)),
        stands_for: inside.first().unwrap_or(&plan.site).address,
    });
    pieces.extend(within);
    go_on(plan, &mut pieces);
    pieces
}

/// Instructions displaced with an operation. Those that are operations themselves are between two
/// calls of their own.
fn neighbours(plan: &Plan, instructions: &[Listed]) -> impl Iterator<Item = Piece> {
    instructions.iter().flat_map(|instruction| {
        let is_operation =
            plan.kind == SiteKind::Atomic && matches!(instruction.nature, Nature::Atomic { .. });
        let begin = Piece::Call {
            entry: Entry::SectionBegin,
            text_next: None,
            skipped: None,
            operand: plan.operand.map(|operand| (operand, *instruction)),
            stands_for: instruction.address,
        };
        let end = Piece::call(Entry::SectionEnd, instruction.end());
        let begin = is_operation.then_some(begin);
        begin.into_iter().chain([Piece::Moved(*instruction)]).chain(is_operation.then_some(end))
    })
}

/// An instruction between the calls. It may jump over the prefix of the atomic one. `rest` are the
/// instructions between the two.
fn between_calls(plan: &Plan, instruction: &Listed, rest: &[Listed]) -> Piece {
    match instruction.role {
        Role::Conditional { condition, target } if plan.site.has_inside(target) => {
            let between: usize = rest.iter().map(moved_bytes).sum();
            Piece::Skip {
                condition,
                bytes: between + (target - plan.site.address) as usize,
                stands_for: instruction.address,
            }
        }
        _ => Piece::Moved(*instruction),
    }
}

fn section_begin(plan: &Plan) -> Vec<Piece> {
    let entry = match plan.operand {
        Some(Operand::Argument(Object::First | Object::Own(_))) => Entry::ObjectBegin,
        Some(Operand::Argument(Object::Second | Object::OfThread(_))) => Entry::ConditionBegin,
        Some(Operand::Memory | Operand::Slot(_) | Operand::Leaves) | None => Entry::SectionBegin,
    };
    let call = Piece::Call {
        entry,
        text_next: None,
        skipped: None,
        operand: plan.operand.map(|operand| (operand, plan.site)),
        stands_for: plan.site.address,
    };
    let mut pieces = vec![call, Piece::Moved(plan.site)];
    pieces.extend(moved(&plan.after));
    pieces.push(Piece::back(plan.end()));
    pieces
}

/// Counts, then executes the first instructions of a function. Status flags need not be kept at the
/// beginning of a function.
fn passage(plan: &Plan) -> Vec<Piece> {
    let stands_for = plan.site.address;
    let call = Piece::call(Entry::Passage, stands_for);
    let mut pieces =
        vec![Piece::Count { bytes: call.bytes() as u8, stands_for }, call, Piece::Moved(plan.site)];
    pieces.extend(moved(&plan.after));
    pieces.push(Piece::back(plan.end()));
    pieces
}

/// Tells the runtime the slot, then goes on to the dynamic linker.
fn binding(plan: &Plan) -> Vec<Piece> {
    let call = Piece::Call {
        entry: Entry::Binding,
        text_next: None,
        skipped: None,
        operand: plan.operand.map(|operand| (operand, plan.site)),
        stands_for: plan.site.address,
    };
    vec![call, Piece::Moved(plan.site), Piece::back(plan.end())]
}

/// Counts a round between the displaced instructions. They may depend on flags.
fn spin(plan: &Plan) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = moved(&plan.before).collect();
    pieces.push(Piece::Round { stands_for: plan.site.address });
    pieces.push(Piece::Moved(plan.site));
    go_on(plan, &mut pieces);
    pieces
}

/// The instructions after the site, and the way back into the text, if the last does not leave.
fn go_on(plan: &Plan, pieces: &mut Vec<Piece>) {
    match plan.after.split_last().filter(|(last, _)| last.leaves()) {
        Some((last, others)) => pieces.extend(neighbours(plan, others).chain([leave(last)])),
        None => pieces.extend(neighbours(plan, &plan.after).chain([Piece::back(plan.end())])),
    }
}

/// The call that ends the section, then the instruction that leaves the function. A conditional
/// jump leaves it only if it jumps. A call that never returns continues in the text.
fn section_end(plan: &Plan) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = moved(&plan.before).collect();
    let stands_for = plan.site.address;
    let way_out = match plan.site.role {
        Role::Conditional { condition, target } => {
            pieces.push(Piece::Skip { condition, bytes: JUMP_BYTES as usize, stands_for });
            pieces.push(Piece::back(plan.site.end()));
            Piece::Jump { target, stands_for }
        }
        _ => leave(&plan.site),
    };
    let entry = match plan.operand {
        Some(Operand::Leaves) => Entry::ObjectBegin,
        _ => Entry::SectionEnd,
    };
    let operand = plan.operand.map(|operand| (operand, plan.site));
    pieces.push(Piece::Call { entry, text_next: None, skipped: None, operand, stands_for });
    pieces.push(way_out);
    pieces.extend(plan.site.goes_on().then(|| Piece::back(plan.site.end())));
    pieces
}

/// An instruction that never falls through.
fn leave(instruction: &Listed) -> Piece {
    match instruction.nature {
        Nature::Jump { target } => Piece::Jump { target, stands_for: instruction.address },
        _ => Piece::Moved(*instruction),
    }
}

/// Length of an instruction in a stub, in bytes.
fn moved_bytes(instruction: &Listed) -> usize {
    match instruction.role {
        Role::Conditional { .. } => CONDITIONAL_BYTES,
        _ => usize::from(instruction.length),
    }
}
