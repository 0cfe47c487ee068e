//! Running a replayed process forwards: what stops it, and what its user then sees of it.
//!
//! Only the thread with the turn runs the program's code. The others wait in the runtime. A stop is
//! always about the thread with the turn.

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

/// How long a process in the middle of a call may take to return to the program when it is to be
/// stopped.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long a new thread may take to begin, even on a busy machine.
const LONGEST_BIRTH: Duration = Duration::from_secs(1);

/// The most reports of a thread that has just begun, or is about to wait, before it waits.
const MOST_NEWS: usize = 1000;

/// Why the process stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Before the instruction at a breakpoint.
    Breakpoint,
    /// After an access to watched memory.
    Watch(Watchpoint),
    /// After one instruction, or where the thread was to pause.
    Step,
    /// Before a signal is delivered.
    Signal(i32),
    /// At a system call or a new child that was to be caught.
    Caught(Caught),
    /// At the user's request.
    Interrupted,
    /// At the beginning of this process's recording.
    Begin,
    /// At the end of it: the process is about to exit or to die.
    End,
    /// The process exited with this status.
    Exited(i32),
    /// This signal killed the process.
    Killed(i32),
    /// The process is about to execute another program.
    Executing,
}

impl Stop {
    /// The stop itself, if the runtime announced it and the process goes on from the announcement.
    pub fn if_announced(self) -> Option<Self> {
        matches!(self, Self::Signal(_) | Self::Caught(_)).then_some(self)
    }
}

pub(crate) use retake_snapshot::image::Fate;

/// Tells long operations whether to give up. They call it periodically.
pub(crate) type GiveUp<'a> = &'a mut dyn FnMut() -> bool;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    pub fate: Fate,
    /// Whether the end has been reported.
    pub is_told: bool,
}

impl Ending {
    /// Returns what to report at the end instead of going on: first that it is the end, then how
    /// the process ended.
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

    /// The stop at the announcement of the process's end, if the process is there. An interruption
    /// may find it there.
    pub fn stop_at_fate(&self) -> Option<Stop> {
        Some(match self.fate {
            Fate::Open => return None,
            Fate::Exiting(_) => Stop::End,
            Fate::Dying(signal) => Stop::Signal(signal),
            Fate::Executing => Stop::Executing,
        })
    }
}

/// The process as its user sees it.
#[derive(Debug)]
pub(crate) struct Inferior {
    pub process: Process,
    pub text: Text,
    pub stops: Stops,
    /// Signals at which users do not want to stop.
    pub passed: Signals,
    /// Signals that were delivered since this was last read.
    pub delivered: Signals,
    /// An announcement at which the process stops even if no user wants that.
    pub told: Option<Told>,
    /// The thread of the last stop, by the kernel's ID.
    pub current: i32,
    pub ending: Ending,
    /// The thread that is to pause, by the program's ID, and the number of events after which it
    /// does. Threads read it when they begin.
    pub pause: Option<(u32, u64)>,
    /// The thread that is in a call and pauses when it leaves it.
    stepped: Option<i32>,
    /// Whether an instruction is being stepped. Then every signal matters.
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

    /// A copy of the process for the same user.
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

    /// Whether users want to stop for this.
    pub fn wants(&self, stop: Stop) -> bool {
        match stop {
            Stop::Signal(number) => self.ending.fate != Fate::Open || !self.passed.has(number),
            Stop::Caught(caught) => self.stops.catches.wants(caught),
            _ => true,
        }
    }

    // ---- the state ----

    /// The registers of a thread as the program sees them.
    pub fn registers(&self, tid: i32) -> Result<Registers> {
        let real = self.process.registers(tid)?;
        if !in_runtime(real.rip) {
            return Ok(Registers { rip: self.text.shown(real.rip), ..real });
        }
        if real.rip == context::ENTRY_CALL {
            return Ok(Registers { rip: real.rcx.wrapping_sub(2), ..real });
        }
        let context = self.process.context(tid);
        let seen = context.map_or(real, |context| context.program_registers(&real));
        // A thread that waits or has ended at an operation came from a stub.
        Ok(Registers { rip: self.text.shown(seen.rip), ..seen })
    }

    /// The current thread's program counter as the user sees it.
    pub fn program_counter(&self) -> Result<u64> {
        Ok(self.registers(self.current)?.rip)
    }

    /// Whether the current thread executes code that the program can write to.
    pub fn is_in_writable_code(&self) -> Result<bool> {
        let address = self.process.registers(self.current)?.rip;
        Ok(self.text.mapping(address).is_some_and(|mapping| mapping.writable))
    }

    /// The current thread's context.
    pub fn context(&self) -> Context {
        self.process.context(self.current).unwrap_or_default()
    }

    /// The threads that the program knows, by the kernel's ID and the program's.
    pub fn threads(&self) -> Vec<(i32, u32)> {
        let known =
            self.process.threads().filter_map(|tid| Some((tid, self.process.context(tid)?)));
        let mut threads: Vec<(i32, u32)> =
            known.map(|(tid, context)| (tid, context.tid)).filter(|(_, tid)| *tid != 0).collect();
        // A thread that is only beginning still has its creator's ID.
        threads.sort_by_key(|(tid, known)| (*known, *tid != self.current, *tid));
        threads.dedup_by_key(|(_, known)| *known);
        threads
    }

    /// The ID of each thread that the program knows, and the number of events that it has consumed.
    pub fn counts(&self) -> Vec<(u32, u64)> {
        let known = self.threads().into_iter();
        known
            .filter_map(|(tid, known)| Some((known, self.process.context(tid)?.event_count)))
            .collect()
    }

    /// The kernel's ID of a thread of the program.
    pub fn thread(&self, known: u32) -> Option<i32> {
        self.threads().into_iter().find(|(_, tid)| *tid == known).map(|(tid, _)| tid)
    }

    /// Whether a breakpoint of the user applies here, including its condition. A condition that
    /// cannot be evaluated here is left to the debugger.
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

    /// Reads memory as the program would see it without us. Returns how many bytes could be read.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.text.read(&self.process, address, bytes)
    }
}

/// The signal that the current thread is about to get, if it stands at the announcement of one.
pub(crate) fn signal_here(inferior: &Inferior) -> Result<Option<i32>> {
    let real = inferior.process.registers(inferior.current)?;
    let is_announced = real.rip == context::DEBUG_EVENT + 1
        && matches!(real.rdi, context::DEBUG_SIGNAL | context::DEBUG_DEATH);
    Ok(is_announced.then_some(real.rsi as i32))
}
