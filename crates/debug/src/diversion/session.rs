//! Which of the two a user sees and runs: the time line or the diversion.

use super::{Body, Diversion};
use crate::debuggee::{GiveUp, Stop};
use crate::error::{DebugError, Result};
use crate::session::Session;
use retake_kernel::context::words_of;
use retake_kernel::ptrace::{self, Registers};

impl Session {
    /// The general and extended registers of a thread, by the program's number, as its user sees
    /// them.
    ///
    /// # Errors
    /// There is no such thread.
    pub(crate) fn registers(&self, thread: u32) -> Result<(Registers, Vec<u8>)> {
        if let Some(body) = self.diversion.as_ref().and_then(|diversion| diversion.body(thread)) {
            return Ok((body.registers, body.extended.clone()));
        }
        let tid = self.kernel_thread(thread)?;
        Ok((self.debuggee.registers(tid)?, ptrace::extended_state(tid)?))
    }

    fn kernel_thread(&self, thread: u32) -> Result<i32> {
        if self.debuggee.context().tid == thread {
            return Ok(self.debuggee.current);
        }
        self.debuggee
            .thread(thread)
            .ok_or_else(|| DebugError::Protocol(format!("there is no thread {thread}")))
    }

    /// Changes them, in a diversion.
    ///
    /// # Errors
    /// No copy of the process can be made.
    pub(crate) fn set_registers(
        &mut self,
        thread: u32,
        registers: Registers,
        extended: Vec<u8>,
    ) -> Result<()> {
        let (before, extended_before) = self.registers(thread)?;
        let is_same =
            words_of(&before) == words_of(&registers) && before.fs_base == registers.fs_base;
        if is_same && extended_before == extended {
            return Ok(());
        }
        let own = Registers { orig_rax: u64::MAX, ..before };
        let diversion = self.divert()?;
        if diversion.body(thread).is_none() {
            diversion.bodies.push(Body {
                thread,
                registers: own,
                extended: extended_before,
                start: before.rip,
            });
        }
        diversion.set_registers(thread, Registers { orig_rax: u64::MAX, ..registers }, extended);
        Ok(())
    }

    /// Reads memory as its user sees it; returns how many bytes are there.
    pub(crate) fn read_memory(&self, address: u64, bytes: &mut [u8]) -> usize {
        let process =
            self.diversion.as_ref().map_or(&self.debuggee.process, |diversion| &diversion.process);
        self.debuggee.read_of(process, address, bytes)
    }

    /// Changes it, in a diversion. False: it is not there.
    ///
    /// # Errors
    /// No copy of the process can be made.
    pub(crate) fn write_memory(&mut self, address: u64, bytes: &[u8]) -> Result<bool> {
        let mut now = vec![0; bytes.len()];
        if self.read_memory(address, &mut now) != bytes.len() {
            return Ok(false);
        }
        if now == bytes {
            return Ok(true);
        }
        Ok(self.divert()?.process.memory.poke(address, bytes).is_ok())
    }

    fn divert(&mut self) -> Result<&mut Diversion> {
        let fresh = match self.diversion.take() {
            Some(diversion) => diversion,
            None => {
                let running = self
                    .running
                    .as_ref()
                    .ok_or_else(|| DebugError::Protocol("the replay has ended".to_owned()))?;
                Diversion::begin(&mut self.debuggee, running.header())?
            }
        };
        Ok(self.diversion.insert(fresh))
    }

    /// The thread that runs in the diversion, if its user called a function there that has not
    /// returned.
    pub(crate) fn diverted_thread(&self) -> Option<u32> {
        self.diversion.as_ref().and_then(Diversion::called)
    }

    /// Lets that thread run, for one instruction or until something stops it.
    ///
    /// # Errors
    /// The copy cannot be controlled.
    pub(crate) fn run_diverted(
        &mut self,
        thread: u32,
        is_step: bool,
        give_up: GiveUp,
    ) -> Result<Stop> {
        let Self { diversion, debuggee, .. } = self;
        let Some(diversion) = diversion.as_mut() else { return Ok(Stop::Interrupted) };
        if is_step {
            diversion.step(thread, debuggee, give_up)
        } else {
            diversion.resume(thread, debuggee, give_up)
        }
    }

    /// Back to the time line, where nothing was changed.
    pub(crate) fn end_diversion(&mut self) {
        self.diversion = None;
    }

    /// What the diversion has to print.
    pub(crate) fn take_console(&mut self) -> String {
        let diverted = self
            .diversion
            .as_mut()
            .map(|diversion| std::mem::take(&mut diversion.console))
            .unwrap_or_default();
        std::mem::take(&mut self.remarks) + &diverted
    }
}
