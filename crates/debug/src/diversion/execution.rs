//! Runs a thread of a diversion.

use super::calls::{self, Answer};
use super::{CpuidAnswer, Diversion};
use crate::error::Result;
use crate::inferior::{GiveUp, Inferior, Stop};
use retake_kernel::context::{self, ENTRY_CALL};
use retake_kernel::ptrace::{self, Registers};
use retake_patch::Entry;
use retake_snapshot::Happened;
use std::collections::BTreeSet;

/// The addresses where stubs enter the runtime for the time-stamp counter, for the processor's
/// description, and at a passage.
const ENTRY_TSC: u64 = Entry::Rdtsc.address();
const ENTRY_TSCP: u64 = Entry::Rdtscp.address();
const ENTRY_CPUID: u64 = Entry::Cpuid.address();
const ENTRY_PASSAGE: u64 = Entry::Passage.address();
const ENTRY_BINDING: u64 = Entry::Binding.address();
const ENTRIES: [u64; 6] =
    [ENTRY_CALL, ENTRY_TSC, ENTRY_TSCP, ENTRY_CPUID, ENTRY_PASSAGE, ENTRY_BINDING];

/// What an instruction asks that only the runtime may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Counter,
    CounterAndProcessor,
    Processor,
}

impl Diversion {
    /// Runs until something stops the thread.
    pub(super) fn resume(
        &mut self,
        thread: u32,
        inferior: &mut Inferior,
        give_up: GiveUp,
    ) -> Result<Stop> {
        let breakpoints: BTreeSet<u64> = inferior
            .stops
            .breakpoints
            .iter()
            .flat_map(|&address| inferior.text.places(address))
            .collect();
        let is_at_one =
            self.body(thread).is_some_and(|body| breakpoints.contains(&body.registers.rip));
        if is_at_one {
            match self.step(thread, inferior, give_up)? {
                Stop::Step if !self.is_at_breakpoint(thread, inferior) => {}
                Stop::Step => return Ok(Stop::Breakpoint),
                stop => return Ok(stop),
            }
        }
        self.enter(thread, inferior)?;
        let pid = self.process.pid;
        loop {
            self.process.memory.plant(&breakpoints.iter().copied().chain(ENTRIES).collect());
            self.process.resume(pid)?;
            let mut happened = self.process.next(give_up)?;
            if happened.is_none() {
                // If something else stopped the process just then, report that.
                self.process.stop_all()?;
                if self.process.has_news() {
                    happened = self.process.next(&mut || true)?;
                }
            }
            let stop = match happened {
                Some(happened) => self.interpret(happened, inferior)?,
                None => Some(Stop::Interrupted),
            };
            if let Some(stop) = stop {
                return self.leave(thread, stop, inferior);
            }
        }
    }

    /// Executes one instruction; a system call counts as one.
    pub(super) fn step(
        &mut self,
        thread: u32,
        inferior: &mut Inferior,
        give_up: GiveUp,
    ) -> Result<Stop> {
        self.enter(thread, inferior)?;
        self.process.memory.plant(&BTreeSet::new());
        let pid = self.process.pid;
        let before = inferior.text.shown(self.process.registers(pid)?.rip);
        loop {
            self.process.step(pid)?;
            let Some(happened) = self.process.next(give_up)? else {
                return self.leave(thread, Stop::Interrupted, inferior);
            };
            if let Some(stop) = self.interpret(happened, inferior)? {
                return self.leave(thread, stop, inferior);
            }
            let now = self.process.registers(pid)?.rip;
            let is_on_its_way = inferior.text.is_stub(now) && inferior.text.shown(now) == before;
            if !is_on_its_way {
                return self.leave(thread, Stop::Step, inferior);
            }
        }
    }

    fn is_at_breakpoint(&self, thread: u32, inferior: &Inferior) -> bool {
        self.body(thread)
            .is_some_and(|body| inferior.stops.breakpoints.contains(&body.registers.rip))
    }

    fn enter(&mut self, thread: u32, inferior: &Inferior) -> Result<()> {
        let pid = self.process.pid;
        inferior.stops.watchpoints.arm(pid, &[])?;
        let Some(body) = self.body(thread) else { return Ok(()) };
        ptrace::set_extended_state(pid, &body.extended)?;
        Ok(ptrace::set_registers(pid, &body.registers)?)
    }

    fn leave(&mut self, thread: u32, stop: Stop, inferior: &Inferior) -> Result<Stop> {
        if matches!(stop, Stop::Exited(_) | Stop::Killed(_)) {
            self.is_stuck = true;
            return Ok(Stop::Interrupted);
        }
        let pid = self.process.pid;
        let real = self.process.registers(pid)?;
        let registers =
            Registers { rip: inferior.text.shown(real.rip), orig_rax: u64::MAX, ..real };
        self.set_registers(thread, registers, ptrace::extended_state(pid)?);
        Ok(stop)
    }

    /// Returns the stop that the user is told of, or `None`.
    fn interpret(&mut self, happened: Happened, inferior: &Inferior) -> Result<Option<Stop>> {
        let pid = self.process.pid;
        match happened {
            Happened::Planted { address, .. } if ENTRIES.contains(&address) => {
                self.entered(address)
            }
            Happened::Planted { .. } => Ok(Some(Stop::Breakpoint)),
            Happened::Stepped { watch, .. } | Happened::Watched { watch, .. } => {
                if let Some(watchpoint) = inferior.stops.watchpoints.hit(watch) {
                    return Ok(Some(Stop::Watch(watchpoint)));
                }
                let at = self.process.registers(pid)?.rip;
                if ENTRIES.contains(&at) { self.entered(at) } else { Ok(None) }
            }
            Happened::Faulted { signal, .. } => self.faulted(signal),
            Happened::Gone(_) | Happened::Ended => Ok(Some(Stop::Exited(0))),
            _ => Ok(None),
        }
    }

    /// Handles a thread that came to the runtime through a stub. The stubs of some entries save the
    /// program's `%rcx`.
    fn entered(&mut self, entry: u64) -> Result<Option<Stop>> {
        let pid = self.process.pid;
        let registers = self.process.registers(pid)?;
        let rcx = self.process.memory.word(registers.gs_base + context::SCRATCH).unwrap_or(0);
        let back = Registers { rip: registers.rcx, rcx, orig_rax: u64::MAX, ..registers };
        let question = match entry {
            ENTRY_CALL => return self.call(&registers, registers.rcx),
            ENTRY_PASSAGE => return self.pass(&back).map(|()| None),
            ENTRY_BINDING => {
                ptrace::set_registers(pid, &back)?;
                return Ok(None);
            }
            ENTRY_TSC => Question::Counter,
            ENTRY_TSCP => Question::CounterAndProcessor,
            _ => Question::Processor,
        };
        self.answer(question, &back).map(|()| None)
    }

    /// Leaves a passage: no thread waits for the baton here, or ever will.
    fn pass(&mut self, back: &Registers) -> Result<()> {
        for count in [context::PASSAGES, context::ROUNDS] {
            self.process.memory.write(back.gs_base + count, &[0; 8])?;
        }
        Ok(ptrace::set_registers(self.process.pid, back)?)
    }

    fn faulted(&mut self, signal: i32) -> Result<Option<Stop>> {
        let registers = self.process.registers(self.process.pid)?;
        if signal == libc::SIGSYS {
            return self.call(&registers, registers.rip);
        }
        let mut code = [0; 3];
        self.process.memory.read(registers.rip, &mut code);
        // This is what the patcher left of a system call.
        if signal == libc::SIGSEGV && matches!(code, [0xcd, 0x05, _]) {
            return self.call(&registers, registers.rip + 2);
        }
        let (question, length) = match code {
            _ if signal != libc::SIGSEGV => (None, 0),
            [0x0f, 0x31, _] => (Some(Question::Counter), 2),
            [0x0f, 0x01, 0xf9] => (Some(Question::CounterAndProcessor), 3),
            [0x0f, 0xa2, _] | [0xcd, 0xa2, _] => (Some(Question::Processor), 2),
            _ => (None, 0),
        };
        match question {
            Some(question) => self
                .answer(question, &Registers { rip: registers.rip + length, ..registers })
                .map(|()| None),
            None => Ok(Some(Stop::Signal(signal))),
        }
    }

    fn call(&mut self, registers: &Registers, after: u64) -> Result<Option<Stop>> {
        let r = registers;
        let arguments = [r.rdi, r.rsi, r.rdx, r.r10, r.r8];
        let answer = calls::answer(self, r.rax, arguments)?;
        let result = match answer {
            Answer::Result(result) => result,
            Answer::Stop(stop) => {
                self.is_stuck = true;
                return Ok(Some(stop));
            }
        };
        let back = Registers {
            rax: result as u64,
            rip: after,
            rcx: after,
            r11: r.eflags,
            orig_rax: u64::MAX,
            ..*r
        };
        ptrace::set_registers(self.process.pid, &back)?;
        Ok(None)
    }

    /// Answers a question. `back` has the registers after the instruction, except for its results.
    fn answer(&mut self, question: Question, back: &Registers) -> Result<()> {
        let counter = retake_kernel::clock::monotonic_ns();
        let mut answered = Registers { orig_rax: u64::MAX, ..*back };
        match question {
            Question::Processor => {
                let asked = (back.rax as u32, back.rcx as u32);
                let matching = |one: &&CpuidAnswer| one.question == asked;
                let same_leaf = |one: &&CpuidAnswer| one.question.0 == asked.0;
                let found =
                    self.cpuid.iter().find(matching).or_else(|| self.cpuid.iter().find(same_leaf));
                let [rax, rbx, rcx, rdx] =
                    found.map_or([0; 4], |answer| answer.registers).map(u64::from);
                answered = Registers { rax, rbx, rcx, rdx, ..answered };
            }
            Question::Counter | Question::CounterAndProcessor => {
                (answered.rax, answered.rdx) = (counter & 0xffff_ffff, counter >> 32);
                if question == Question::CounterAndProcessor {
                    answered.rcx = 0;
                }
            }
        }
        Ok(ptrace::set_registers(self.process.pid, &answered)?)
    }
}
