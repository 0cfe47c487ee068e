//! Running a replayed process forwards: what stops it, and what its user sees of it then.
//!
//! Of its threads only the one whose turn it is runs the program's code; the others wait in the
//! runtime. A stop is always about that thread.

mod planting;
mod running;
mod stepping;

pub(crate) use planting::Sought;

use crate::catches::{Catches, Caught, Signals, Told};
use crate::error::Result;
use crate::text::Text;
use crate::watchpoints::{Watchpoint, Watchpoints};
use retake_kernel::context::{self, Context};
use retake_kernel::ptrace::Registers;
use retake_snapshot::probe::{Plan, holds};
use retake_snapshot::{Process, in_runtime};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
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

/// How the process, or its program, ends, once that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fate {
    Open,
    Exiting(i32),
    Dying(i32),
    /// Another program takes its place.
    Executing,
}

/// What long operations ask now and then: whether to give up.
pub(crate) type GiveUp<'a> = &'a mut dyn FnMut() -> bool;

/// The process, as its user sees it.
#[derive(Debug)]
pub(crate) struct Debuggee {
    pub process: Process,
    pub text: Text,
    pub breakpoints: BTreeSet<u64>,
    /// Agent expressions, of which one must hold at a breakpoint.
    pub conditions: BTreeMap<u64, Vec<Vec<u8>>>,
    pub watchpoints: Watchpoints,
    pub catches: Catches,
    /// Signals that users do not want to be told of,
    pub passed: Signals,
    /// and those that were delivered since somebody asked.
    delivered: Signals,
    /// What stops the process though nobody may want to be told of it.
    pub told: Option<Told>,
    /// The thread that the last stop was about; the kernel's number.
    pub current: i32,
    pub fate: Fate,
    /// The end was told once.
    pub end_told: bool,
    /// Places that stop the process for us, not for the user.
    pub private_places: BTreeSet<u64>,
    /// A thread that begins asks whether it shall pause: the program's number of the one that
    /// shall, and after how many events.
    pub pause: Option<(u32, u64)>,
    /// The thread that is in a call and pauses when it comes out of it.
    stepped: Option<i32>,
    /// An instruction is being stepped: whoever does that wants to know of every signal.
    is_stepping: bool,
    watch_in_call: Option<Watchpoint>,
    /// Breakpoints are counted instead of stopping: so many are left until one stops.
    pub remaining: Option<u64>,
    /// The place that is looked for.
    pub sought: Option<Sought>,
    /// The stop at the place that is looked for was of no use; whether it is a hit of a breakpoint
    /// is still to be seen.
    pub passes_place: bool,
    /// Where the stubs count.
    counter: Option<u64>,
    plans: HashMap<u64, Option<Rc<Plan>>>,
}

impl Debuggee {
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
            breakpoints: BTreeSet::new(),
            conditions: BTreeMap::new(),
            watchpoints: Watchpoints::default(),
            catches: Catches::default(),
            passed: Signals::default(),
            delivered: Signals::default(),
            told: None,
            current,
            fate: Fate::Open,
            end_told: false,
            private_places: BTreeSet::new(),
            pause: None,
            stepped: None,
            is_stepping: false,
            watch_in_call: None,
            remaining: None,
            sought: None,
            passes_place: false,
            counter: None,
            plans: HashMap::new(),
        }
    }

    /// A copy of the process as seen by the same user.
    pub fn beside(&self, process: Process) -> Self {
        Self {
            text: self.text.clone(),
            breakpoints: self.breakpoints.clone(),
            conditions: self.conditions.clone(),
            passed: self.passed,
            plans: self.plans.clone(),
            ..Self::with_text(process, Text::default())
        }
    }

    /// Whether a stop is one that users want to be told of.
    pub fn wants(&self, stop: Stop) -> bool {
        match stop {
            Stop::Signal(number) => self.fate != Fate::Open || !self.passed.has(number),
            Stop::Caught(caught) => self.catches.wants(caught),
            _ => true,
        }
    }

    /// The signals that the program got since this was asked last.
    pub fn take_signals(&mut self) -> Signals {
        std::mem::take(&mut self.delivered)
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
        let Registers {
            rax,
            rbx,
            rcx,
            rdx,
            rsi,
            rdi,
            rbp,
            rsp,
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rip,
            ..
        } = self.registers(self.current)?;
        let conditions = self.conditions.get(&rip).map_or(&[][..], Vec::as_slice);
        let values =
            [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip];
        let may_hold = |one: &Vec<u8>| {
            holds(one, &values, |address, bytes| self.read(address, bytes) == bytes.len())
                != Some(false)
        };
        Ok(self.breakpoints.contains(&rip)
            && (conditions.is_empty() || conditions.iter().any(may_hold)))
    }

    /// Reads memory as the program would see it without us; returns how many bytes are there.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.read_of(&self.process, address, bytes)
    }

    /// The same of a copy of the process.
    pub fn read_of(&self, process: &Process, address: u64, bytes: &mut [u8]) -> usize {
        if in_runtime(address)
            || self.text.is_stub(address)
            || process.memory.is_probe_page(address)
        {
            return 0;
        }
        let count = process.memory.read(address, bytes);
        self.text.unpatch(address, &mut bytes[..count]);
        count
    }
}
