//! Running a replayed process forwards: what stops it, and what its user sees of it then.
//!
//! Of its threads only the one whose turn it is runs the program's code; the others wait in the
//! runtime. A stop is always about that thread.

mod mappings;
mod planting;
mod run;
mod stepping;

pub(crate) use mappings::{changed_since, watched_memory};
pub(crate) use planting::{Planting, Probing, Sought};

use crate::catches::{Caught, Signals, Told};
use crate::error::Result;
use crate::stops::Stops;
use crate::text::Text;
use crate::watchpoints::Watchpoint;
use retake_kernel::context::{self, Context};
use retake_kernel::ptrace::Registers;
use retake_snapshot::probe::{holds, numbered};
use retake_snapshot::{Process, in_runtime};
use std::time::Duration;

/// How long a process in the middle of a call may take to come back to the program, when it is to
/// be stopped.
const PATIENCE: Duration = Duration::from_millis(100);

/// A new thread has begun within this time, also where the machine has much else to do.
const LONGEST_BIRTH: Duration = Duration::from_secs(1);

/// A thread that has just begun, or is about to wait, has few things to tell before it waits.
const MOST_NEWS: usize = 1000;

/// Why the process stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Before the instruction at a breakpoint.
    Breakpoint,
    /// After an access to watched memory.
    Watch(Watchpoint),
    /// After one instruction, or where it was to pause.
    Step,
    /// Before a signal is delivered.
    Signal(i32),
    /// At a system call, or a child, that was to be caught.
    Caught(Caught),
    /// Somebody asked for it.
    Interrupted,
    /// Where the recording of this process begins.
    Begin,
    /// Where it ends: the process is about to exit or to die.
    End,
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// It is about to execute another program.
    Executing,
}

impl Stop {
    /// Itself, if it is for something that the runtime announced, and went on from.
    pub fn if_announced(self) -> Option<Self> {
        matches!(self, Self::Signal(_) | Self::Caught(_)).then_some(self)
    }
}

pub(crate) use retake_snapshot::image::Fate;

/// What long operations ask now and then: whether to give up.
pub(crate) type GiveUp<'a> = &'a mut dyn FnMut() -> bool;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    pub fate: Fate,
    /// The end was told once.
    pub is_told: bool,
}

impl Ending {
    /// What there is to say instead of going on, at the end: first that it is the end, then how the
    /// process ended.
    fn next_word(&mut self) -> Option<Stop> {
        if self.fate == Fate::Open {
            return None;
        }
        if !self.is_told {
            self.is_told = true;
            return Some(Stop::End);
        }
        Some(match self.fate {
            Fate::Dying(signal) => Stop::Killed(signal),
            Fate::Exiting(status) => Stop::Exited(status),
            Fate::Executing => Stop::Executing,
            Fate::Open => return None,
        })
    }

    /// What stops the process where its end is announced, if it is there. An interruption may find
    /// it there.
    pub fn stop_at_fate(&self) -> Option<Stop> {
        Some(match self.fate {
            Fate::Open => return None,
            Fate::Exiting(_) => Stop::End,
            Fate::Dying(signal) => Stop::Signal(signal),
            Fate::Executing => Stop::Executing,
        })
    }
}

/// The process, as its user sees it.
#[derive(Debug)]
pub(crate) struct Inferior {
    pub process: Process,
    pub text: Text,
    pub stops: Stops,
    /// Signals that users do not want to be told of,
    pub passed: Signals,
    /// and those that were delivered since somebody took note of them.
    pub delivered: Signals,
    /// What stops the process though nobody may want to be told of it.
    pub told: Option<Told>,
    /// The thread that the last stop was about; the kernel's number.
    pub current: i32,
    pub ending: Ending,
    /// A thread that begins asks whether it shall pause: the program's number of the one that
    /// shall, and after how many events.
    pub pause: Option<(u32, u64)>,
    /// The thread that is in a call and pauses when it comes out of it.
    stepped: Option<i32>,
    /// An instruction is being stepped: then every signal is of interest.
    is_stepping: bool,
    watch_in_call: Option<Watchpoint>,
    before: mappings::Before,
    pub planting: Planting,
}

impl Inferior {
    pub fn new(process: Process) -> Self {
        let mut this = Self::with_text(process, Text::default());
        this.text.refresh(this.process.pid);
        this
    }

    fn with_text(process: Process, text: Text) -> Self {
        let current = process.pid;
        Self {
            process,
            text,
            stops: Stops::default(),
            passed: Signals::default(),
            delivered: Signals::default(),
            told: None,
            current,
            ending: Ending { fate: Fate::Open, is_told: false },
            pause: None,
            stepped: None,
            is_stepping: false,
            watch_in_call: None,
            before: mappings::Before::default(),
            planting: Planting::default(),
        }
    }

    /// A copy of the process as seen by the same user.
    pub fn beside(&self, process: Process) -> Self {
        let stops = Stops {
            breakpoints: self.stops.breakpoints.clone(),
            conditions: self.stops.conditions.clone(),
            ..Stops::default()
        };
        Self {
            stops,
            passed: self.passed,
            planting: self.planting.with_same_plans(),
            ..Self::with_text(process, self.text.clone())
        }
    }

    /// Whether a stop is one that users want to be told of.
    pub fn wants(&self, stop: Stop) -> bool {
        match stop {
            Stop::Signal(number) => self.ending.fate != Fate::Open || !self.passed.has(number),
            Stop::Caught(caught) => self.stops.catches.wants(caught),
            _ => true,
        }
    }

    // ---- looking ----

    /// The registers of a thread as the program has them.
    pub fn registers(&self, tid: i32) -> Result<Registers> {
        let real = self.process.registers(tid)?;
        if !in_runtime(real.rip) {
            return Ok(Registers { rip: self.text.shown(real.rip), ..real });
        }
        if real.rip == context::ENTRY_CALL {
            return Ok(Registers { rip: real.rcx.wrapping_sub(2), ..real });
        }
        let context = self.process.context(tid);
        Ok(context.map_or(real, |context| context.program_registers(&real)))
    }

    /// The program counter of the current thread, as the user sees it.
    pub fn program_counter(&self) -> Result<u64> {
        Ok(self.registers(self.current)?.rip)
    }

    /// Whether the current thread executes what the program can write.
    pub fn is_in_writable_code(&self) -> Result<bool> {
        let address = self.process.registers(self.current)?.rip;
        Ok(self.text.mapping(address).is_some_and(|mapping| mapping.writable))
    }

    /// The current thread's context.
    pub fn context(&self) -> Context {
        self.process.context(self.current).unwrap_or_default()
    }

    /// The threads that the program knows: the kernel's number, and the program's.
    pub fn threads(&self) -> Vec<(i32, u32)> {
        let known =
            self.process.threads().filter_map(|tid| Some((tid, self.process.context(tid)?)));
        let mut threads: Vec<(i32, u32)> =
            known.map(|(tid, context)| (tid, context.tid)).filter(|(_, tid)| *tid != 0).collect();
        // One that is only just beginning still shows its maker's number.
        threads.sort_by_key(|(tid, known)| (*known, *tid != self.current, *tid));
        threads.dedup_by_key(|(_, known)| *known);
        threads
    }

    /// Of each thread that the program knows: its number, and how many events it has consumed.
    pub fn counts(&self) -> Vec<(u32, u64)> {
        let known = self.threads().into_iter();
        known
            .filter_map(|(tid, known)| Some((known, self.process.context(tid)?.event_count)))
            .collect()
    }

    /// The kernel's number of a thread of the program.
    pub fn thread(&self, known: u32) -> Option<i32> {
        self.threads().into_iter().find(|(_, tid)| *tid == known).map(|(tid, _)| tid)
    }

    /// Whether one of the user's breakpoints is for where the program stands, and as it stands
    /// there. What cannot be evaluated here is left to the debugger.
    pub fn is_at_breakpoint(&self) -> Result<bool> {
        if !run::comes_to_breakpoint(self)? {
            return Ok(false);
        }
        let values = numbered(&self.registers(self.current)?);
        let conditions = self.stops.conditions_at(values[16]);
        let may_hold = |one: &Vec<u8>| {
            holds(one, &values, |address, bytes| self.read(address, bytes) == bytes.len())
                != Some(false)
        };
        Ok(conditions.is_empty() || conditions.iter().any(may_hold))
    }

    /// Reads memory as the program would see it without us; returns how many bytes are there.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.text.read(&self.process, address, bytes)
    }
}

/// The signal that the current thread is about to get, if it stands where that is announced.
pub(crate) fn signal_here(inferior: &Inferior) -> Result<Option<i32>> {
    let real = inferior.process.registers(inferior.current)?;
    let is_announced = real.rip == context::DEBUG_EVENT + 1
        && matches!(real.rdi, context::DEBUG_SIGNAL | context::DEBUG_DEATH);
    Ok(is_announced.then_some(real.rsi as i32))
}
