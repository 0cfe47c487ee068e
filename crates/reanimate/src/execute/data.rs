//! Reading and writing files, and calls about size and position.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use libc as sys;
use retake_trace_format::{BufferDirection, TracedBuffer, TracedCall};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use super::scratch::MAXIMUM_BYTES;
use super::{Done, Effect, Executor, Failure, file_of};
use crate::action::{Action, Data, Sync};
use crate::calls::pieces;
use crate::handle::Handle;
use crate::options::Verify;

/// The most pieces that one call writes.
const MAXIMUM_PIECES: usize = 1024;

/// The data of writes that the trace was told to omit.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The data that a call should read, piece by piece.
pub struct Expected<'call, Pieces> {
    pieces: Pieces,
    /// The rest of the current piece's traced bytes.
    data: &'call [u8],
    /// The number of bytes that follow them in the piece, but are not in the trace.
    unknown: u64,
    position: u64,
}

impl<'call, Pieces: Iterator<Item = &'call TracedBuffer>> Expected<'call, Pieces> {
    /// Expects the data of these pieces.
    pub fn new(pieces: Pieces) -> Self {
        Self { pieces, data: &[], unknown: 0, position: 0 }
    }

    /// Compares the bytes read next. Only the first difference is recorded.
    pub fn compare(&mut self, mut actual: &[u8], differences: &mut Vec<(String, String)>) {
        while !actual.is_empty() {
            if self.data.is_empty() && self.unknown == 0 {
                let Some(piece) = self.pieces.next() else {
                    return;
                };
                self.data = &piece.data;
                self.unknown = piece.total_bytes.saturating_sub(piece.data.len() as u64);
                continue;
            }
            let count = match self.data.len() {
                0 => actual.len().min(usize::try_from(self.unknown).unwrap_or(usize::MAX)),
                length => actual.len().min(length),
            };
            let (now, later) = actual.split_at(count);
            if self.data.is_empty() {
                self.unknown -= count as u64;
            } else {
                self.compare_known(now, differences);
                self.data = &self.data[count..];
            }
            self.position += count as u64;
            actual = later;
        }
    }

    fn compare_known(&self, actual: &[u8], differences: &mut Vec<(String, String)>) {
        let expected = &self.data[..actual.len()];
        if expected == actual || !differences.is_empty() {
            return;
        }
        let Some(first) =
            expected.iter().zip(actual).position(|(expected, actual)| expected != actual)
        else {
            return;
        };
        let shown = |bytes: &[u8]| {
            format!("byte {} is {:?}", self.position + first as u64, excerpt(&bytes[first..]))
        };
        differences.push((shown(expected), shown(actual)));
    }
}

/// The beginning of some bytes, in readable form.
fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 16;
    bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string()
}

impl Executor<'_> {
    pub(super) fn read(
        &mut self,
        call: &TracedCall,
        handle: &Handle,
        offset: Option<u64>,
        requested: u64,
        buffers: u8,
    ) -> Done {
        let file = file_of(handle)?;
        let mut expected = Expected::new(pieces(call, buffers, BufferDirection::Output));
        let limit = u64::try_from(call.result).unwrap_or(0);
        let mut effect = Effect::default();
        let mut total = 0;
        loop {
            let left = usize::try_from(requested - total).unwrap_or(usize::MAX).min(MAXIMUM_BYTES);
            let bytes = self.scratch.bytes(left);
            let count = match offset {
                Some(offset) => rustix::io::pread(file, &mut *bytes, offset.saturating_add(total))?,
                None => rustix::io::read(file, &mut *bytes)?,
            };
            if self.verify == Verify::Full {
                expected.compare(&bytes[..count], &mut effect.differences);
            }
            total += count as u64;
            // Reading more than the trace says is a difference, whatever follows.
            if count < left || total >= requested || total > limit {
                break;
            }
        }
        if offset.is_none() && total != limit && !call.failed() {
            restore_position(file, limit, total);
        }
        effect.result = i64::try_from(total).ok();
        Ok(effect)
    }

    pub(super) fn write(
        &mut self,
        call: &TracedCall,
        handle: &Handle,
        offset: Option<u64>,
        requested: u64,
        data: Data,
        flags: u32,
    ) -> Done {
        let file = file_of(handle)?;
        let mut left =
            if call.failed() { requested } else { call.result.unsigned_abs().min(requested) };
        let mut slices = Vec::new();
        for piece in pieces(call, data.argument, data.direction) {
            let known =
                &piece.data[..piece.data.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            slices.push(IoSlice::new(known));
            left -= known.len() as u64;
            let mut unknown = piece.total_bytes.saturating_sub(piece.data.len() as u64).min(left);
            left -= unknown;
            // The limit is needed because the trace says how much is missing, and may be wrong.
            while unknown > 0 && slices.len() < MAXIMUM_PIECES {
                let count = ZEROS.len().min(usize::try_from(unknown).unwrap_or(usize::MAX));
                slices.push(IoSlice::new(&ZEROS[..count]));
                unknown -= count as u64;
            }
            if unknown > 0 {
                return Err(Failure::Skipped("writes whose data are not in the trace"));
            }
        }
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if !call.failed() && (total as u64) < call.result.unsigned_abs() {
            return Err(Failure::Skipped("writes whose data are not in the trace"));
        }
        if handle.is_direct() {
            return self.write_aligned(file, offset, &slices);
        }
        write_slices(file, offset, &mut slices, flags)
    }

    /// Writes from aligned memory, which direct output needs.
    fn write_aligned(
        &mut self,
        file: BorrowedFd<'_>,
        offset: Option<u64>,
        slices: &[IoSlice<'_>],
    ) -> Done {
        let mut total = 0;
        for chunk in slices.iter().flat_map(|slice| slice.chunks(MAXIMUM_BYTES)) {
            let bytes = self.scratch.bytes(chunk.len());
            bytes.copy_from_slice(chunk);
            let count = match offset {
                Some(offset) => rustix::io::pwrite(file, bytes, offset.saturating_add(total))?,
                None => rustix::io::write(file, bytes)?,
            };
            total += count as u64;
            if count < chunk.len() {
                break;
            }
        }
        Ok(Effect::returned(i64::try_from(total).unwrap_or(i64::MAX)))
    }

    /// Executes calls about size, position, flags and syncing.
    pub(super) fn adjust(&mut self, call: &TracedCall, action: &Action) -> Done {
        match action {
            Action::Seek { handle, offset, whence } => {
                // A listing starts again, or continues at an offset that only the traced file
                // system understands.
                handle.listing.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                self.seek(call, file_of(handle)?, *offset, *whence)
            }
            Action::Resize { handle, size } => {
                Ok(done(rustix::fs::ftruncate(file_of(handle)?, *size))?)
            }
            Action::Truncate { place, size } => {
                let file = self.places.open_place(
                    place,
                    OFlags::WRONLY | OFlags::NONBLOCK,
                    rustix::fs::Mode::empty(),
                )?;
                Ok(done(rustix::fs::ftruncate(file, *size))?)
            }
            Action::Allocate { handle, mode, offset, bytes } => {
                self.allocate(file_of(handle)?, *mode, *offset, *bytes)
            }
            Action::Sync { handle, how } => {
                let file = file_of(handle)?;
                Ok(done(match how {
                    Sync::All => rustix::fs::fsync(file),
                    Sync::Data => rustix::fs::fdatasync(file),
                    Sync::FileSystem => rustix::fs::syncfs(file),
                })?)
            }
            Action::Advise { handle, offset, bytes, advice } => {
                Ok(done(advise(file_of(handle)?, *offset, *bytes, *advice))?)
            }
            Action::GetFlags { handle } => {
                let actual = rustix::fs::fcntl_getfl(file_of(handle)?)?.bits();
                let compared = (sys::O_ACCMODE | sys::O_APPEND) as u32;
                let (expected, actual) = (call.result as u32 & compared, actual & compared);
                let difference = (expected != actual)
                    .then(|| (format!("flags {expected:#o}"), format!("flags {actual:#o}")));
                Ok(Effect { result: None, differences: difference.into_iter().collect() })
            }
            Action::SetFlags { handle, flags } => {
                let file = file_of(handle)?;
                let settable = OFlags::APPEND | OFlags::NOATIME;
                let kept = rustix::fs::fcntl_getfl(file)? - settable;
                Ok(done(rustix::fs::fcntl_setfl(
                    file,
                    kept | OFlags::from_bits_retain(*flags) & settable,
                ))?)
            }
            _ => Ok(Effect::success()),
        }
    }

    fn seek(&self, call: &TracedCall, file: BorrowedFd<'_>, offset: i64, whence: u32) -> Done {
        let position = match whence as i32 {
            sys::SEEK_SET => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::INVAL)?),
            sys::SEEK_CUR => SeekFrom::Current(offset),
            sys::SEEK_END => SeekFrom::End(offset),
            // The places of holes depend on the file system. The data that were read there do not.
            sys::SEEK_DATA | sys::SEEK_HOLE => {
                if let Ok(position) = u64::try_from(call.result) {
                    rustix::fs::seek(file, SeekFrom::Start(position))?;
                }
                return Err(Failure::Skipped("places of holes in files"));
            }
            _ => return Err(Errno::INVAL.into()),
        };
        let position = rustix::fs::seek(file, position)?;
        let is_elsewhere = !call.failed() && call.result.unsigned_abs() != position;
        // The position of a directory depends on the file system, too.
        let is_transfer = i64::from(call.number) != sys::SYS_lseek;
        if is_elsewhere && !is_transfer {
            let _ = rustix::fs::seek(file, SeekFrom::Start(call.result.unsigned_abs()));
        }
        let result = if is_transfer { None } else { i64::try_from(position).ok() };
        Ok(Effect { result, differences: Vec::new() })
    }

    fn allocate(&self, file: BorrowedFd<'_>, mode: u32, offset: u64, bytes: u64) -> Done {
        let reserves =
            mode & (sys::FALLOC_FL_PUNCH_HOLE | sys::FALLOC_FL_COLLAPSE_RANGE) as u32 == 0;
        if reserves && bytes > self.allocation_limit {
            return Err(Failure::Skipped("reserving more room than the limit"));
        }
        match rustix::fs::fallocate(file, FallocateFlags::from_bits_retain(mode), offset, bytes) {
            Err(Errno::OPNOTSUPP) => {
                Err(Failure::Skipped("ways of reserving room that this file system does not know"))
            }
            result => Ok(done(result)?),
        }
    }
}

/// Converts a success without a result of interest to the result 0.
pub(super) fn done(result: Result<(), Errno>) -> Result<Effect, Errno> {
    result.map(|()| Effect::returned(0))
}

/// Moves an open file to its traced position, so that one difference does not cause more.
fn restore_position(file: BorrowedFd<'_>, expected: u64, actual: u64) {
    let distance =
        i64::try_from(expected).unwrap_or(0).saturating_sub(i64::try_from(actual).unwrap_or(0));
    let _ = rustix::fs::seek(file, SeekFrom::Current(distance));
}

fn write_slices(
    file: BorrowedFd<'_>,
    offset: Option<u64>,
    slices: &mut Vec<IoSlice<'_>>,
    flags: u32,
) -> Done {
    let flags = ReadWriteFlags::from_bits_retain(flags & sys::RWF_APPEND as u32);
    let mut total = 0;
    let mut rest: &mut [IoSlice<'_>] = slices;
    loop {
        let now = &rest[..rest.len().min(MAXIMUM_PIECES)];
        let count = match (offset, now) {
            (None, [one]) => rustix::io::write(file, one)?,
            (Some(offset), [one]) if flags.is_empty() => {
                rustix::io::pwrite(file, one, offset.saturating_add(total))?
            }
            (None, _) => rustix::io::writev(file, now)?,
            (Some(offset), _) => {
                rustix::io::pwritev2(file, now, offset.saturating_add(total), flags)?
            }
        };
        total += count as u64;
        IoSlice::advance_slices(&mut rest, count);
        if count == 0 || rest.iter().all(|slice| slice.is_empty()) {
            return Ok(Effect::returned(i64::try_from(total).unwrap_or(i64::MAX)));
        }
    }
}

fn advise(file: BorrowedFd<'_>, offset: u64, bytes: u64, advice: u32) -> Result<(), Errno> {
    use rustix::fs::Advice;
    let advice = match advice as i32 {
        sys::POSIX_FADV_NORMAL => Advice::Normal,
        sys::POSIX_FADV_RANDOM => Advice::Random,
        sys::POSIX_FADV_SEQUENTIAL => Advice::Sequential,
        sys::POSIX_FADV_WILLNEED => Advice::WillNeed,
        sys::POSIX_FADV_DONTNEED => Advice::DontNeed,
        sys::POSIX_FADV_NOREUSE => Advice::NoReuse,
        _ => return Err(Errno::INVAL),
    };
    rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(bytes), advice)
}
