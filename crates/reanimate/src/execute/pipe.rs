//! Pipes carry the real data. No worker blocks in the kernel. A waiting worker watches the progress
//! of the others, and so tells data that never come from data that are late.

use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use retake_trace_format::{BufferDirection, TracedCall};

use super::data::Expected;
use super::{Done, Effect, Executor, Failure, file_of};
use crate::action::Data;
use crate::calls::pieces;
use crate::handle::Handle;
use crate::pace::Patience;

impl Executor<'_> {
    pub(super) fn pipe(&mut self, reader: &Arc<Handle>, writer: &Handle, flags: u32) -> Done {
        let kept = PipeFlags::from_bits_retain(flags & OFlags::DIRECT.bits());
        let (reading, writing) =
            rustix::pipe::pipe_with(kept | PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        reader.open(reading, false);
        writer.open(writing, false);
        writer.keep_reader(reader.clone());
        Ok(Effect::success())
    }

    /// Reads exactly as many bytes as the trace says came out, however many are in the pipe by now.
    pub(super) fn read_pipe(
        &mut self,
        call: &TracedCall,
        handle: &Handle,
        requested: u64,
        buffers: u8,
    ) -> Done {
        let file = file_of(handle)?;
        if call.failed() || requested == 0 {
            return Err(Failure::Skipped("reads from pipes that failed"));
        }
        let wanted = call.result.unsigned_abs();
        let mut expected = Expected::new(pieces(call, buffers, BufferDirection::Output));
        let mut patience = self.pulse.patience();
        let mut effect = Effect::default();
        let mut total = 0;
        // For a traced end of data, one byte is read to check that none is left.
        while total < wanted.max(1) {
            await_ready(file, PollFlags::IN, &mut patience)?;
            let bytes =
                self.scratch.bytes(usize::try_from(wanted.max(1) - total).unwrap_or(usize::MAX));
            let count = match rustix::io::read(file, &mut *bytes) {
                Err(Errno::AGAIN | Errno::INTR) => continue,
                read => read?,
            };
            if count == 0 {
                break;
            }
            if self.verify == crate::options::Verify::Full {
                expected.compare(&bytes[..count], &mut effect.differences);
            }
            total += count as u64;
        }
        effect.result = i64::try_from(total).ok();
        Ok(effect)
    }

    /// Writes the data that the trace says went in.
    pub(super) fn write_pipe(&mut self, call: &TracedCall, handle: &Handle, data: Data) -> Done {
        let file = file_of(handle)?;
        if call.failed() {
            return Err(Failure::Skipped("writes to pipes that failed"));
        }
        let mut patience = self.pulse.patience();
        let mut left = call.result.unsigned_abs();
        for piece in pieces(call, data.argument, data.direction) {
            let bytes = usize::try_from(piece.total_bytes.min(left)).unwrap_or(usize::MAX);
            if bytes > piece.data.len() {
                return Err(Failure::Skipped("data for pipes that are not in the trace"));
            }
            write_whole(file, &piece.data[..bytes], &mut patience)?;
            left -= bytes as u64;
        }
        Ok(Effect::returned(call.result - i64::try_from(left).unwrap_or(0)))
    }
}

fn write_whole(
    file: std::os::fd::BorrowedFd<'_>,
    mut data: &[u8],
    patience: &mut Patience<'_>,
) -> Result<(), Failure> {
    while !data.is_empty() {
        match rustix::io::write(file, data) {
            Ok(count) => data = &data[count..],
            Err(Errno::AGAIN | Errno::INTR) => await_ready(file, PollFlags::OUT, patience)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until a descriptor is ready, or until its other end is closed.
pub(super) fn await_ready(
    file: std::os::fd::BorrowedFd<'_>,
    events: PollFlags,
    patience: &mut Patience<'_>,
) -> Result<(), Failure> {
    loop {
        let timeout = Timespec { tv_sec: 0, tv_nsec: crate::pace::SLICE.subsec_nanos().into() };
        let mut polled = [PollFd::from_borrowed_fd(file, events)];
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(0) if patience.is_over() => return Err(Failure::Stalled),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
