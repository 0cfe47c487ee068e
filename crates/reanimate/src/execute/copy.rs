//! Moving data from file to file.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use retake_trace_format::TracedCall;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::{Done, Effect, Executor, Failure, file_of};
use crate::action::{CloneRange, MAXIMUM_TRANSFER, Transfer};
use crate::handle::Handle;

/// An open file, and an offset in it unless the call uses the file position.
type End<'task> = (&'task Arc<Handle>, Option<u64>);

impl Executor<'_> {
    /// Moves the number of bytes that the trace says was moved.
    pub(super) fn transfer(
        &mut self,
        call: &TracedCall,
        how: Transfer,
        from: End<'_>,
        to: End<'_>,
        wanted: u64,
    ) -> Done {
        if wanted > MAXIMUM_TRANSFER && !call.failed() {
            return Err(Failure::Skipped("transfers of impossible sizes"));
        }
        let (source, destination) = (file_of(from.0)?, file_of(to.0)?);
        let (mut from_offset, mut to_offset) = (from.1, to.1);
        let mut patience = self.pulse.patience();
        let mut total = 0;
        while total < wanted {
            let count = usize::try_from(wanted - total).unwrap_or(usize::MAX);
            let moved = match how {
                Transfer::CopyFileRange => rustix::fs::copy_file_range(
                    source,
                    from_offset.as_mut(),
                    destination,
                    to_offset.as_mut(),
                    count,
                ),
                Transfer::SendFile => {
                    rustix::fs::sendfile(destination, source, from_offset.as_mut(), count)
                }
                Transfer::Splice => {
                    let flags = SpliceFlags::NONBLOCK;
                    rustix::pipe::splice(
                        source,
                        from_offset.as_mut(),
                        destination,
                        to_offset.as_mut(),
                        count,
                        flags,
                    )
                }
            };
            match moved {
                Ok(0) => break,
                Ok(moved) => total += moved as u64,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    super::pipe::await_ready(source, PollFlags::IN, &mut patience)?;
                    super::pipe::await_ready(destination, PollFlags::OUT, &mut patience)?;
                }
                // The file system cannot do it inside the kernel, or not between these two files.
                Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) if !call.failed() => {
                    total +=
                        self.copy((source, from_offset), (destination, to_offset), wanted - total)?;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Effect::returned(i64::try_from(total).unwrap_or(i64::MAX)))
    }

    /// Copies through memory. Returns the number of bytes copied.
    fn copy(
        &mut self,
        from: (BorrowedFd<'_>, Option<u64>),
        to: (BorrowedFd<'_>, Option<u64>),
        wanted: u64,
    ) -> Result<u64, Errno> {
        let mut total = 0;
        while total < wanted {
            let bytes = self.scratch.bytes(usize::try_from(wanted - total).unwrap_or(usize::MAX));
            let count = match from.1 {
                Some(offset) => rustix::io::pread(from.0, &mut *bytes, offset + total)?,
                None => rustix::io::read(from.0, &mut *bytes)?,
            };
            if count == 0 {
                break;
            }
            let mut data = &bytes[..count];
            while !data.is_empty() {
                let written = match to.1 {
                    Some(offset) => rustix::io::pwrite(to.0, data, offset + total)?,
                    None => rustix::io::write(to.0, data)?,
                };
                total += written as u64;
                data = &data[written..];
            }
        }
        Ok(total)
    }

    /// Shares the blocks of a file, or copies them if the file system cannot share blocks.
    pub(super) fn clone_blocks(
        &mut self,
        from: &Handle,
        to: &Handle,
        range: Option<CloneRange>,
    ) -> Done {
        let (source, destination) = (file_of(from)?, file_of(to)?);
        if range.is_none() && rustix::fs::ioctl_ficlone(destination, source).is_ok() {
            return Ok(Effect::returned(0));
        }
        let range = range.unwrap_or(CloneRange { from_offset: 0, bytes: 0, to_offset: 0 });
        let size = rustix::fs::fstat(source)?.st_size as u64;
        let rest = size.saturating_sub(range.from_offset);
        let bytes = if range.bytes == 0 { rest } else { range.bytes.min(rest) };
        if bytes > self.allocation_limit {
            return Err(Failure::Skipped("reserving more room than the limit"));
        }
        self.copy((source, Some(range.from_offset)), (destination, Some(range.to_offset)), bytes)?;
        if range.to_offset == 0 && range.from_offset == 0 && bytes == size {
            rustix::fs::ftruncate(destination, size)?;
        }
        Ok(Effect::returned(0))
    }
}
