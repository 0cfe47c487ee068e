//! Runs the process until something stops it.

use super::mappings::{heed_call, mapping_calls};
use super::stepping::step_off;
use super::{Fate, GiveUp, Inferior, LONGEST_BIRTH, MOST_NEWS, PATIENCE, Stop};
use crate::catches::{self, Told};
use crate::error::Result;
use retake_kernel::context;
use retake_kernel::ptrace::{self, Registers, Status};
use retake_snapshot::{Happened, NAPS, in_runtime, search};
use std::time::Instant;

impl Inferior {
    /// Goes on until something stops the process. A breakpoint whose condition does not hold does
    /// not stop it.
    pub fn resume(&mut self, give_up: GiveUp) -> Result<Stop> {
        loop {
            let stop = self.resume_to_stop(give_up)?;
            if stop != Stop::Breakpoint || !is_unmet(self)? {
                return Ok(stop);
            }
            if give_up() {
                return Ok(Stop::Interrupted);
            }
        }
    }

    fn resume_to_stop(&mut self, give_up: GiveUp) -> Result<Stop> {
        if let Some(stop) = self.ending.next_word() {
            return Ok(stop);
        }
        let (planting, mut ground) = self.ground();
        if planting.must_step_off(&mut ground)? {
            match step_off(self, give_up)? {
                Stop::Step if self.has_reached_pause() => return Ok(Stop::Step),
                Stop::Step if comes_to_breakpoint(self)? => {
                    return Ok(Stop::Breakpoint);
                }
                Stop::Step => {}
                stop => return Ok(stop),
            }
        }
        self.run(give_up)
    }

    /// Whether the current thread is where it was to pause.
    fn has_reached_pause(&self) -> bool {
        let context = self.context();
        self.pause
            .is_some_and(|(known, events)| known == context.tid && context.event_count >= events)
    }

    /// Tells the thread that is to pause, if it has begun already. A thread that is stepped pauses
    /// anyway.
    fn pass_pause_on(&self) -> Result<()> {
        let Some((known, events)) = self.pause else { return Ok(()) };
        match self.thread(known).filter(|tid| self.stepped != Some(*tid)) {
            Some(tid) => Ok(self.process.pause_after(tid, Some(events))?),
            None => Ok(()),
        }
    }

    /// Tells a stopped thread where to stop and what to announce.
    fn arm(&self, tid: i32) -> Result<()> {
        self.stops.watchpoints.arm(tid, &self.stops.watched_code(&self.text))?;
        let context = self.process.context(tid).unwrap_or_default();
        let told_from = self.told.filter(|told| told.thread == context.tid).map(Told::from);
        let catches = self.stops.catches.clone().and_calls(mapping_calls(self));
        Ok(catches.arm(&self.process, tid, told_from)?)
    }

    /// Lets all threads run.
    pub fn set_off(&mut self) -> Result<()> {
        let (planting, mut ground) = self.ground();
        planting.plant(&mut ground)?;
        for tid in self.process.threads().collect::<Vec<_>>() {
            self.arm(tid)?;
        }
        self.pass_pause_on()?;
        Ok(self.process.resume_all()?)
    }

    /// Returns what stopped the process since it was set off; `None` if nothing has yet.
    pub fn look(&mut self) -> Result<Option<Stop>> {
        while let Some(happened) = self.process.next(&mut || true)? {
            if let Some(stop) = self.interpret(happened)? {
                self.stopped()?;
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    /// Lets all threads run until one of them stops the process.
    pub fn run(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.set_off()?;
        loop {
            let Some(happened) = self.process.next(give_up)? else {
                if let Some(stop) = self.settle()? {
                    return Ok(stop);
                }
                // The process may just have come to a breakpoint without a report.
                let is_hit = self.planting.remaining.is_none() && comes_to_breakpoint(self)?;
                return Ok(if is_hit { Stop::Breakpoint } else { Stop::Interrupted });
            };
            if let Some(stop) = self.interpret(happened)? {
                self.stopped()?;
                return Ok(stop);
            }
        }
    }

    pub(super) fn stopped(&mut self) -> Result<()> {
        self.hear_others()?;
        self.await_births()?;
        for tid in self.process.threads().collect::<Vec<_>>() {
            self.process.leave_probe(tid)?;
            self.process.pause_after(tid, None)?;
        }
        self.planting.read_counter(&self.process.memory);
        self.text.refresh(self.process.pid);
        // The thread may have ended since something was heard of it.
        let is_there = self.process.threads().any(|tid| tid == self.current);
        if let Some(tid) = self.process.threads().next().filter(|_| !is_there) {
            self.current = tid;
        }
        Ok(())
    }

    /// Waits until all threads that were created before here have begun, so that they exist in
    /// every visit of a place.
    fn await_births(&mut self) -> Result<()> {
        let since = Instant::now();
        let (mut nap, longest) = NAPS;
        while since.elapsed() < LONGEST_BIRTH {
            let current = self.current;
            let unborn: Vec<i32> = self
                .process
                .threads()
                .filter(|tid| *tid != current && !self.process.is_born(*tid))
                .collect();
            if unborn.is_empty() {
                break;
            }
            for tid in unborn {
                self.process.resume(tid)?;
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(longest);
            self.hear_others()?;
        }
        Ok(())
    }

    /// Stops all threads, and handles the reports of those that the stop is not about.
    pub fn hear_others(&mut self) -> Result<()> {
        self.hear(false).map(drop)
    }

    /// Stops all threads and handles their reports. If `until_stop`, ends at the first report that
    /// stops the process.
    fn hear(&mut self, until_stop: bool) -> Result<Option<Stop>> {
        self.process.stop_all()?;
        for _ in 0..MOST_NEWS {
            if !self.process.has_news() {
                break;
            }
            let (current, was_open) = (self.current, self.ending.fate == Fate::Open);
            if let Some(happened) = self.process.next(&mut || true)? {
                let stop = self.interpret(happened)?;
                if until_stop && stop.is_some() {
                    return Ok(stop);
                }
            }
            // Other threads are on their way to where they wait, so the user is not told. The end
            // of the process is an exception: it is reported where it came.
            if !was_open || self.ending.fate == Fate::Open {
                self.current = current;
            }
            self.process.stop_all()?;
        }
        Ok(None)
    }

    pub(super) fn interpret(&mut self, happened: Happened) -> Result<Option<Stop>> {
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
            Happened::Stepped { tid, watch } | Happened::Watched { tid, watch } => {
                self.watched(tid, watch)
            }
            Happened::Emulates { tid, .. } => {
                self.process.resume(tid)?;
                Ok(None)
            }
            Happened::Ended | Happened::Faulted { .. } => Ok(None),
            Happened::Gone(status) => Ok(Some(match status {
                Status::Killed(signal) => Stop::Killed(signal),
                Status::Exited(status) => Stop::Exited(status),
                _ => Stop::End,
            })),
        }
    }

    fn announced(&mut self, tid: i32, kind: u64, value: u64) -> Result<Option<Stop>> {
        heed_call(self, tid, kind, value)?;
        if let Some(caught) = catches::announced(kind, value)
            && (self.stops.catches.wants(caught)
                || self.told.is_some_and(|told| told.is_at(&self.process, tid, kind)))
        {
            self.current = tid;
            return Ok(Some(Stop::Caught(caught)));
        }
        match kind {
            context::DEBUG_SIGNAL => {
                self.delivered = self.delivered.with(value as i32);
                if !self.passed.has(value as i32)
                    || self.is_stepping
                    || self.told.is_some_and(|told| told.is_at(&self.process, tid, kind))
                {
                    self.current = tid;
                    return Ok(Some(Stop::Signal(value as i32)));
                }
            }
            context::DEBUG_DEATH => {
                self.current = tid;
                self.ending.fate = Fate::Dying(value as i32);
                self.ending.is_told = false;
                return Ok(Some(Stop::Signal(value as i32)));
            }
            context::DEBUG_EXIT => {
                self.current = tid;
                self.ending.fate = Fate::Exiting(value as i32);
                self.ending.is_told = true;
                return Ok(Some(Stop::End));
            }
            context::DEBUG_EXEC => {
                self.current = tid;
                self.ending.fate = Fate::Executing;
                self.ending.is_told = true;
                return Ok(Some(Stop::Executing));
            }
            context::DEBUG_THREAD_START => {
                let context = self.process.context(tid).unwrap_or_default();
                if let Some((_, events)) = self.pause.filter(|(known, _)| *known == context.tid) {
                    self.process.pause_after(tid, Some(events))?;
                }
                self.arm(tid)?;
            }
            // The thread could not be armed while it waited for the child.
            context::DEBUG_VFORK => self.arm(tid)?,
            context::DEBUG_THREAD_EXIT => {
                self.process.let_exit(tid)?;
                return Ok(None);
            }
            _ => {}
        }
        self.process.resume(tid)?;
        Ok(None)
    }

    fn watched(&mut self, tid: i32, watch: u64) -> Result<Option<Stop>> {
        let Some(watchpoint) = self.stops.watchpoints.hit(watch) else {
            return executed(self, tid, watch);
        };
        if in_runtime(self.process.registers(tid)?.rip) {
            // The recorded kernel wrote to the memory. The program sees that when the call returns.
            self.watch_in_call = Some(watchpoint);
            self.process.pause_after(tid, Some(0))?;
            self.process.resume(tid)?;
            return Ok(None);
        }
        self.current = tid;
        Ok(Some(Stop::Watch(watchpoint)))
    }

    /// Stops the process, and brings it to a place that can be shown to its user. Returns what
    /// stopped it just then, or on its way there, if anything did.
    pub fn settle(&mut self) -> Result<Option<Stop>> {
        let stop = self.hear(true)?;
        self.stopped()?;
        // A process that has just come to its end must not go past it.
        let stop = stop.or_else(|| self.ending.stop_at_fate());
        if stop.is_some() {
            return Ok(stop);
        }
        let all: Vec<i32> = self.process.threads().collect();
        let mut in_program = None;
        for &tid in &all {
            if !in_runtime(self.process.registers(tid)?.rip) {
                in_program = Some(tid);
            }
        }
        if let Some(tid) = in_program {
            self.current = tid;
            let stop = self.leave_stub()?;
            return Ok(if stop.is_some() {
                stop
            } else {
                self.finish_repeated()?.filter(|stop| *stop != Stop::Breakpoint)
            });
        }
        for tid in all {
            self.process.pause_after(tid, Some(0))?;
        }
        self.process.resume_all()?;
        let since = Instant::now();
        let mut stop = None;
        while stop.is_none()
            && let Some(happened) = self.process.next(&mut || since.elapsed() > PATIENCE)?
        {
            stop = self.interpret(happened)?;
        }
        self.stopped()?;
        Ok(stop.filter(|stop| *stop != Stop::Step))
    }

    fn leave_stub(&mut self) -> Result<Option<Stop>> {
        while self.text.is_stub(self.process.registers(self.current)?.rip)
            || search::is_in_search(&self.process.memory, self.current)
        {
            let stop = self.step(&mut || false)?;
            if stop != Stop::Step {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }
}

/// Whether the process stands at a breakpoint of the user, whatever its condition.
pub(super) fn comes_to_breakpoint(inferior: &Inferior) -> Result<bool> {
    let shown = inferior.program_counter()?;
    let real = inferior.process.registers(inferior.current)?.rip;
    Ok(inferior.stops.breakpoints.contains(&shown) && inferior.text.stops_at(shown, real))
}

/// Whether the process stopped only for a breakpoint whose condition does not hold.
fn is_unmet(inferior: &Inferior) -> Result<bool> {
    let address = inferior.process.registers(inferior.current)?.rip;
    let is_sought = inferior.planting.private_places.contains(&address)
        || inferior.planting.sought.as_ref().is_some_and(|sought| sought.address == address);
    Ok(inferior.process.stopped_at_probe.is_none()
        && !is_sought
        && comes_to_breakpoint(inferior)?
        && !inferior.is_at_breakpoint()?)
}

/// Handles the execution of a watched address. If the condition does not hold, the thread goes on.
/// A flag lets it pass the address.
fn executed(inferior: &mut Inferior, tid: i32, watch: u64) -> Result<Option<Stop>> {
    const RESUME: u64 = 1 << 16;
    let registers = inferior.process.registers(tid)?;
    if !inferior.stops.watchpoints.is_execution(watch)
        || !inferior.stops.breakpoints.contains(&registers.rip)
    {
        inferior.process.resume(tid)?;
        return Ok(None);
    }
    (inferior.current, inferior.process.stopped_at_probe) = (tid, None);
    if !is_unmet(inferior)? {
        return Ok(Some(Stop::Breakpoint));
    }
    let eflags = registers.eflags | RESUME;
    ptrace::set_registers(tid, &Registers { eflags, ..registers })?;
    inferior.process.resume(tid)?;
    Ok(None)
}
