//! Interprets the stops of threads.

use super::control::gone_is_fine;
use super::{Happened, IN_RUNTIME, Process, SIGNALS_OF_INSTRUCTIONS, State, Thread};
use crate::memory::TRAP;
use crate::runtime::in_runtime;
use retake_kernel::context;
use retake_kernel::ptrace::{self, Status};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

/// The events of a thread that has made another thread or a process.
const MAKING: [i32; 3] =
    [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_CLONE];

impl Process {
    /// Interprets what a thread did. Returns `None`, and resumes the thread, if it concerns no
    /// caller.
    pub(super) fn happened(&mut self, tid: i32, status: Status) -> io::Result<Option<Happened>> {
        if self.strangers.contains(&tid) {
            return self.let_go(tid, status).map(|()| None);
        }
        if self.guests.contains(&tid) {
            return self.guest(tid, status).map(|()| None);
        }
        if tid == self.pid && matches!(status, Status::Exited(_) | Status::Killed(_)) {
            self.threads.clear();
            // No thread is left to claim these children.
            for child in std::mem::take(&mut self.unclaimed) {
                self.let_go(child, Status::Event(libc::PTRACE_EVENT_STOP))?;
            }
            return Ok(Some(Happened::Gone(status)));
        }
        if status == Status::Event(libc::PTRACE_EVENT_EXIT) {
            return Ok(None); // see `let_exit`
        }
        if !self.threads.iter().any(|thread| thread.tid == tid) {
            return self.unknown(tid, status).map(|()| None);
        }
        self.thread(tid)?.state = State::Stopped(None);
        match status {
            Status::Exited(_) | Status::Killed(_) => {
                self.threads.retain(|thread| thread.tid != tid);
                Ok(Some(Happened::Ended))
            }
            Status::Event(event) => self.event(tid, event).map(|()| None),
            Status::Signal(libc::SIGTRAP) => self.trap(tid),
            Status::Signal(signal) => self.signal(tid, signal),
        }
    }

    fn event(&mut self, tid: i32, event: i32) -> io::Result<()> {
        let child = ptrace::event_message(tid).unwrap_or(0);
        let is_making = MAKING.contains(&event);
        if self.apart.is_some() && is_making {
            // A child of a copy would run beside the child that the process itself made.
            for pid in [child, self.pid].into_iter().filter(|pid| *pid > 0) {
                retake_kernel::process::kill(pid, libc::SIGKILL);
            }
            return Ok(());
        }
        match event {
            libc::PTRACE_EVENT_CLONE if self.threads.iter().any(|thread| thread.tid == child) => {}
            libc::PTRACE_EVENT_CLONE if is_thread_of(self.pid, child) => {
                self.threads.push(Thread {
                    tid: child,
                    state: State::Running,
                    stepping: false,
                    signal: 0,
                });
            }
            _ if is_making => self.claim(child, event)?,
            // We asked for this stop, but the thread stopped for another reason first. It has not
            // made its step yet.
            libc::PTRACE_EVENT_STOP if self.thread(tid)?.stepping => return self.step(tid),
            _ => {}
        }
        self.resume(tid)
    }

    /// Handles a stop of an unknown thread: the first stop of a new thread may come before the
    /// event of its creator.
    fn unknown(&mut self, tid: i32, status: Status) -> io::Result<()> {
        if matches!(status, Status::Exited(_) | Status::Killed(_)) {
            self.unclaimed.remove(&tid);
            return Ok(()); // an orphan of the tree, reaped
        }
        if is_thread_of(self.pid, tid) {
            self.threads.push(Thread {
                tid,
                state: State::Stopped(None),
                stepping: false,
                signal: 0,
            });
            return self.resume(tid);
        }
        // The creator's event tells what kind of child it is. Until then it stays stopped.
        self.unclaimed.insert(tid);
        Ok(())
    }

    /// Handles the event of a thread in this memory that has made a child. The event tells which
    /// kind.
    fn claim(&mut self, child: i32, event: i32) -> io::Result<()> {
        let has_stopped = self.unclaimed.remove(&child);
        let status = Status::Event(libc::PTRACE_EVENT_STOP);
        if event == libc::PTRACE_EVENT_FORK {
            self.strangers.insert(child);
            return if has_stopped { self.let_go(child, status) } else { Ok(()) };
        }
        self.guests.insert(child);
        if has_stopped { self.guest(child, status) } else { Ok(()) }
    }

    /// Lets a child with a copy of this memory go, without our traps.
    fn let_go(&mut self, tid: i32, status: Status) -> io::Result<()> {
        self.strangers.remove(&tid);
        if matches!(status, Status::Exited(_) | Status::Killed(_)) {
            return Ok(());
        }
        // A child that was killed meanwhile has no memory.
        if let Ok(memory) = OpenOptions::new().write(true).open(format!("/proc/{tid}/mem")) {
            for (address, original) in self.memory.covered() {
                let _ = memory.write_all_at(original, address);
            }
            for (address, original) in IN_RUNTIME {
                let _ = memory.write_all_at(&[original], address);
            }
        }
        gone_is_fine(ptrace::detach(tid))
    }

    /// Handles a stop of a child that lives in this memory: it is carried over our traps.
    pub(super) fn guest(&mut self, tid: i32, status: Status) -> io::Result<()> {
        match status {
            Status::Exited(_) | Status::Killed(_) => {
                self.guests.remove(&tid);
                Ok(())
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) => {
                self.guests.remove(&tid);
                gone_is_fine(ptrace::detach(tid))
            }
            Status::Signal(libc::SIGTRAP) => self.carry_over(tid),
            Status::Signal(signal) => gone_is_fine(ptrace::resume(tid, signal)),
            Status::Event(event) => {
                if MAKING.contains(&event)
                    && let Ok(child) = ptrace::event_message(tid)
                {
                    self.claim(child, event)?;
                }
                gone_is_fine(ptrace::resume(tid, 0))
            }
        }
    }

    fn carry_over(&mut self, tid: i32) -> io::Result<()> {
        let mut registers = ptrace::registers(tid)?;
        let address = registers.rip.wrapping_sub(1);
        let displaced = self.memory.probes().iter().find_map(|probe| match probe.trap(address) {
            Some(_) => probe.displaced(probe.plan.address),
            None => probe.displaced(address),
        });
        if let Some(rip) = displaced {
            ptrace::set_registers(tid, &ptrace::Registers { rip, ..registers })?;
            return gone_is_fine(ptrace::resume(tid, 0));
        }
        let Some(original) = self.memory.under_trap(address) else {
            let signal = if in_runtime(address) { 0 } else { libc::SIGTRAP };
            return gone_is_fine(ptrace::resume(tid, signal));
        };
        registers.rip = address;
        ptrace::set_registers(tid, &registers)?;
        self.memory.write(address, &[original])?;
        ptrace::step(tid, 0)?;
        let status = ptrace::wait(tid)?;
        self.memory.write(address, &[TRAP])?;
        match status {
            Status::Signal(libc::SIGTRAP) => gone_is_fine(ptrace::resume(tid, 0)),
            status => self.guest(tid, status),
        }
    }

    fn signal(&mut self, tid: i32, signal: i32) -> io::Result<Option<Happened>> {
        let stepping = self.thread(tid)?.stepping;
        if !self.dying && !SIGNALS_OF_INSTRUCTIONS.contains(&signal) {
            // This signal belongs to this session; the recorded signals are in the log.
            return self.resume(tid).map(|()| None);
        }
        if !self.memory.probes().is_empty() {
            let registers = ptrace::registers(tid)?;
            if let Some(happened) = self.probe_fault(tid, &registers)? {
                return Ok(happened);
            }
            if matches!(signal, libc::SIGILL | libc::SIGSEGV)
                && self.redirected(tid, registers.rip, &registers)?
            {
                return Ok(None);
            }
            self.leave_displaced(tid, &registers)?;
        }
        if self.reports_faults {
            return Ok(Some(Happened::Faulted { signal }));
        }
        self.thread(tid)?.signal = signal;
        if stepping {
            return Ok(Some(Happened::Emulates { tid, signal }));
        }
        self.resume(tid).map(|()| None)
    }

    fn trap(&mut self, tid: i32) -> io::Result<Option<Happened>> {
        const HARDWARE: [i32; 2] = [2 /* TRAP_TRACE */, 4 /* TRAP_HWBKPT */];
        const STATUS: usize = 6;
        let stepping = self.thread(tid)?.stepping;
        let info = ptrace::siginfo(tid)?;
        let code = i32::from_le_bytes([info[8], info[9], info[10], info[11]]);
        let mut registers = ptrace::registers(tid)?;
        if HARDWARE.contains(&code) {
            let status = ptrace::debug_register(tid, STATUS)?;
            ptrace::set_debug_register(tid, STATUS, 0)?;
            let watch = status & 0xf;
            if stepping {
                return Ok(Some(Happened::Stepped { tid, watch }));
            }
            if watch != 0 {
                return Ok(Some(Happened::Watched { tid, watch }));
            }
        }
        let address = registers.rip.wrapping_sub(1);
        if address == context::PAUSE {
            return Ok(Some(Happened::Paused { tid }));
        }
        if address == context::DEBUG_EVENT {
            return Ok(Some(Happened::Announced {
                tid,
                kind: registers.rdi,
                value: registers.rsi,
            }));
        }
        if let Some(happened) = self.probe_trap(tid, &registers)? {
            return Ok(happened);
        }
        self.stopped_at_probe = None;
        if self.memory.under_trap(address).is_some() {
            registers.rip = address;
            ptrace::set_registers(tid, &registers)?;
            return Ok(Some(Happened::Planted { tid, address }));
        }
        let is_opened = match &mut self.closed {
            Some(closed) => closed.open_at(&self.memory, address)?,
            None => false,
        };
        if is_opened {
            ptrace::set_registers(tid, &ptrace::Registers { rip: address, ..registers })?;
            let go_on = if stepping { Self::step } else { Self::resume };
            return go_on(self, tid).map(|()| None);
        }
        self.signal(tid, libc::SIGTRAP)
    }
}

fn is_thread_of(pid: i32, tid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}
