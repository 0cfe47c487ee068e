//! Probes in the process's text, and threads that are in their stubs.

use super::{Happened, Process};
use crate::probe::{Plan, Probe, Wanted, Why};
use crate::remote;
use retake_kernel::ptrace::{self, Registers};
use std::io;
use std::rc::Rc;

const PAGE_BYTES: u64 = 4096;
const READ_WRITE_EXECUTE: u64 = 7;
/// MAP_SHARED, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE. Private memory that can be written is the
/// program's: the runtime compares it with the recorded one.
const FREE_SHARED_ANONYMOUS: u64 = 0x10_0021;
const NO_DESCRIPTOR: u64 = u64::MAX;
/// A stub has fewer instructions.
const MOST_STEPS: usize = 1000;

impl Process {
    /// Plants a probe; `tid` is a stopped thread. False: it cannot be.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn plant_probe(&mut self, tid: i32, plan: &Rc<Plan>, wanted: &Wanted) -> io::Result<bool> {
        let Some((probe, parts)) = Probe::build(plan, wanted) else { return Ok(false) };
        let mut now = vec![0; plan.original().len()];
        if self.read(plan.address, &mut now) != now.len() || now != plan.original() {
            return Ok(false);
        }
        if !self.probe_pages.contains(&plan.page) {
            let arguments =
                [plan.page, PAGE_BYTES, READ_WRITE_EXECUTE, FREE_SHARED_ANONYMOUS, NO_DESCRIPTOR];
            if remote::call(tid, libc::SYS_mmap, arguments)?.0 as u64 != plan.page {
                return Ok(false);
            }
            self.probe_pages.insert(plan.page);
        }
        for (address, bytes) in parts {
            self.write(address, &bytes)?;
        }
        self.write(plan.address, &plan.patch())?;
        self.probes.push(probe);
        Ok(true)
    }

    /// Whether there is one at an address.
    pub fn has_probe(&self, address: u64) -> bool {
        self.probes.iter().any(|probe| probe.plan.address == address)
    }

    /// Takes all of them out of the text. No thread may be in a stub.
    pub fn remove_probes(&mut self) {
        for probe in std::mem::take(&mut self.probes) {
            // Text that was unmapped has no jump either.
            let _ = self.write(probe.plan.address, probe.plan.original());
        }
    }

    /// The process is as if there had never been any.
    ///
    /// # Errors
    /// The thread, which is stopped, is gone.
    pub fn forget_probes(&mut self, tid: i32) -> io::Result<()> {
        self.remove_probes();
        for page in std::mem::take(&mut self.probe_pages) {
            remote::call(tid, libc::SYS_munmap, [page, PAGE_BYTES, 0, 0, 0])?;
        }
        Ok(())
    }

    /// A stopped thread that stands where a jump was planted goes on at what was displaced, or
    /// where visits are counted.
    ///
    /// # Errors
    /// It is gone.
    pub fn enter_probe(&self, tid: i32, counts: bool) -> io::Result<()> {
        let registers = ptrace::registers(tid)?;
        let found =
            self.probes.iter().find_map(|probe| Some((probe, probe.displaced(registers.rip)?)));
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
        if self.probes.is_empty() {
            return Ok(());
        }
        for _ in 0..MOST_STEPS {
            let registers = ptrace::registers(tid)?;
            let Some(probe) = self.probes.iter().find(|probe| probe.has(registers.rip)) else {
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
        let stopped =
            self.probes.iter().find_map(|probe| Some((probe.plan.address, probe.trap(address)?)));
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
        let Some(rip) = self.probes.iter().find_map(|probe| probe.displaced(address)) else {
            return Ok(false);
        };
        ptrace::set_registers(tid, &Registers { rip, ..*registers })?;
        self.resume(tid)?;
        Ok(true)
    }

    /// A stub read memory that is not there. A test fails then; a condition is left to the
    /// debugger.
    pub(super) fn probe_fault(
        &mut self,
        tid: i32,
        registers: &Registers,
    ) -> io::Result<Option<Option<Happened>>> {
        let Some(probe) = self.probes.iter().find(|probe| probe.is_testing(registers.rip)) else {
            return Ok(None);
        };
        let (place, counting) = (probe.plan.address, probe.counting());
        let kept = probe.kept(|address| self.word(address).unwrap_or(0), registers);
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
