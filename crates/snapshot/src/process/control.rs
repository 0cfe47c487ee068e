//! Letting threads run, and hearing what they do.

use super::{EAGER, Happened, LONGEST_NAP, Process, State};
use retake_kernel::ptrace;
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

    /// Lets all stopped threads but one run that have nothing to tell.
    ///
    /// # Errors
    /// One is gone.
    pub fn resume_others(&mut self, tid: i32) -> io::Result<()> {
        let ready = self.threads.iter().filter(|one| one.state == State::Stopped(None));
        let others: Vec<i32> = ready.map(|one| one.tid).filter(|other| *other != tid).collect();
        others.into_iter().try_for_each(|other| self.resume(other))
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

/// Between our deciding and doing a thread may have been killed; its end is told by the next wait.
pub(super) fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        result => result,
    }
}
