//! Stops all threads of a running program, and reads what they are about to do.

use retake_kernel::process;
use retake_kernel::ptrace::{self, Registers, Sequences, Status};
use retake_model::table::number;
use retake_snapshot::{has_raised_signal, in_runtime};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a thread may take to stop. One that waits for a vfork child stops when that goes on.
const PATIENCE: Duration = Duration::from_secs(10);
const NAP: Duration = Duration::from_micros(100);
/// The value of `orig_rax` outside of system calls: the kernel restarts nothing.
const NO_CALL: u64 = u64::MAX;
/// The size of a `syscall` instruction.
const CALL_BYTES: u64 = 2;
/// What an interrupted call returns inside the kernel if it is to be made again.
const RESTARTED: [i64; 4] = [-512, -513, -514, -516];
/// Calls that end with EINTR at each interruption, although no signal has come.
const INTERRUPTED: [u16; 9] = [
    number::EPOLL_WAIT,
    number::EPOLL_PWAIT,
    number::EPOLL_PWAIT2,
    number::SEMOP,
    number::SEMTIMEDOP,
    number::MSGRCV,
    number::MSGSND,
    number::RT_SIGTIMEDWAIT,
    number::IO_GETEVENTS,
];

/// A thread of the program.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub tid: i32,
    /// Its registers, with which it goes on in its code. A call that was interrupted is made again.
    pub registers: Registers,
    /// Its signal mask.
    pub mask: u64,
    /// What the kernel writes to its memory at any time. Recorded threads have none.
    pub sequences: Sequences,
}

/// A process all of whose threads are stopped. The first is its first thread. Dropping it lets them
/// go on as if nothing had been.
#[derive(Debug)]
pub(super) struct Frozen {
    pub pid: i32,
    pub threads: Vec<Thread>,
    original: BTreeMap<i32, (Registers, u64)>,
}

impl Frozen {
    /// Stops all threads. None of them stands in `never`.
    ///
    /// # Errors
    /// Another process traces them, or the machine forbids that; a thread does not stop.
    pub fn stop(pid: i32, never: &Range<u64>) -> io::Result<Self> {
        let mut frozen = Self { pid, threads: Vec::new(), original: BTreeMap::new() };
        // Threads that still run may make others.
        loop {
            let is_new = |tid: &i32| !frozen.original.contains_key(tid);
            let new: Vec<i32> = process::threads(pid).filter(is_new).collect();
            let mut seized = Vec::new();
            for tid in new {
                if frozen.seize(tid)? {
                    seized.push(tid);
                }
            }
            if seized.is_empty() {
                break;
            }
            seized.into_iter().try_for_each(|tid| frozen.add(tid, never))?;
        }
        let Some(first) = frozen.threads.iter().position(|thread| thread.tid == pid) else {
            return Err(io::Error::other("its first thread has ended"));
        };
        frozen.threads.swap(0, first);
        Ok(frozen)
    }

    /// Asks a thread to stop. Returns false if it has ended meanwhile.
    fn seize(&self, tid: i32) -> io::Result<bool> {
        match ptrace::seize_gently(tid).and_then(|()| ptrace::interrupt(tid)) {
            Err(_) if tid != self.pid && process::is_gone(tid) => Ok(false),
            result => result.map(|()| true),
        }
    }

    fn add(&mut self, tid: i32, never: &Range<u64>) -> io::Result<()> {
        let since = Instant::now();
        let registers = loop {
            if await_stop(tid, since, false)? == Stop::Gone {
                return Ok(());
            }
            let registers = ptrace::registers(tid)?;
            if !never.contains(&registers.rip) {
                break registers;
            }
            ptrace::resume(tid, 0)?;
            std::thread::sleep(NAP);
            ptrace::interrupt(tid)?;
        };
        let mask = ptrace::signal_mask(tid)?;
        self.original.insert(tid, (registers, mask));
        let sequences = ptrace::sequences(tid).unwrap_or_default();
        self.threads.push(Thread { tid, registers: as_in_code(registers), mask, sequences });
        Ok(())
    }

    /// Lets the threads go on from where they stand now, which may be elsewhere than before.
    pub fn release(mut self) {
        for tid in std::mem::take(&mut self.original).into_keys() {
            let _ = ptrace::detach(tid); // a thread that is gone needs nothing
        }
    }

    /// Forgets the threads, which stay stopped: they go on in another way.
    pub fn forget(mut self) {
        self.original.clear();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for (&tid, (registers, mask)) in &self.original {
            // A thread that is gone needs nothing.
            let _ = ptrace::set_registers(tid, registers);
            let _ = ptrace::set_signal_mask(tid, *mask);
            let _ = ptrace::detach(tid);
        }
    }
}

/// Where a thread that was interrupted has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Anywhere.
    Interrupted,
    /// In its code, behind a call that the runtime has not been told about yet.
    AtCall,
    /// It has ended.
    Gone,
}

/// Waits until a thread that was interrupted stops. A signal that an instruction has raised is
/// delivered first: elsewhere it would have no meaning. `calls`: it may stop at a call.
pub(super) fn await_stop(tid: i32, since: Instant, calls: bool) -> io::Result<Stop> {
    let mut is_awaited = true;
    loop {
        let signal = match ptrace::look(tid)? {
            Some((_, Status::Event(libc::PTRACE_EVENT_STOP))) if !has_raised_signal(tid) => {
                return Ok(Stop::Interrupted);
            }
            Some((_, Status::Event(_))) => {
                is_awaited = false;
                0
            }
            Some((_, Status::Exited(_) | Status::Killed(_))) => return Ok(Stop::Gone),
            Some((_, Status::Signal(libc::SIGSYS))) if calls && is_at_call(tid) => {
                return Ok(Stop::AtCall);
            }
            Some((_, Status::Signal(signal))) => signal,
            None if since.elapsed() > PATIENCE => {
                return Err(io::Error::other(format!("thread {tid} does not stop")));
            }
            None => {
                std::thread::sleep(NAP);
                continue;
            }
        };
        ptrace::resume(tid, signal)?;
        if signal != 0 && !is_awaited {
            ptrace::interrupt(tid)?;
            is_awaited = true;
        }
    }
}

/// Whether the kernel is about to tell the runtime of a call.
fn is_at_call(tid: i32) -> bool {
    const USER_DISPATCH: u8 = 2;
    const CODE: usize = 8;
    ptrace::siginfo(tid).is_ok_and(|info| info[CODE] == USER_DISPATCH)
        && ptrace::registers(tid).is_ok_and(|registers| !in_runtime(registers.rip))
}

/// Whether a stopped thread is in a call that was interrupted before it did anything.
pub(super) fn is_made_again(registers: &Registers) -> bool {
    let (call, result) = (registers.orig_rax, registers.rax as i64);
    let is_interrupted = || {
        result == -i64::from(libc::EINTR) && INTERRUPTED.iter().any(|one| u64::from(*one) == call)
    };
    (call as i64) >= 0 && (RESTARTED.contains(&result) || is_interrupted())
}

/// Returns the registers with which a thread goes on in its code.
pub(super) fn as_in_code(mut registers: Registers) -> Registers {
    if is_made_again(&registers) {
        registers.rax = registers.orig_rax;
        registers.rip -= CALL_BYTES;
    }
    registers.orig_rax = NO_CALL;
    registers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_is_made_again() {
        let at = |orig_rax: i64, rax: i64| {
            let registers = Registers {
                rip: 100,
                rax: rax as u64,
                orig_rax: orig_rax as u64,
                ..ptrace::NO_REGISTERS
            };
            let after = as_in_code(registers);
            assert_eq!(after.orig_rax, NO_CALL);
            (after.rip, after.rax as i64)
        };
        assert_eq!(at(-1, -512), (100, -512), "it was in no call");
        assert_eq!(at(0, 5), (100, 5), "the call has returned");
        assert_eq!(at(0, -512), (98, 0));
        assert_eq!(at(230, -516), (98, 230));
        assert_eq!(at(0, -4), (100, -4), "a signal has interrupted it");
        assert_eq!(at(i64::from(number::EPOLL_WAIT), -4), (98, i64::from(number::EPOLL_WAIT)));
    }
}
