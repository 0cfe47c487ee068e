//! Execution points: naming where the process is, so that the same place can be recognised when the
//! process reaches it in another way.

use crate::catches::Told;
use crate::error::Result;
use crate::inferior::Inferior;
use retake_kernel::context::{self, Context, words_of};
use retake_kernel::{memory, ptrace};
use retake_snapshot::Snapshot;
use retake_snapshot::first_difference;
use retake_snapshot::in_runtime;
use retake_snapshot::probe::Test;
use std::cell::RefCell;
use std::rc::Rc;

/// Offsets in an XSAVE area.
const FLOATING_OFFSET: usize = 32;
const VECTOR_OFFSET: usize = 160;
const LEGACY_END: usize = 416;
const EXTENSIONS_OFFSET: usize = 576;
const VECTORS: usize = 16;
/// The most tests of a probe. More would cost more than they save.
const MOST_TESTS: usize = 10;
const COMPARED_REGISTERS: usize = 16;
const PROGRAM_COUNTER: usize = retake_contract::context::registers::RIP / 8;
/// The stack pointer's index among the words of a context.
pub(crate) const STACK_POINTER: usize = retake_contract::context::registers::RSP / 8;
const FLAGS: usize = retake_contract::context::registers::EFLAGS / 8;
/// The number of words that differed before and are compared first.
const REMEMBERED: usize = 16;

/// A place in the order of everything that the process did, except for the order between two
/// events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// The number of the turn; 0 before the process has several threads.
    pub turn: u64,
    /// The number of events that the thread with this turn has consumed.
    pub events: u64,
}

/// An execution point.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub mark: Mark,
    /// The program's ID of the thread.
    pub thread: u32,
    /// The thread's registers in the program, or where it called the runtime.
    words: [u64; 18],
    /// The kind of announcement, if the thread is in the runtime and announces something.
    pub announces: Option<u64>,
    /// A copy of the process at this place, to compare memory with and to go back to.
    pub snapshot: Option<Rc<Snapshot>>,
    /// Addresses of words that differed on other visits.
    differing: RefCell<Vec<u64>>,
    /// What told other visits from this place, the most useful first.
    tests: RefCell<Vec<Test>>,
}

impl Place {
    /// The place where the process is.
    ///
    /// # Errors
    /// The process cannot be examined.
    pub fn here(inferior: &Inferior, snapshot: Option<Rc<Snapshot>>) -> Result<Self> {
        let context = inferior.context();
        let (words, announces) = state(inferior, &context)?;
        let mark = Mark { turn: context.turn, events: context.event_count };
        Ok(Self {
            mark,
            thread: context.tid,
            words,
            announces,
            snapshot,
            differing: RefCell::default(),
            tests: RefCell::default(),
        })
    }

    /// The actual program counter, which may be in a stub.
    pub fn address(&self) -> u64 {
        self.words[PROGRAM_COUNTER]
    }

    /// The stack pointer at this place.
    pub fn stack(&self) -> u64 {
        self.words[STACK_POINTER]
    }

    /// A general register at this place, by its index among the words of a context.
    pub fn register(&self, index: usize) -> u64 {
        self.words[index]
    }

    /// The flags at this place.
    pub fn flags(&self) -> u64 {
        self.words[FLAGS]
    }

    /// Whether the process is at this place.
    ///
    /// # Errors
    /// The process cannot be examined.
    pub fn is_here(&self, inferior: &Inferior) -> Result<bool> {
        let context = inferior.context();
        if context.event_count != self.mark.events || context.tid != self.thread {
            return Ok(false);
        }
        let (words, announces) = state(inferior, &context)?;
        if words != self.words || announces != self.announces {
            self.learn_register(&words);
            return Ok(false);
        }
        Ok(announces.is_some()
            || (self.has_same_vectors(inferior)? && self.has_same_memory(inferior)))
    }

    /// The announcement at this place, at which a run then stops.
    pub fn told(&self) -> Option<Told> {
        self.announces.map(|kind| Told { thread: self.thread, events: self.mark.events, kind })
    }

    /// The tests with which probes find this place.
    pub fn tests(&self) -> Vec<Test> {
        self.tests.borrow().clone()
    }

    fn learn(&self, test: Test) {
        let mut tests = self.tests.borrow_mut();
        tests.retain(|known| *known != test);
        tests.insert(0, test);
        tests.truncate(MOST_TESTS);
    }

    fn learn_register(&self, words: &[u64; 18]) {
        if words[PROGRAM_COUNTER] != self.words[PROGRAM_COUNTER] {
            return;
        }
        if let Some(index) =
            (0..COMPARED_REGISTERS).find(|index| words[*index] != self.words[*index])
        {
            self.learn(Test::Register { index, value: self.words[index] });
        }
    }

    fn has_same_vectors(&self, inferior: &Inferior) -> Result<bool> {
        let Some(snapshot) = &self.snapshot else { return Ok(true) };
        let (mine, wanted) = (ptrace::extended_state(inferior.current)?, snapshot.extended());
        let is_same = |range: std::ops::Range<usize>| mine.get(range.clone()) == wanted.get(range);
        for index in 0..VECTORS {
            let start = VECTOR_OFFSET + 16 * index;
            if !is_same(start..start + 8) {
                let bytes = wanted.get(start..start + 8).and_then(|bytes| bytes.try_into().ok());
                self.learn(Test::Vector { index, value: bytes.map_or(0, u64::from_le_bytes) });
                return Ok(false);
            }
        }
        // Compare all of them, and the x87 registers, but not where the x87 unit last was.
        Ok(is_same(FLOATING_OFFSET..LEGACY_END)
            && mine.get(EXTENSIONS_OFFSET..) == wanted.get(EXTENSIONS_OFFSET..))
    }

    /// The stack pointers of all threads.
    fn stack_pointers(&self, inferior: &Inferior) -> Vec<u64> {
        let others = inferior.process.threads().filter(|tid| *tid != inferior.current);
        let others = others
            .filter_map(|tid| inferior.process.context(tid))
            .map(|context| context.registers[STACK_POINTER]);
        others.chain([self.words[STACK_POINTER]]).collect()
    }

    /// Whether the memory is that of this place. It tells visits with the same registers apart.
    fn has_same_memory(&self, inferior: &Inferior) -> bool {
        let Some(snapshot) = &self.snapshot else { return true };
        let wanted = |address: u64| {
            let mut bytes = [0; 8];
            memory::peek(snapshot.pid, address, &mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
        };
        let known = self
            .differing
            .borrow()
            .iter()
            .copied()
            .find(|&address| inferior.process.memory.word(address) != wanted(address));
        if let Some((address, value)) = known.and_then(|address| Some((address, wanted(address)?)))
        {
            self.learn(Test::Word { address, value });
            return false;
        }
        let Some(address) = first_difference(
            &inferior.process,
            snapshot.pid,
            &dead_ranges(&self.stack_pointers(inferior)),
        ) else {
            return true;
        };
        if let Some(value) = wanted(address) {
            self.learn(Test::Word { address, value });
        }
        let mut differing = self.differing.borrow_mut();
        if differing.len() < REMEMBERED {
            differing.push(address);
        }
        false
    }
}

/// Returns the current thread's registers, and what it announces if it is in the runtime.
fn state(inferior: &Inferior, context: &Context) -> Result<([u64; 18], Option<u64>)> {
    let real = inferior.process.registers(inferior.current)?;
    let in_runtime = in_runtime(real.rip) && real.rip != context::ENTRY_CALL;
    let mut words = if in_runtime { context.registers } else { words_of(&real) };
    words[FLAGS] &= !RESUME_AND_TRAP;
    Ok((words, in_runtime.then_some(real.rdi)))
}

/// The flags that depend on how the thread was stopped.
const RESUME_AND_TRAP: u64 = 0x10100;

/// How far below a stack pointer the processor may have left data that does not depend on the
/// program alone.
const DEAD_BYTES: u64 = 16 << 10;
const RED_ZONE: u64 = 128;

/// The memory below stacks with these tops that nothing reads any more.
pub(crate) fn dead_ranges(tops: &[u64]) -> Vec<std::ops::Range<u64>> {
    tops.iter().map(|top| top.saturating_sub(DEAD_BYTES)..top.saturating_sub(RED_ZONE)).collect()
}
