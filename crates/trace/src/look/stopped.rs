//! Looking at threads that stop at every call: what the runtime asks for by itself is found out from the call's number.

use super::{Looker, Sink};
use retake_record::{Moment, Stage};
use retake_trace_format::moved_argument;
use std::io;

const MMAP: u64 = 9;
const MUNMAP: u64 = 11;
const MREMAP: u64 = 25;
const MSYNC: u64 = 26;
const MADVISE: u64 = 28;
const EXECVE: u64 = 59;
const EXECVEAT: u64 = 322;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;

/// Calls that use the file of the descriptor in argument 0: reading, writing, sizes, syncing.
const USES_FILE: [u64; 14] = [0, 1, 17, 18, 19, 20, 74, 75, 77, 285, 295, 296, 327, 328];

impl Looker {
    /// On the way into a call.
    ///
    /// # Errors
    /// What `sink` says.
    pub fn entered(&self, moment: Moment, sink: Sink<'_>) -> io::Result<()> {
        let at = |stage| Moment { stage, ..moment };
        let descriptor = |index: usize| moment.arguments[index] as i32;
        match moment.number {
            MSYNC | MUNMAP | MREMAP | MADVISE | EXECVE | EXECVEAT => self.before_end(moment, sink)?,
            MMAP if moment.arguments[3] & MAP_FIXED != 0 => self.before_end(moment, sink)?,
            number if USES_FILE.contains(&number) && self.is_mapped(moment.pid, descriptor(0)) => {
                self.at_call(&at(Stage::UsesMappedFile), sink)?;
            }
            number if moved_argument(number as u32, moment.arguments[1]).is_some() => {
                if (0..3).any(|index| self.is_mapped(moment.pid, descriptor(index))) {
                    self.at_call(&at(Stage::UsesMappedFile), sink)?;
                }
                self.at_call(&at(Stage::BeforeMove), sink)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// On the way out of a call that succeeded.
    ///
    /// # Errors
    /// What `sink` says.
    pub fn returned(&self, moment: Moment, sink: Sink<'_>) -> io::Result<()> {
        match moment.number {
            MMAP if moment.arguments[3] & MAP_ANONYMOUS == 0 => self.at_call(&Moment { stage: Stage::Mapped, ..moment }, sink)?,
            MREMAP if self.has_mappings(moment.pid) => self.at_call(&Moment { stage: Stage::Mapped, ..moment }, sink)?,
            number if moved_argument(number as u32, moment.arguments[1]).is_some() => {
                self.at_call(&Moment { stage: Stage::AfterMove, ..moment }, sink)?
            }
            _ => 0,
        };
        Ok(())
    }

    /// Before a process, or some of its memory, goes.
    ///
    /// # Errors
    /// What `sink` says.
    pub fn before_end(&self, moment: Moment, sink: Sink<'_>) -> io::Result<()> {
        if self.has_mappings(moment.pid) {
            self.at_call(&Moment { stage: Stage::BeforeUnmap, ..moment }, sink)?;
        }
        Ok(())
    }
}
