//! Threads that are in the stubs of probes.

use super::{Happened, Process};
use crate::probe::Why;
use retake_kernel::ptrace::{self, Registers};
use std::io;

/// A stub has fewer instructions.
const MOST_STEPS: usize = 1000;

impl Process {
    /// A stopped thread that stands where a jump was planted goes on at what was displaced, or
    /// where visits are counted.
    ///
    /// # Errors
    /// It is gone.
    pub fn enter_probe(&self, tid: i32, counts: bool) -> io::Result<()> {
        let registers = ptrace::registers(tid)?;
        let found = self
            .memory
            .probes()
            .iter()
            .find_map(|probe| Some((probe, probe.displaced(registers.rip)?)));
        let Some((probe, displaced)) = found else { return Ok(()) };
        let rip = if counts && registers.rip == probe.plan.address {
            probe.counting()
        } else {
            displaced
        };
        ptrace::set_registers(tid, &Registers { rip, ..registers })
    }

    /// Brings a thread that was stopped in a stub to an instruction of the program.
    ///
    /// # Errors
    /// It is gone.
    pub fn leave_probe(&self, tid: i32) -> io::Result<()> {
        if self.memory.probes().is_empty() {
            return Ok(());
        }
        for _ in 0..MOST_STEPS {
            let registers = ptrace::registers(tid)?;
            let Some(probe) = self.memory.probes().iter().find(|probe| probe.has(registers.rip))
            else {
                break;
            };
            let trapped = probe.trap(registers.rip).map(|_| probe.plan.address);
            let place = trapped.or_else(|| {
                probe.shown(registers.rip).filter(|shown| *shown != probe.plan.address)
            });
            if let Some(rip) = place {
                return ptrace::set_registers(tid, &Registers { rip, ..registers });
            }
            ptrace::step(tid, 0)?;
            ptrace::wait(tid)?;
        }
        Ok(())
    }

    /// A trap that a probe led to: which, and what that means.
    pub(super) fn probe_trap(
        &mut self,
        tid: i32,
        registers: &Registers,
    ) -> io::Result<Option<Option<Happened>>> {
        let address = registers.rip.wrapping_sub(1);
        let stopped = self
            .memory
            .probes()
            .iter()
            .find_map(|probe| Some((probe.plan.address, probe.trap(address)?)));
        if let Some((place, why)) = stopped {
            ptrace::set_registers(tid, &Registers { rip: place, ..*registers })?;
            self.stopped_at_probe = Some(why);
            return Ok(Some(Some(Happened::Planted { tid, address: place })));
        }
        self.redirected(tid, address, registers).map(|is_redirected| is_redirected.then_some(None))
    }

    /// Something led to an instruction that the jump covers.
    pub(super) fn redirected(
        &mut self,
        tid: i32,
        address: u64,
        registers: &Registers,
    ) -> io::Result<bool> {
        let Some(rip) = self.memory.probes().iter().find_map(|probe| probe.displaced(address))
        else {
            return Ok(false);
        };
        ptrace::set_registers(tid, &Registers { rip, ..*registers })?;
        self.resume(tid)?;
        Ok(true)
    }

    /// A displaced instruction has raised the signal that a thread is stopped for: to the program,
    /// and to the recording, it is the one that was displaced.
    pub(super) fn leave_displaced(&self, tid: i32, registers: &Registers) -> io::Result<()> {
        const ADDRESS: std::ops::Range<usize> = 16..24;
        let Some(rip) = self.memory.probes().iter().find_map(|probe| probe.shown(registers.rip))
        else {
            return Ok(());
        };
        let mut info = ptrace::siginfo(tid)?;
        if info[ADDRESS] == registers.rip.to_le_bytes() {
            info[ADDRESS].copy_from_slice(&rip.to_le_bytes());
            ptrace::set_siginfo(tid, &info)?;
        }
        ptrace::set_registers(tid, &Registers { rip, ..*registers })
    }

    /// A stub read memory that is not there. A test fails then; a condition is left to the
    /// debugger.
    pub(super) fn probe_fault(
        &mut self,
        tid: i32,
        registers: &Registers,
    ) -> io::Result<Option<Option<Happened>>> {
        let Some(probe) = self.memory.probes().iter().find(|probe| probe.is_testing(registers.rip))
        else {
            return Ok(None);
        };
        let (place, counting) = (probe.plan.address, probe.counting());
        let kept = probe.kept(|address| self.memory.word(address).unwrap_or(0), registers);
        if probe.is_comparing(registers.rip) {
            ptrace::set_registers(tid, &Registers { rip: counting, ..*registers })?;
            self.resume(tid)?;
            return Ok(Some(None));
        }
        if registers.rip < counting {
            ptrace::set_registers(
                tid,
                &Registers { rax: kept.rax, rcx: kept.rcx, rip: counting, ..*registers },
            )?;
            self.resume(tid)?;
            return Ok(Some(None));
        }
        ptrace::set_registers(tid, &Registers { rip: place, ..kept })?;
        self.stopped_at_probe = Some(Why::Counted);
        Ok(Some(Some(Happened::Planted { tid, address: place })))
    }
}
