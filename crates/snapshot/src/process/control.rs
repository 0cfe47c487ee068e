//! Letting threads run and stopping them.

use super::{
    EAGER, GUEST_PATIENCE, Happened, LONGEST_NAP, Process, SIGNALS_OF_INSTRUCTIONS, State,
};
use retake_kernel::ptrace::{self, Status};
use std::io;
use std::time::{Duration, Instant};

/// So much that is the program's own business is passed on to it before somebody is asked again
/// whether to give up.
const MOST_PASSED_ON: u32 = 64;

impl Process {
    /// Lets all stopped threads run that have nothing to tell.
    ///
    /// # Errors
    /// One is gone.
    pub fn resume_all(&mut self) -> io::Result<()> {
        let ready: Vec<i32> = self
            .threads
            .iter()
            .filter(|t| t.state == State::Stopped(None))
            .map(|t| t.tid)
            .collect();
        ready.into_iter().try_for_each(|tid| self.resume(tid))
    }

    /// Lets one thread run.
    ///
    /// # Errors
    /// It is gone.
    pub fn resume(&mut self, tid: i32) -> io::Result<()> {
        let thread = self.thread(tid)?;
        let signal = std::mem::take(&mut thread.signal);
        (thread.state, thread.stepping) = (State::Running, false);
        gone_is_fine(ptrace::resume(tid, signal))
    }

    /// Lets a thread run that is about to exit. Nobody waits for what it does: for the first of a
    /// process that could be long. That one stays where it has all but exited: without it the
    /// kernel says nothing about the process any more. In a copy it may be any of the program's
    /// threads.
    ///
    /// # Errors
    /// It cannot be resumed.
    pub fn let_exit(&mut self, tid: i32) -> io::Result<()> {
        if tid == self.pid {
            ptrace::stop_at_exit(tid)?;
        }
        self.resume(tid)?;
        self.threads.retain(|thread| thread.tid != tid);
        Ok(())
    }

    /// Lets one thread execute one instruction, the one under a trap if there is one.
    ///
    /// # Errors
    /// It is gone.
    pub fn step(&mut self, tid: i32) -> io::Result<()> {
        let address = self.registers(tid)?.rip;
        self.memory.remove_probes();
        self.memory.unplant(address);
        let thread = self.thread(tid)?;
        let signal = std::mem::take(&mut thread.signal);
        (thread.state, thread.stepping) = (State::Running, true);
        gone_is_fine(ptrace::step(tid, signal))
    }

    /// Stops every thread. What they have to tell is kept for [`Process::next`]. One that waits for
    /// a child in its memory goes on waiting if the child waits for another thread.
    ///
    /// One that has stopped already is not interrupted: that would stop it again as soon as it is
    /// resumed, and again, without an instruction between.
    ///
    /// # Errors
    /// Threads cannot be stopped.
    pub fn stop_all(&mut self) -> io::Result<()> {
        let running: Vec<i32> =
            self.threads.iter().filter(|t| t.state == State::Running).map(|t| t.tid).collect();
        let mut stops = Vec::new();
        for tid in running {
            let stopped = self.poll_one(tid);
            if stopped.is_none() {
                gone_is_fine(ptrace::interrupt(tid))?;
            }
            stops.push((tid, stopped));
        }
        for (tid, stopped) in stops {
            if stopped.is_none() && self.waits_for_guest(tid)? {
                continue;
            }
            let Ok(status) = wait_for_stop(tid, stopped) else {
                self.threads.retain(|thread| thread.tid != tid);
                continue;
            };
            if tid != self.pid && matches!(status, Status::Exited(_) | Status::Killed(_)) {
                self.threads.retain(|thread| thread.tid != tid);
                continue;
            }
            let is_ours = status == Status::Event(libc::PTRACE_EVENT_STOP);
            self.thread(tid)?.state = State::Stopped((!is_ours).then_some(status));
        }
        Ok(())
    }

    /// Lets children in this memory go on until a thread is there to be heard that is to stop. The
    /// kernel stops none that waits for such a child: true if the thread does, and the child gets
    /// nowhere.
    fn waits_for_guest(&mut self, tid: i32) -> io::Result<bool> {
        let mut since = Instant::now();
        while !self.guests.is_empty() && !is_to_be_heard(self.pid, tid) {
            let news = self.guests.iter().find_map(|guest| ptrace::poll(*guest));
            if let Some((guest, status)) = news {
                self.guest(guest, status)?;
                since = Instant::now();
            } else if since.elapsed() > GUEST_PATIENCE {
                return Ok(true);
            }
            std::thread::sleep(EAGER / 10);
        }
        Ok(false)
    }

    /// What happens next, of all that runs; `None` once `give_up` says so.
    ///
    /// # Errors
    /// A thread cannot be looked at or resumed.
    pub fn next(&mut self, give_up: &mut dyn FnMut() -> bool) -> io::Result<Option<Happened>> {
        let mut since = Instant::now();
        let mut nap = Duration::from_micros(20);
        let mut passed_on = 0_u32;
        loop {
            let told = self.threads.iter().find_map(|thread| match thread.state {
                State::Stopped(Some(status)) => Some((thread.tid, status)),
                _ => None,
            });
            if let Some((tid, status)) = told.or_else(|| self.poll()) {
                if let Some(happened) = self.happened(tid, status)? {
                    return Ok(Some(happened));
                }
                since = Instant::now();
                passed_on += 1;
                if !passed_on.is_multiple_of(MOST_PASSED_ON) {
                    continue;
                }
            }
            if give_up() {
                return Ok(None);
            }
            if since.elapsed() < EAGER {
                std::hint::spin_loop();
                continue;
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }
}

/// Whether a thread is anywhere but in the kernel where it cannot be stopped.
fn is_to_be_heard(pid: i32, tid: i32) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    !status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))
}

/// What stopped a thread that was interrupted. A signal that an instruction raised just then is
/// heard first: whoever copies the thread would lose it, and with it the instruction.
fn wait_for_stop(tid: i32, stopped: Option<Status>) -> io::Result<Status> {
    let of_instructions =
        SIGNALS_OF_INSTRUCTIONS.iter().fold(0, |bits, signal| bits | 1 << (signal - 1));
    let status = stopped.map_or_else(|| ptrace::wait(tid), Ok)?;
    if status != Status::Event(libc::PTRACE_EVENT_STOP)
        || retake_kernel::process::pending_signals(tid) & of_instructions == 0
    {
        return Ok(status);
    }
    ptrace::resume(tid, 0)?;
    ptrace::wait(tid)
}

/// Between our deciding and doing a thread may have been killed; its end is told by the next wait.
pub(super) fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        result => result,
    }
}
