//! Looks at threads that are held only at the return of calls, and only of calls that matter.

use super::{Looker, Sink};
use retake_model::table::number;
use retake_record::{Moment, Stage};
use retake_trace_format::moved_argument;
use std::io;
use std::ops::Range;

const MMAP: u64 = number::MMAP as u64;
const MUNMAP: u64 = number::MUNMAP as u64;
const IOCTL: u64 = number::IOCTL as u64;
const MREMAP: u64 = number::MREMAP as u64;
const MSYNC: u64 = number::MSYNC as u64;
const MADVISE: u64 = number::MADVISE as u64;
const SENDFILE: u64 = number::SENDFILE as u64;

/// The calls that read the file of the descriptor in argument 0.
const READS: [u64; 5] = [
    number::READ as u64,
    number::PREAD64 as u64,
    number::READV as u64,
    number::PREADV as u64,
    number::PREADV2 as u64,
];

/// Returns the descriptor that a call reads or moves data from.
fn source_of(number: u64, arguments: &[u64; 6]) -> Option<i32> {
    let index = match number {
        IOCTL => 2,
        SENDFILE => 1,
        _ => 0,
    };
    let reads = READS.contains(&number) || moved_argument(number as u32, arguments[1]).is_some();
    reads.then_some(arguments[index] as i32)
}

impl Looker {
    /// Looks at a thread at the return of a successful call which it entered without a stop. A read
    /// from a file got what was stored in it before. Nothing is looked at after a write, because
    /// stores could not be told from what the call wrote. The stores that it did not overwrite are
    /// seen later.
    ///
    /// # Errors
    /// An error of `sink`.
    pub fn returned_only(&self, moment: Moment, sink: Sink<'_>) -> io::Result<()> {
        let (number, arguments) = (moment.number, moment.arguments);
        let source = source_of(number, &arguments);
        match number {
            MUNMAP | MREMAP | MMAP if self.has_mappings(moment.pid) => {
                self.lost(moment.pid, &(0..0), moment.time_ns, sink)?
            }
            MADVISE if self.has_mappings(moment.pid) => {
                let lost = arguments[0]..arguments[0].saturating_add(arguments[1]);
                self.lost(moment.pid, &lost, moment.time_ns, sink)?;
            }
            MSYNC => self.before_end(moment, sink)?,
            _ if source.is_some_and(|descriptor| self.is_mapped(moment.pid, descriptor)) => {
                self.at_call(&Moment { stage: Stage::UsesMappedFile, ..moment }, sink)?;
            }
            _ => {}
        }
        self.returned(moment, sink)
    }

    /// Takes what was in pages that a call has just taken away: those of `lost`, or some mappings.
    ///
    /// # Errors
    /// An error of `sink`.
    fn lost(&self, pid: i32, lost: &Range<u64>, time_ns: u64, sink: Sink<'_>) -> io::Result<()> {
        self.state().mapped.collect_lost(pid, lost, time_ns, sink)
    }

    /// Forgets a process that is gone and was looked at before its end.
    pub fn forget(&self, pid: i32) {
        self.state().mapped.forget(pid);
    }
}
