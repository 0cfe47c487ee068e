//! Runs threads and reports what they do.

use super::{EAGER, Happened, LONGEST_NAP, Process, State};
use retake_kernel::ptrace;
use std::io;
use std::time::{Duration, Instant};

/// How many events that concern only the program are passed on before the caller is asked again
/// whether to give up.
const MOST_PASSED_ON: u32 = 64;

impl Process {
    /// Resumes all stopped threads that have nothing to report.
    ///
    /// # Errors
    /// A thread is gone.
    pub fn resume_all(&mut self) -> io::Result<()> {
        let ready: Vec<i32> = self
            .threads
            .iter()
            .filter(|t| t.state == State::Stopped(None))
            .map(|t| t.tid)
            .collect();
        ready.into_iter().try_for_each(|tid| self.resume(tid))
    }

    /// Resumes all stopped threads but one that have nothing to report.
    ///
    /// # Errors
    /// A thread is gone.
    pub fn resume_others(&mut self, tid: i32) -> io::Result<()> {
        let ready = self.threads.iter().filter(|one| one.state == State::Stopped(None));
        let others: Vec<i32> = ready.map(|one| one.tid).filter(|other| *other != tid).collect();
        others.into_iter().try_for_each(|other| self.resume(other))
    }

    /// Resumes one thread.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn resume(&mut self, tid: i32) -> io::Result<()> {
        let thread = self.thread(tid)?;
        let signal = std::mem::take(&mut thread.signal);
        (thread.state, thread.stepping) = (State::Running, false);
        gone_is_fine(ptrace::resume(tid, signal))
    }

    /// Resumes a thread that is about to exit. Nothing waits for its end, which could take long for
    /// the first thread of a process. The first thread, which may be any of the program's threads
    /// in a copy, stops again just before its exit: without it the kernel reports nothing about the
    /// process any more.
    ///
    /// # Errors
    /// The thread cannot be resumed.
    pub fn let_exit(&mut self, tid: i32) -> io::Result<()> {
        if tid == self.pid {
            ptrace::stop_at_exit(tid)?;
        }
        self.resume(tid)?;
        self.threads.retain(|thread| thread.tid != tid);
        Ok(())
    }

    /// Lets one thread execute one instruction, the original one if a trap is there.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn step(&mut self, tid: i32) -> io::Result<()> {
        let address = self.registers(tid)?.rip;
        self.memory.remove_probes();
        self.memory.unplant(address);
        let thread = self.thread(tid)?;
        let signal = std::mem::take(&mut thread.signal);
        (thread.state, thread.stepping) = (State::Running, true);
        gone_is_fine(ptrace::step(tid, signal))
    }

    /// Waits for the next thing that happens in any running thread; returns `None` once `give_up`
    /// returns true.
    ///
    /// # Errors
    /// A thread cannot be examined or resumed.
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

/// Ignores that a thread is gone. It may have been killed just before; the next wait reports its
/// end.
pub(super) fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        result => result,
    }
}
