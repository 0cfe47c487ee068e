//! Which of the two a user sees and runs: the time line or the diversion.

use super::{Body, Diversion};
use crate::error::{DebugError, Result};
use crate::inferior::{GiveUp, Inferior, Stop};
use crate::replay::Replay;
use retake_kernel::context::words_of;
use retake_kernel::ptrace::{self, Registers};

/// The diversion, from when registers or memory were changed until the program goes on.
#[derive(Debug, Default)]
pub(crate) struct Changes(Option<Diversion>);

impl Changes {
    /// The general and extended registers of a thread, by the program's number, as its user sees
    /// them.
    ///
    /// # Errors
    /// There is no such thread.
    pub fn registers(&self, inferior: &Inferior, thread: u32) -> Result<(Registers, Vec<u8>)> {
        if let Some(body) = self.0.as_ref().and_then(|diversion| diversion.body(thread)) {
            return Ok((body.registers, body.extended.clone()));
        }
        let tid = kernel_thread(inferior, thread)?;
        Ok((inferior.registers(tid)?, ptrace::extended_state(tid)?))
    }

    /// Changes them, in a diversion.
    ///
    /// # Errors
    /// No copy of the process can be made.
    pub fn set_registers(
        &mut self,
        replay: &mut Replay,
        thread: u32,
        registers: Registers,
        extended: Vec<u8>,
    ) -> Result<()> {
        let (before, extended_before) = self.registers(&replay.inferior, thread)?;
        let is_same =
            words_of(&before) == words_of(&registers) && before.fs_base == registers.fs_base;
        if is_same && extended_before == extended {
            return Ok(());
        }
        let own = Registers { orig_rax: u64::MAX, ..before };
        let diversion = self.divert(replay)?;
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
    pub fn read(&self, inferior: &Inferior, address: u64, bytes: &mut [u8]) -> usize {
        let process = self.0.as_ref().map_or(&inferior.process, |diversion| &diversion.process);
        inferior.text.read(process, address, bytes)
    }

    /// A word of it; `None` if it is not there.
    pub fn word(&self, inferior: &Inferior, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(inferior, address, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
    }

    /// Changes memory, in a diversion. False: it is not there.
    ///
    /// # Errors
    /// No copy of the process can be made.
    pub fn write(&mut self, replay: &mut Replay, address: u64, bytes: &[u8]) -> Result<bool> {
        let mut now = vec![0; bytes.len()];
        if self.read(&replay.inferior, address, &mut now) != bytes.len() {
            return Ok(false);
        }
        if now == bytes {
            return Ok(true);
        }
        Ok(self.divert(replay)?.process.memory.poke(address, bytes).is_ok())
    }

    fn divert(&mut self, replay: &mut Replay) -> Result<&mut Diversion> {
        let fresh = match self.0.take() {
            Some(diversion) => diversion,
            None => {
                let running = replay
                    .running
                    .as_ref()
                    .ok_or_else(|| DebugError::Protocol("the replay has ended".to_owned()))?;
                Diversion::begin(&mut replay.inferior, running.header())?
            }
        };
        Ok(self.0.insert(fresh))
    }

    /// The thread that runs in the diversion, if its user called a function there that has not
    /// returned.
    pub fn thread(&self) -> Option<u32> {
        self.0.as_ref().and_then(Diversion::called)
    }

    /// Lets that thread run, for one instruction or until something stops it.
    ///
    /// # Errors
    /// The copy cannot be controlled.
    pub fn run(
        &mut self,
        inferior: &mut Inferior,
        thread: u32,
        is_step: bool,
        give_up: GiveUp,
    ) -> Result<Stop> {
        let Some(diversion) = &mut self.0 else { return Ok(Stop::Interrupted) };
        if is_step {
            diversion.step(thread, inferior, give_up)
        } else {
            diversion.resume(thread, inferior, give_up)
        }
    }

    /// Back to the time line, where nothing was changed.
    pub fn end(&mut self) {
        self.0 = None;
    }

    /// What the diversion has to print.
    pub fn take_console(&mut self) -> String {
        self.0.as_mut().map(|diversion| std::mem::take(&mut diversion.console)).unwrap_or_default()
    }
}

/// The kernel's number of a thread.
fn kernel_thread(inferior: &Inferior, thread: u32) -> Result<i32> {
    if inferior.context().tid == thread {
        return Ok(inferior.current);
    }
    inferior
        .thread(thread)
        .ok_or_else(|| DebugError::Protocol(format!("there is no thread {thread}")))
}
