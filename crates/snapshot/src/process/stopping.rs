//! Stops all threads.
//!
//! No thread is waited for alone, because it may be unable to stop before another one was handled.
//! A thread that made a child in this memory waits for it in the kernel, and the child may stand at
//! one of our traps. The first thread of an exiting process ends only after the ends of all others
//! were read.

use super::control::gone_is_fine;
use super::{
    EAGER, GUEST_PATIENCE, LONGEST_NAP, LONGEST_STOP, Process, SIGNALS_OF_INSTRUCTIONS, State,
};
use retake_kernel::process::pending_signals;
use retake_kernel::ptrace::{self, Status};
use std::io;
use std::time::Instant;

impl Process {
    /// Stops every thread. What they have to report is kept for [`Process::next`]. A thread that
    /// waits for a child in its memory keeps waiting if the child waits for another thread. So does
    /// a thread that the kernel never lets stop.
    ///
    /// A thread that has already stopped is not interrupted. It would stop again as soon as it is
    /// resumed, and again, without executing an instruction.
    ///
    /// # Errors
    /// A thread cannot be stopped.
    pub fn stop_all(&mut self) -> io::Result<()> {
        let running: Vec<i32> =
            self.threads.iter().filter(|t| t.state == State::Running).map(|t| t.tid).collect();
        let mut awaited = Vec::new();
        for tid in running {
            if !has_stopped(self, tid)? {
                gone_is_fine(ptrace::interrupt(tid))?;
                awaited.push(tid);
            }
        }
        await_stops(self, awaited)
    }
}

/// Waits until these threads have stopped, and meanwhile handles children in this memory.
fn await_stops(process: &mut Process, mut awaited: Vec<i32>) -> io::Result<()> {
    let begun = Instant::now();
    let (mut since, mut nap) = (begun, EAGER / 10);
    while !awaited.is_empty() {
        let mut is_news = attend_to_guests(process)?;
        for tid in std::mem::take(&mut awaited) {
            if has_stopped(process, tid)? {
                is_news = true;
            } else {
                awaited.push(tid);
            }
        }
        if is_news {
            (since, nap) = (Instant::now(), EAGER / 10);
        }
        let waits_for_guests = !process.guests.is_empty()
            && since.elapsed() > GUEST_PATIENCE
            && awaited.iter().all(|tid| is_held_by_kernel(process.pid, *tid));
        if waits_for_guests || begun.elapsed() > LONGEST_STOP {
            break;
        }
        if since.elapsed() < EAGER {
            std::thread::yield_now();
        } else {
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }
    Ok(())
}

/// Whether a thread has stopped or is gone. If an instruction raised a signal just when the thread
/// was interrupted, that signal is read first. A copy of the thread would lose it, and with it the
/// instruction.
fn has_stopped(process: &mut Process, tid: i32) -> io::Result<bool> {
    let status = match process.look_at(tid) {
        Ok(None) => return Ok(false),
        Ok(Some(status)) => Some(status),
        Err(_) => None,
    };
    if status == Some(Status::Event(libc::PTRACE_EVENT_STOP)) && has_raised_signal(tid) {
        gone_is_fine(ptrace::resume(tid, 0))?;
        return Ok(false);
    }
    let is_over = matches!(status, None | Some(Status::Exited(_) | Status::Killed(_)));
    if is_over && (tid != process.pid || status.is_none()) {
        process.threads.retain(|thread| thread.tid != tid);
        return Ok(true);
    }
    let news = status.filter(|status| *status != Status::Event(libc::PTRACE_EVENT_STOP));
    process.thread(tid)?.state = State::Stopped(news);
    Ok(true)
}

/// Lets children in this memory go on. Returns whether one had something to report.
fn attend_to_guests(process: &mut Process) -> io::Result<bool> {
    let mut is_news = false;
    for guest in process.guests.iter().copied().collect::<Vec<_>>() {
        match ptrace::look(guest) {
            Ok(Some((guest, status))) => {
                process.guest(guest, status)?;
                is_news = true;
            }
            Ok(None) => {}
            Err(_) => drop(process.guests.remove(&guest)),
        }
    }
    Ok(is_news)
}

/// Whether a thread is in the kernel, where it cannot be stopped.
fn is_held_by_kernel(pid: i32, tid: i32) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))
}

/// Whether an instruction of a stopped thread raised a signal that is still pending.
pub fn has_raised_signal(tid: i32) -> bool {
    let of_instructions =
        SIGNALS_OF_INSTRUCTIONS.iter().fold(0, |bits, signal| bits | 1 << (signal - 1));
    let pending = pending_signals(tid) & of_instructions;
    pending != 0 && ptrace::signal_mask(tid).is_ok_and(|blocked| pending & !blocked != 0)
}
