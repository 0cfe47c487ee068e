//! Copies of the process at one moment, from which it can go on again and again.
//!
//! A copy is a child that never runs. It has one stopped thread and all of the memory. The kernel's
//! state of the other threads is kept here, and the threads are made anew when the copy is revived.
//! Their positions in the log are in private memory, so they continue to read where they were. The
//! slots are in shared memory, so their contents are kept here too. Memory shared with other
//! processes is not kept.

use crate::process::Process;
use crate::remote;
use crate::runtime::in_runtime;
use crate::slots::slot_of;
use crate::threads::Threads;
use retake_kernel::ptrace::{self, Registers, Status};
use retake_kernel::shared::{self, Header};
use retake_kernel::{maps, process};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// The first and the longest nap between two checks whether threads wait for their turn. A check
/// stops the threads: with short naps only, a thread on a busy machine would never execute
/// anything.
pub const NAPS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(50));

/// A copy. Its process is killed when this is dropped.
#[derive(Debug)]
pub struct Snapshot {
    /// The process that never runs.
    pub pid: i32,
    /// The state of its threads outside of memory.
    pub threads: Threads,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        process::kill(self.pid, libc::SIGKILL);
        while ptrace::wait(self.pid)
            .is_ok_and(|status| !matches!(status, Status::Exited(_) | Status::Killed(_)))
        {}
    }
}

impl Snapshot {
    /// Copies a stopped process. Returns `None` if it cannot be copied here: it shares memory, a
    /// thread is busy for longer than `patience`, or a thread has something to report.
    ///
    /// # Errors
    /// The process cannot be copied, for example for lack of memory.
    pub fn take(
        process: &mut Process,
        header: &Header,
        current: i32,
        patience: Duration,
    ) -> io::Result<Option<Self>> {
        if shares_memory(process)? || !quiesce(process, header, current, patience)? {
            return Ok(None);
        }
        process.memory.forget_probes(current)?;
        process.memory.plant(&Default::default());
        let Some(threads) = Threads::of(process, header, current)? else { return Ok(None) };
        Ok(Some(Self { pid: remote::fork(current)?, threads }))
    }

    /// The extended registers of the thread that the stop is about.
    pub fn extended(&self) -> &[u8] {
        self.threads.extended()
    }

    /// Makes a process that goes on from here and replaces `live`, which is killed. Returns it, and
    /// the thread that the stop is about.
    ///
    /// # Errors
    /// The process cannot be made, for example for lack of memory.
    pub fn revive(&self, header: &Header, live: &mut Process) -> io::Result<(Process, i32)> {
        let old = live.pid;
        live.end();
        let pid = remote::fork(self.pid)?;
        let mut process = Process::of_stopped(pid)?;
        let tids = self.threads.make_in(&mut process)?;
        self.threads.put_into_header(header, old, pid, &tids);
        Ok((process, pid))
    }

    /// Makes a process that goes on from here beside the live one. `slots` has one slot for each
    /// thread.
    ///
    /// # Errors
    /// The process cannot be made, for example for lack of memory.
    pub fn revive_beside(&self, header: &Header, slots: &[usize]) -> io::Result<Process> {
        let pid = remote::fork(self.pid)?;
        let mut process = Process::of_stopped(pid)?;
        match self.make_beside(header, slots, &mut process) {
            Ok(()) => Ok(process),
            Err(error) => {
                process.end();
                Err(error)
            }
        }
    }

    fn make_beside(
        &self,
        header: &Header,
        slots: &[usize],
        process: &mut Process,
    ) -> io::Result<()> {
        process.set_apart();
        let tids = self.threads.make_in(process)?;
        process.set_apart();
        self.threads.put_into_slots(header, process, &tids, slots)
    }
}

/// Whether the program shares writable memory. A copy cannot run then, since the original would see
/// its writes.
pub fn shares_memory(process: &Process) -> io::Result<bool> {
    let is_programs = |start: u64| !in_runtime(start) && !process.memory.is_probe_page(start);
    Ok(maps::of_process(process.pid)?
        .iter()
        .any(|mapping| mapping.shared && mapping.writable && is_programs(mapping.start)))
}

/// Lets all threads but the current one run until they wait for their turn. Returns whether they
/// all do.
fn quiesce(
    process: &mut Process,
    header: &Header,
    current: i32,
    patience: Duration,
) -> io::Result<bool> {
    let since = Instant::now();
    let (mut nap, longest) = NAPS;
    loop {
        if process.has_news() {
            return Ok(false);
        }
        let others: Vec<i32> = process.threads().filter(|tid| *tid != current).collect();
        let busy: Vec<i32> =
            others.into_iter().filter(|tid| !waits_for_turn(process, header, *tid)).collect();
        if busy.is_empty() && process.is_stopped() {
            return Ok(true);
        }
        if since.elapsed() > patience {
            return Ok(false);
        }
        for tid in busy {
            process.resume(tid)?;
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(longest);
        process.stop_all()?;
    }
}

fn waits_for_turn(process: &Process, header: &Header, tid: i32) -> bool {
    let (Ok(registers), Some(slot)) = (process.registers(tid), slot_of(process, tid)) else {
        return false;
    };
    let slot = &header.slots[slot];
    // After an interruption, a wait with a timeout continues as another call.
    let calls = [libc::SYS_futex as u64, libc::SYS_restart_syscall as u64];
    let in_futex = in_runtime(registers.rip)
        && (calls.contains(&registers.orig_rax) || waits_next(process, &registers));
    // Threads whose stream has ended wait for the process to end.
    let waits = slot.baton.state.load(Relaxed) == shared::BATON_WAITING
        || slot.state.load(Acquire) == shared::SLOT_EXITED;
    process.is_born(tid) && in_futex && waits && slot.request.reply.load(Relaxed) != 0
}

/// Whether a thread that was made anew and has not run since is about to repeat the call in which
/// it waited.
fn waits_next(process: &Process, registers: &Registers) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let mut code = [0; 2];
    registers.orig_rax == u64::MAX
        && registers.rax == libc::SYS_futex as u64
        && process.memory.read(registers.rip, &mut code) == 2
        && code == SYSCALL
}
