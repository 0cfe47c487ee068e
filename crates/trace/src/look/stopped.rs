//! Looks at threads that stop at every call. The call's number decides what to look at, where the
//! runtime would ask by itself.

use super::mapped::leads_to_program;
use super::{Looker, Sink};
use retake_model::table::number;
use retake_record::{Moment, Stage};
use retake_trace_format::moved_argument;
use std::io;

const MMAP: u64 = number::MMAP as u64;
const MUNMAP: u64 = number::MUNMAP as u64;
const MREMAP: u64 = number::MREMAP as u64;
const MSYNC: u64 = number::MSYNC as u64;
const MADVISE: u64 = number::MADVISE as u64;
const EXECVE: u64 = number::EXECVE as u64;
const EXECVEAT: u64 = number::EXECVEAT as u64;
const MAP_TYPE: u64 = 0xf;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;

/// The calls that use the file of the descriptor in argument 0: reading, writing, sizes, syncing.
const USES_FILE: [u64; 14] = [
    number::READ as u64,
    number::WRITE as u64,
    number::PREAD64 as u64,
    number::PWRITE64 as u64,
    number::READV as u64,
    number::WRITEV as u64,
    number::FSYNC as u64,
    number::FDATASYNC as u64,
    number::FTRUNCATE as u64,
    number::FALLOCATE as u64,
    number::PREADV as u64,
    number::PWRITEV as u64,
    number::PREADV2 as u64,
    number::PWRITEV2 as u64,
];

impl Looker {
    /// Looks at a thread that enters a call.
    ///
    /// # Errors
    /// An error of `sink`.
    pub fn entered(&self, moment: Moment, sink: Sink<'_>) -> io::Result<()> {
        let at = |stage| Moment { stage, ..moment };
        let descriptor = |index: usize| moment.arguments[index] as i32;
        match moment.number {
            MSYNC | MREMAP | EXECVE | EXECVEAT => self.before_end(moment, sink)?,
            MUNMAP | MADVISE if self.concerns_mapping(&moment, moment.arguments[0]) => {
                self.before_end(moment, sink)?
            }
            MMAP if moment.arguments[3] & MAP_FIXED != 0
                && self.concerns_mapping(&moment, moment.arguments[0]) =>
            {
                self.before_end(moment, sink)?
            }
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

    /// Looks at a thread at the return of a successful call.
    ///
    /// # Errors
    /// An error of `sink`.
    pub fn returned(&self, moment: Moment, sink: Sink<'_>) -> io::Result<()> {
        match moment.number {
            MMAP if moment.arguments[3] & MAP_ANONYMOUS == 0 && !self.loads_program(&moment) => {
                self.at_call(&Moment { stage: Stage::Mapped, ..moment }, sink)?
            }
            MREMAP if self.has_mappings(moment.pid) => {
                self.at_call(&Moment { stage: Stage::Mapped, ..moment }, sink)?
            }
            number if moved_argument(number as u32, moment.arguments[1]).is_some() => {
                self.at_call(&Moment { stage: Stage::AfterMove, ..moment }, sink)?
            }
            _ => 0,
        };
        Ok(())
    }

    /// Returns whether a call maps a part of a program or library without replacing a noted
    /// mapping. Such mappings are not noted, so the process need not be looked at for each of its
    /// libraries.
    fn loads_program(&self, moment: &Moment) -> bool {
        let is_private = moment.arguments[3] & MAP_TYPE == MAP_PRIVATE;
        is_private
            && leads_to_program(moment.pid, moment.arguments[4] as i32)
            && !self.concerns_mapping(moment, moment.result as u64)
    }

    /// Returns whether a file that matters is mapped in the memory from `start` on, of the length
    /// in the second argument.
    fn concerns_mapping(&self, moment: &Moment, start: u64) -> bool {
        self.state().mapped.overlaps(moment.pid, start..start.saturating_add(moment.arguments[1]))
    }

    /// Looks at a process before it, or some of its memory, goes away.
    ///
    /// # Errors
    /// An error of `sink`.
    pub fn before_end(&self, moment: Moment, sink: Sink<'_>) -> io::Result<()> {
        if self.has_mappings(moment.pid) {
            self.at_call(&Moment { stage: Stage::BeforeUnmap, ..moment }, sink)?;
        }
        Ok(())
    }
}
