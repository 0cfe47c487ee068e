//! Chooses what a user sees and runs: the time line or the diversion.

use super::{Body, Diversion};
use crate::error::{DebugError, Result};
use crate::inferior::{GiveUp, Inferior, Stop};
use crate::replay::Replay;
use retake_kernel::context::words_of;
use retake_kernel::ptrace::{self, Registers};

/// The diversion, from the first change of registers or memory until the program goes on.
#[derive(Debug, Default)]
pub(crate) struct Changes(Option<Diversion>);

impl Changes {
    /// The general and extended registers of a thread, by the program's ID, as its user sees them.
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

    /// Sets them, in a diversion.
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

    /// Reads memory as its user sees it. Returns how many bytes could be read.
    pub fn read(&self, inferior: &Inferior, address: u64, bytes: &mut [u8]) -> usize {
        let process = self.0.as_ref().map_or(&inferior.process, |diversion| &diversion.process);
        inferior.text.read(process, address, bytes)
    }

    /// Reads a word of memory; `None` if it is not mapped.
    pub fn word(&self, inferior: &Inferior, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(inferior, address, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
    }

    /// Writes memory, in a diversion. Returns false if it is not mapped.
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

    /// The thread that runs in the diversion, if the user called a function there that has not
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

    /// Goes back to the time line, where nothing was changed.
    pub fn end(&mut self) {
        self.0 = None;
    }

    /// Takes the output of the diversion.
    pub fn take_console(&mut self) -> String {
        self.0.as_mut().map(|diversion| std::mem::take(&mut diversion.console)).unwrap_or_default()
    }
}

/// The kernel's ID of a thread.
fn kernel_thread(inferior: &Inferior, thread: u32) -> Result<i32> {
    if inferior.context().tid == thread {
        return Ok(inferior.current);
    }
    inferior
        .thread(thread)
        .ok_or_else(|| DebugError::Protocol(format!("there is no thread {thread}")))
}
