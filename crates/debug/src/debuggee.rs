//! Running a replayed process forwards: what stops it, and what its user sees of it then.
//!
//! Of its threads only the one whose turn it is runs the program's code; the others wait in the runtime. A stop is always about that thread.

use crate::error::Result;
use crate::process::{Happened, Process, in_runtime};
use crate::text::Text;
use crate::watchpoints::{Watchpoint, Watchpoints};
use retake_kernel::context::{self, Context};
use retake_kernel::ptrace::{Registers, Status};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a process in the middle of a call may take to come back to the program, when it is to be stopped.
const PATIENCE: Duration = Duration::from_millis(100);

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
}

/// How the process ends, once that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Exiting(i32),
    Dying(i32),
}

/// What long operations ask now and then: whether to give up.
pub(crate) type GiveUp<'a> = &'a mut dyn FnMut() -> bool;

/// The process, as its user sees it.
#[derive(Debug)]
pub(crate) struct Debuggee {
    pub process: Process,
    pub text: Text,
    pub breakpoints: BTreeSet<u64>,
    pub watchpoints: Watchpoints,
    /// The thread that the last stop was about; the kernel's number.
    pub current: i32,
    pub fate: Fate,
    /// The end was told once.
    pub end_told: bool,
    /// Places that stop the process for us, not for the user.
    pub private_places: BTreeSet<u64>,
    /// A thread that begins asks whether it shall pause: the program's number of the one that shall, and after how many events.
    pub pause: Option<(u32, u64)>,
    /// The thread that is in a call and pauses when it comes out of it.
    stepped: Option<i32>,
    watch_in_call: Option<Watchpoint>,
}

impl Debuggee {
    pub fn new(process: Process) -> Self {
        let current = process.pid;
        let mut this = Self {
            process,
            text: Text::default(),
            breakpoints: BTreeSet::new(),
            watchpoints: Watchpoints::default(),
            current,
            fate: Fate::Open,
            end_told: false,
            private_places: BTreeSet::new(),
            pause: None,
            stepped: None,
            watch_in_call: None,
        };
        this.text.refresh(this.process.pid);
        this
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

    /// The current thread's context.
    pub fn context(&self) -> Context {
        self.process.context(self.current).unwrap_or_default()
    }

    /// The threads that the program knows: the kernel's number, and the program's.
    pub fn threads(&self) -> Vec<(i32, u32)> {
        let known = self.process.threads().filter_map(|tid| Some((tid, self.process.context(tid)?)));
        let mut threads: Vec<(i32, u32)> = known.map(|(tid, context)| (tid, context.tid)).filter(|(_, tid)| *tid != 0).collect();
        // One that is only just beginning still shows its maker's number.
        threads.sort_by_key(|(tid, known)| (*known, *tid != self.current, *tid));
        threads.dedup_by_key(|(_, known)| *known);
        threads
    }

    /// The kernel's number of a thread of the program.
    pub fn thread(&self, known: u32) -> Option<i32> {
        self.threads().into_iter().find(|(_, tid)| *tid == known).map(|(tid, _)| tid)
    }

    /// Reads memory as the program would see it without us; returns how many bytes are there.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        if in_runtime(address) || self.text.is_stub(address) {
            return 0;
        }
        let count = self.process.read(address, bytes);
        self.text.unpatch(address, &mut bytes[..count]);
        count
    }

    // ---- running ----

    /// Goes on until something stops the process.
    pub fn resume(&mut self, give_up: GiveUp) -> Result<Stop> {
        if let Some(stop) = self.at_end() {
            return Ok(stop);
        }
        if self.must_step_off()? {
            match self.step(give_up)? {
                Stop::Step if self.has_reached_pause() => return Ok(Stop::Step),
                Stop::Step if self.breakpoints.contains(&self.program_counter()?) => return Ok(Stop::Breakpoint),
                Stop::Step => {}
                stop => return Ok(stop),
            }
        }
        self.run(give_up)
    }

    /// What there is to say instead of going on, at the end: first that it is the end, then how the process ended.
    pub fn at_end(&mut self) -> Option<Stop> {
        if self.fate == Fate::Open {
            return None;
        }
        if !self.end_told {
            self.end_told = true;
            return Some(Stop::End);
        }
        Some(match self.fate {
            Fate::Dying(signal) => Stop::Killed(signal),
            Fate::Exiting(status) => Stop::Exited(status),
            Fate::Open => return None,
        })
    }

    fn must_step_off(&self) -> Result<bool> {
        let address = self.process.registers(self.current)?.rip;
        Ok(!in_runtime(address) && self.traps().contains(&address))
    }

    /// Whether the current thread is where it was to pause.
    fn has_reached_pause(&self) -> bool {
        let context = self.context();
        self.pause.is_some_and(|(known, events)| known == context.tid && context.event_count >= events)
    }

    /// Tells the threads that are there already which of them shall pause. One that is stepped pauses anyway.
    fn pass_pause_on(&self) -> Result<()> {
        let Some((known, events)) = self.pause else { return Ok(()) };
        match self.thread(known).filter(|tid| self.stepped != Some(*tid)) {
            Some(tid) => Ok(self.process.pause_after(tid, Some(events))?),
            None => Ok(()),
        }
    }

    fn traps(&self) -> BTreeSet<u64> {
        let user = self.breakpoints.iter().flat_map(|&address| self.text.places(address));
        user.chain(self.private_places.iter().copied()).collect()
    }

    /// Lets all threads run until one of them stops the process.
    pub fn run(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.process.plant(&self.traps());
        for tid in self.process.threads().collect::<Vec<_>>() {
            self.watchpoints.arm(tid)?;
        }
        self.pass_pause_on()?;
        self.process.resume_all()?;
        loop {
            let Some(happened) = self.process.next(give_up)? else {
                self.settle()?;
                return Ok(Stop::Interrupted);
            };
            if let Some(stop) = self.interpret(happened)? {
                self.stopped()?;
                return Ok(stop);
            }
        }
    }

    fn stopped(&mut self) -> Result<()> {
        self.process.stop_all()?;
        for _ in 0..MOST_NEWS {
            if !self.process.has_news() {
                break;
            }
            // Of other threads, on their way to where they wait: nothing that users are told.
            let current = self.current;
            if let Some(happened) = self.process.next(&mut || true)? {
                self.interpret(happened)?;
            }
            self.current = current;
            self.process.stop_all()?;
        }
        for tid in self.process.threads().collect::<Vec<_>>() {
            self.process.pause_after(tid, None)?;
        }
        self.text.refresh(self.process.pid);
        Ok(())
    }

    fn interpret(&mut self, happened: Happened) -> Result<Option<Stop>> {
        match happened {
            Happened::Planted { tid, .. } => {
                self.current = tid;
                Ok(Some(Stop::Breakpoint))
            }
            Happened::Paused { tid } => {
                self.current = tid;
                self.process.leave_runtime(tid)?;
                Ok(Some(self.watch_in_call.take().map_or(Stop::Step, Stop::Watch)))
            }
            Happened::Announced { tid, kind, value } => self.announced(tid, kind, value),
            Happened::Stepped { tid, watch } | Happened::Watched { tid, watch } => self.watched(tid, watch),
            Happened::Emulates { tid, .. } => {
                self.process.resume(tid)?;
                Ok(None)
            }
            Happened::Ended => Ok(None),
            Happened::Gone(status) => Ok(Some(match status {
                Status::Killed(signal) => Stop::Killed(signal),
                Status::Exited(status) => Stop::Exited(status),
                _ => Stop::End,
            })),
        }
    }

    fn announced(&mut self, tid: i32, kind: u64, value: u64) -> Result<Option<Stop>> {
        match kind {
            context::EVENT_SIGNAL => {
                self.current = tid;
                return Ok(Some(Stop::Signal(value as i32)));
            }
            context::EVENT_DEATH => {
                self.current = tid;
                self.fate = Fate::Dying(value as i32);
                self.end_told = false;
                return Ok(Some(Stop::Signal(value as i32)));
            }
            context::EVENT_EXIT => {
                self.current = tid;
                self.fate = Fate::Exiting(value as i32);
                self.end_told = true;
                return Ok(Some(Stop::End));
            }
            context::EVENT_THREAD_START => {
                let context = self.process.context(tid).unwrap_or_default();
                if let Some((_, events)) = self.pause.filter(|(known, _)| *known == context.tid) {
                    self.process.pause_after(tid, Some(events))?;
                }
                self.watchpoints.arm(tid)?;
            }
            context::EVENT_THREAD_EXIT => {
                self.process.let_exit(tid)?;
                return Ok(None);
            }
            _ => {}
        }
        self.process.resume(tid)?;
        Ok(None)
    }

    fn watched(&mut self, tid: i32, watch: u64) -> Result<Option<Stop>> {
        let Some(watchpoint) = self.watchpoints.hit(watch) else {
            self.process.resume(tid)?;
            return Ok(None);
        };
        if in_runtime(self.process.registers(tid)?.rip) {
            // The recorded kernel wrote it, so to say: the program sees it when the call returns.
            self.watch_in_call = Some(watchpoint);
            self.process.pause_after(tid, Some(0))?;
            self.process.resume(tid)?;
            return Ok(None);
        }
        self.current = tid;
        Ok(Some(Stop::Watch(watchpoint)))
    }

    /// Brings the process to a place that its user can be shown, after it was stopped anywhere.
    fn settle(&mut self) -> Result<()> {
        self.stopped()?;
        let all: Vec<i32> = self.process.threads().collect();
        let mut in_program = None;
        for &tid in &all {
            if !in_runtime(self.process.registers(tid)?.rip) {
                in_program = Some(tid);
            }
        }
        if let Some(tid) = in_program {
            self.current = tid;
            return self.leave_stub();
        }
        for tid in all {
            self.process.pause_after(tid, Some(0))?;
        }
        self.process.resume_all()?;
        let since = Instant::now();
        while let Some(happened) = self.process.next(&mut || since.elapsed() > PATIENCE)? {
            if self.interpret(happened)?.is_some() {
                break;
            }
        }
        self.stopped()
    }

    fn leave_stub(&mut self) -> Result<()> {
        while self.text.is_stub(self.process.registers(self.current)?.rip) {
            if self.step(&mut || false)? != Stop::Step {
                break;
            }
        }
        Ok(())
    }

    // ---- stepping ----

    /// Executes one instruction of the current thread; a system call counts as one.
    pub fn step(&mut self, give_up: GiveUp) -> Result<Stop> {
        if let Some(stop) = self.at_end() {
            return Ok(stop);
        }
        let tid = self.current;
        let before = self.program_counter()?;
        if in_runtime(self.process.registers(tid)?.rip) {
            return self.finish_call(tid, give_up);
        }
        self.watchpoints.arm(tid)?;
        loop {
            let real = self.process.registers(tid)?.rip;
            let pushes = self.pushes_flags(real);
            self.process.step(tid)?;
            match self.process.next(&mut || false)? {
                Some(Happened::Stepped { tid: stepped, watch }) if stepped == tid => {
                    self.clear_pushed_flag(pushes)?;
                    let now = self.process.registers(tid)?.rip;
                    if let Some(watchpoint) = self.watchpoints.hit(watch) {
                        return Ok(Stop::Watch(watchpoint));
                    }
                    if in_runtime(now) {
                        return self.finish_call(tid, give_up);
                    }
                    if !(self.text.is_stub(now) && self.text.shown(now) == before) {
                        return Ok(Stop::Step);
                    }
                }
                Some(Happened::Emulates { signal, .. }) => return self.emulated(tid, signal, real, give_up),
                Some(happened) => {
                    if let Some(stop) = self.interpret(happened)? {
                        self.stopped()?;
                        return Ok(stop);
                    }
                }
                None => return Ok(Stop::Interrupted),
            }
        }
    }

    /// The thread is in the runtime: until it is back in the program.
    fn finish_call(&mut self, tid: i32, give_up: GiveUp) -> Result<Stop> {
        self.process.pause_after(tid, Some(0))?;
        self.stepped = Some(tid);
        let stop = self.run(give_up);
        self.stepped = None;
        stop
    }

    /// The stepped instruction made the kernel send a signal that the runtime is for.
    fn emulated(&mut self, tid: i32, signal: i32, address: u64, give_up: GiveUp) -> Result<Stop> {
        let length = if signal == libc::SIGSEGV { self.trapped_instruction(address) } else { 0 };
        if length == 0 {
            return self.finish_call(tid, give_up);
        }
        // The runtime does what the instruction would, and goes back from its signal handler.
        let place = address + length;
        let is_new = self.private_places.insert(place);
        let stop = self.run(give_up);
        if is_new {
            self.private_places.remove(&place);
        }
        match stop? {
            Stop::Breakpoint if self.current == tid && self.process.registers(tid)?.rip == place => Ok(Stop::Step),
            stop => Ok(stop),
        }
    }

    /// Bytes of an instruction that faults so that the runtime can answer it; 0 for all others.
    fn trapped_instruction(&self, address: u64) -> u64 {
        let mut code = [0; 3];
        self.process.read(address, &mut code);
        match code {
            [0x0f, 0x31 | 0xa2, _] | [0xcd, 0xa2, _] => 2,
            [0x0f, 0x01, 0xf9] => 3,
            _ => 0,
        }
    }

    /// Bytes of flags that the instruction pushes: with a flag in them that stepping sets.
    fn pushes_flags(&self, address: u64) -> usize {
        let mut code = [0; 2];
        self.process.read(address, &mut code);
        match code {
            [0x9c, _] | [0x40..=0x4f, 0x9c] => 8,
            [0x66, 0x9c] => 2,
            _ => 0,
        }
    }

    fn clear_pushed_flag(&self, bytes: usize) -> Result<()> {
        const TRAP_FLAG_BYTE: u64 = 1;
        if bytes == 0 {
            return Ok(());
        }
        let at = self.process.registers(self.current)?.rsp + TRAP_FLAG_BYTE;
        let mut byte = [0];
        self.process.read(at, &mut byte);
        Ok(self.process.write(at, &[byte[0] & !1])?)
    }
}
