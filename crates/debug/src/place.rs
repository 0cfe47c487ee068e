//! Execution points: naming where the process is, so that the same place is known again when it is come to by another way.

use crate::checkpoint::Snapshot;
use crate::debuggee::Debuggee;
use crate::error::Result;
use crate::process::in_runtime;
use retake_kernel::context::{self, Context, words_of};
use retake_kernel::{maps, memory};
use std::cell::RefCell;
use std::rc::Rc;

/// Compared at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Its place among the words of a context.
const STACK_POINTER: usize = 15;
/// How many words that were found to differ are looked at first.
const REMEMBERED: usize = 16;

/// A place in the order of all that the process did, up to what lies between two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Which of the process's threads' turns it is; 0 before there are several.
    pub turn: u64,
    /// Events that the thread whose turn it is has consumed.
    pub events: u64,
}

/// An execution point.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub mark: Mark,
    /// The thread, by the program's number.
    pub thread: u32,
    /// Its registers: where it is in the program, or where it called the runtime from.
    words: [u64; 18],
    /// It is in the runtime, where that announces something.
    pub in_runtime: bool,
    /// A copy of the process there, to compare memory with, and to go back to.
    pub snapshot: Option<Rc<Snapshot>>,
    /// Addresses of words that differed elsewhere.
    differing: RefCell<Vec<u64>>,
}

impl Place {
    /// Where the process is.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn here(debuggee: &Debuggee, snapshot: Option<Rc<Snapshot>>) -> Result<Self> {
        let context = debuggee.context();
        let (words, in_runtime) = state(debuggee, &context)?;
        let mark = Mark { turn: context.turn, events: context.event_count };
        Ok(Self { mark, thread: context.tid, words, in_runtime, snapshot, differing: RefCell::default() })
    }

    /// The program counter there, as it is, be it in a stub.
    pub fn address(&self) -> u64 {
        const PROGRAM_COUNTER: usize = 16;
        self.words[PROGRAM_COUNTER]
    }

    /// Whether the process is there.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn is_here(&self, debuggee: &Debuggee) -> Result<bool> {
        let context = debuggee.context();
        if context.event_count != self.mark.events || context.tid != self.thread {
            return Ok(false);
        }
        let (words, in_runtime) = state(debuggee, &context)?;
        if words != self.words || in_runtime != self.in_runtime {
            return Ok(false);
        }
        Ok(in_runtime || self.has_same_memory(debuggee))
    }

    /// Of all threads.
    fn stack_pointers(&self, debuggee: &Debuggee) -> Vec<u64> {
        let others = debuggee.process.threads().filter(|tid| *tid != debuggee.current);
        let others = others.filter_map(|tid| debuggee.process.context(tid)).map(|context| context.registers[STACK_POINTER]);
        others.chain([self.words[STACK_POINTER]]).collect()
    }

    /// Two visits of a place with the same registers are told apart by memory.
    fn has_same_memory(&self, debuggee: &Debuggee) -> bool {
        let Some(snapshot) = &self.snapshot else { return true };
        let (mine, other) = (debuggee.process.pid, snapshot.pid);
        let word = |pid: i32, address: u64| {
            let mut bytes = [0; 8];
            memory::read(pid, address, &mut bytes).ok().map(|()| bytes)
        };
        if self.differing.borrow().iter().any(|&address| word(mine, address) != word(other, address)) {
            return false;
        }
        let Some(address) = first_difference(mine, other, &self.stack_pointers(debuggee)) else { return true };
        let mut differing = self.differing.borrow_mut();
        if differing.len() < REMEMBERED {
            differing.push(address);
        }
        false
    }
}

/// The current thread's registers, and whether it is in the runtime to announce something.
fn state(debuggee: &Debuggee, context: &Context) -> Result<([u64; 18], bool)> {
    let real = debuggee.process.registers(debuggee.current)?;
    let in_runtime = in_runtime(real.rip) && real.rip != context::ENTRY_CALL;
    let mut words = if in_runtime { context.registers } else { words_of(&real) };
    words[17] &= !RESUME_AND_TRAP;
    Ok((words, in_runtime))
}

/// Flags that depend on how the thread was stopped.
const RESUME_AND_TRAP: u64 = 0x10100;

/// How far below a stack pointer there may be what the processor left there, which depends on more than the program.
const DEAD_BYTES: u64 = 16 << 10;
const RED_ZONE: u64 = 128;

/// The first word of writable private memory in which two processes differ, except just below the stacks: what lies there nobody reads any more.
fn first_difference(one: i32, other: i32, stack_pointers: &[u64]) -> Option<u64> {
    let is_dead = |address: u64| stack_pointers.iter().any(|top| (top.saturating_sub(DEAD_BYTES)..top.saturating_sub(RED_ZONE)).contains(&address));
    let mappings = maps::of_process(one).ok()?;
    for mapping in mappings.iter().filter(|m| m.writable && m.readable && !m.shared && !in_runtime(m.start)) {
        for address in (mapping.start..mapping.end).step_by(PIECE_BYTES) {
            let count = PIECE_BYTES.min((mapping.end - address) as usize);
            let (left, right) = (memory::read_vec(one, address, count), memory::read_vec(other, address, count));
            let (Ok(left), Ok(right)) = (left, right) else { return Some(address) };
            if left == right {
                continue;
            }
            let words = left.chunks(8).zip(right.chunks(8)).enumerate();
            let mut differing = words.filter(|(_, (left, right))| left != right).map(|(index, _)| address + 8 * index as u64);
            if let Some(found) = differing.find(|address| !is_dead(*address)) {
                return Some(found);
            }
        }
    }
    None
}
