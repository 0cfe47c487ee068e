//! Threads in the stubs of probes.

use super::{Happened, Process};
use crate::probe::Why;
use retake_kernel::ptrace::{self, Registers};
use std::io;

/// The limit for steps. A stub has fewer instructions.
const MOST_STEPS: usize = 1000;

impl Process {
    /// Moves a stopped thread that stands at a planted jump to the displaced instruction, or, if
    /// `counts`, to where visits are counted.
    ///
    /// # Errors
    /// The thread is gone.
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
    /// The thread is gone.
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

    /// Handles a trap that belongs to a probe. Returns `None` if it belongs to none.
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

    /// Resumes a thread that came to an instruction covered by a jump at the displaced instruction.
    /// Returns whether the address is such an instruction.
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

    /// Moves a thread that stopped for a signal of a displaced instruction to the original
    /// instruction, which is what the program and the recording know.
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

    /// Handles a fault of a stub that read unmapped memory. If a test faulted, it fails. If a
    /// condition faulted, the debugger evaluates it.
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
