//! Evaluation of instructions that were traced while recording: nearby places for a jump, the
//! memory that they wrote, and whether they only wait for another thread.

use crate::watch::{self, Fit, Pages, Text};
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, UsedMemory,
};
use std::collections::{HashMap, HashSet, VecDeque};

/// General registers, program counter and flags before a traced instruction, in the kernel's order
/// (`struct registers` of the runtime).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Step(pub [u64; 18]);

impl Step {
    /// Bytes of a step in the runtime's trace.
    pub const BYTES: usize = 18 * 8;

    /// Reads a step from the runtime's memory.
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
        let value =
            ORDER.iter().position(|candidate| *candidate == full).map(|index| self.0[index])?;
        if register.is_gpr64() {
            Some(value)
        } else {
            register.is_gpr32().then_some(value & 0xffff_ffff)
        }
    }
}

/// Nearby addresses where a jump can be planted, at most `limit`: first those that follow the end
/// of the trace, then those of the trace. Addresses in code that a compiler might rewrite are taken
/// only if there are no others: there, each visit takes a trap, which costs far more.
pub fn good_places<P: Pages>(text: &mut Text<P>, trace: &[Step], limit: usize) -> Vec<u64> {
    let mut queue: VecDeque<u64> = trace.iter().rev().take(1).map(Step::address).collect();
    let mut seen = HashSet::new();
    let (mut good, mut others) = (Vec::new(), Vec::new());
    let unseen = |seen: &HashSet<u64>| {
        trace.iter().rev().map(Step::address).find(|address| !seen.contains(address))
    };
    while let Some(address) = queue.pop_front().or_else(|| unseen(&seen)) {
        if good.len() >= limit || seen.len() >= 4 * limit {
            break;
        }
        if !seen.insert(address) {
            continue;
        }
        let Some(instruction) = text.instruction(address) else { continue };
        match watch::fit(text, &instruction) {
            Fit::Good => good.push(address),
            Fit::Rewritable if others.len() < limit => others.push(address),
            Fit::Rewritable | Fit::None => {}
        }
        queue.extend(successors(&instruction));
    }
    if good.is_empty() { others } else { good }
}

/// The number of steps at the end of a trace that show where the thread will soon come again.
const SOON: usize = 64;

/// The places that the thread visits repeatedly and where replay need not save the flags for a
/// comparison. All places if there are none.
pub fn cheapest_places<P: Pages>(text: &mut Text<P>, trace: &[Step], places: Vec<u64>) -> Vec<u64> {
    let latest = &trace[trace.len().saturating_sub(SOON)..];
    let again = |place: u64| latest.iter().filter(|step| step.address() == place).count() > 1;
    let cheap: Vec<u64> = places
        .iter()
        .copied()
        .filter(|place| again(*place) && watch::flags_are_dead(text, *place))
        .collect();
    if cheap.is_empty() { places } else { cheap }
}

/// The possible next addresses after an instruction, as far as the instruction tells.
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

/// The 8-byte words that the traced instructions wrote, the latest first, at most `limit`.
/// `thread_base` is the address that `%fs` points to.
pub fn written_words<P: Pages>(
    text: &mut Text<P>,
    trace: &[Step],
    thread_base: u64,
    limit: usize,
) -> Vec<u64> {
    let mut factory = InstructionInfoFactory::new();
    let mut words = Vec::new();
    for step in trace.iter().rev() {
        let Some(instruction) = text.instruction(step.address()) else { continue };
        for memory in factory.info(&instruction).used_memory() {
            let Some(address) = address_of(memory, step, thread_base).filter(|_| writes(memory))
            else {
                continue;
            };
            let last =
                address.wrapping_add(memory.memory_size().size().clamp(1, 16) as u64 - 1) & !7;
            for word in [address & !7, last] {
                if words.len() < limit && !words.contains(&word) {
                    words.push(word);
                }
            }
        }
    }
    words
}

fn address_of(memory: &UsedMemory, step: &Step, thread_base: u64) -> Option<u64> {
    memory.virtual_address(0, |register, _, _| match register {
        Register::FS => Some(thread_base),
        Register::GS => None,
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        _ => step.register(register),
    })
}

fn writes(memory: &UsedMemory) -> bool {
    matches!(
        memory.access(),
        OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
    )
}

/// An instruction in a traced loop that writes nothing: the registers, and the number of earlier
/// reads.
struct Passed {
    step: Step,
    reads_before: usize,
}

/// The most registers that may change in a loop that only counts its rounds.
const COUNTERS: usize = 2;

/// Whether the traced thread only waits until another one changes memory. It executes `pause`, or
/// it runs a loop that writes nothing except what an attempt to take a lock writes. The loop comes
/// to the same registers again, or only counts while it reads the same words. `is_writable` tells
/// whether memory at one of the addresses read can change at all.
pub fn is_spinning<P: Pages>(
    text: &mut Text<P>,
    trace: &[Step],
    thread_base: u64,
    is_writable: impl Fn(&[u64]) -> bool,
) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let mut loops: HashMap<u64, Vec<Passed>> = HashMap::new();
    let mut reads: Vec<u64> = Vec::new();
    for step in trace {
        let Some(instruction) = text.instruction(step.address()) else { return false };
        if instruction.mnemonic() == Mnemonic::Pause {
            return true;
        }
        let rounds = loops.entry(step.address()).or_default();
        if rounds.iter().any(|passed| passed.step == *step)
            || looks_again(rounds, step, &reads).is_some_and(&is_writable)
        {
            return true;
        }
        rounds.push(Passed { step: *step, reads_before: reads.len() });
        let takes_lock = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
        let calls =
            matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
                || instruction.mnemonic() == Mnemonic::Push;
        let memory = factory.info(&instruction).used_memory();
        if !takes_lock && !calls && memory.iter().any(writes) {
            loops.clear();
        }
        reads.extend(memory.iter().filter_map(|memory| address_of(memory, step, thread_base)));
    }
    false
}

/// The addresses that the thread reads in each round, if its last two rounds before `now` differed
/// only in a counter.
fn looks_again<'a>(rounds: &[Passed], now: &Step, reads: &'a [u64]) -> Option<&'a [u64]> {
    let [.., first, second] = rounds else { return None };
    let (earlier, later) =
        (&reads[first.reads_before..second.reads_before], &reads[second.reads_before..]);
    let changed = |from: &Step, to: &Step| {
        from.0[..16].iter().zip(&to.0[..16]).filter(|(from, to)| from != to).count()
    };
    let counts =
        changed(&first.step, &second.step) <= COUNTERS && changed(&second.step, now) <= COUNTERS;
    (counts && !later.is_empty() && earlier == later).then_some(later)
}
