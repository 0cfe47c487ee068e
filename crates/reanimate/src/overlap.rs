//! The order of calls that overlapped in time, as far as their results tell it. That is the case
//! for reads and writes of the same bytes, for the close of a descriptor and the open that got its
//! number, and for the end of a named pipe's data and the open of its next writer.

use libc as sys;
use retake_trace_format::{BufferDirection, TraceRecord, TracedCall};

use crate::calls::Opening;

/// Whether the second call, which overlaps the first in the same process, must have come before it.
/// That is so if one reads what the other writes through the same descriptor, and the data that it
/// read show the order. It is also so if the first call got the descriptor number that the second
/// call closes.
pub fn must_precede(first: &TraceRecord, second: &TraceRecord) -> bool {
    let (TraceRecord::Call(first), TraceRecord::Call(second)) = (first, second) else {
        return false;
    };
    if second.entered_ns >= first.returned_ns || first.process != second.process {
        return false;
    }
    if i64::from(second.number) == sys::SYS_close {
        return !second.failed() && got_descriptor(first, second.arguments[0] as u32);
    }
    if first.arguments[0] != second.arguments[0] {
        return false;
    }
    match (first.number.into(), second.number.into()) {
        (sys::SYS_pread64, sys::SYS_pwrite64) => read_it(first, second) == Some(true),
        (sys::SYS_pwrite64, sys::SYS_pread64) => read_it(second, first) == Some(false),
        _ => false,
    }
}

/// Whether a call got an end of data, which may be that of a pipe without writers.
pub fn is_end(call: &TracedCall) -> bool {
    let requested = match call.number.into() {
        sys::SYS_read | sys::SYS_readv => call.arguments[2],
        sys::SYS_splice => call.arguments[4],
        _ => 0,
    };
    call.result == 0 && requested > 0
}

/// Whether a call opened something for writing. While a named pipe has a writer, a read gets no end
/// of data.
pub fn opens_to_write(call: &TracedCall) -> bool {
    !call.failed() && Opening::of(call).is_some_and(|opening| opening.writes())
}

/// Whether a call may have closed the write end of a pipe.
pub fn closes(call: &TracedCall) -> bool {
    !call.failed()
        && matches!(
            call.number.into(),
            sys::SYS_close | sys::SYS_close_range | sys::SYS_dup2 | sys::SYS_dup3
        )
}

/// Whether a call of another thread was entered before this one returned.
pub fn reaches_into(other: &TracedCall, call: &TracedCall) -> bool {
    other.thread != call.thread && other.entered_ns < call.returned_ns
}

/// Whether a call got this descriptor number from the kernel.
fn got_descriptor(call: &TracedCall, number: u32) -> bool {
    let is_result = call.result == i64::from(number);
    match call.number.into() {
        sys::SYS_open
        | sys::SYS_openat
        | sys::SYS_openat2
        | sys::SYS_creat
        | sys::SYS_dup
        | sys::SYS_memfd_create => is_result,
        sys::SYS_socket
        | sys::SYS_accept
        | sys::SYS_accept4
        | sys::SYS_epoll_create1
        | sys::SYS_eventfd2
        | sys::SYS_timerfd_create => is_result,
        sys::SYS_fcntl => {
            is_result && matches!(call.arguments[1] as i32, sys::F_DUPFD | sys::F_DUPFD_CLOEXEC)
        }
        sys::SYS_pipe | sys::SYS_pipe2 if !call.failed() => {
            let pair = call.buffers_of(0, BufferDirection::Output).next();
            pair.is_some_and(|pair| {
                pair.data.chunks_exact(4).any(|bytes| bytes == number.to_le_bytes())
            })
        }
        _ => false,
    }
}

/// Whether a read got the data of a write. `None` if they have no bytes in common.
fn read_it<'call>(read: &'call TracedCall, write: &'call TracedCall) -> Option<bool> {
    let (got, put) = (data(read, BufferDirection::Output)?, data(write, BufferDirection::Input)?);
    let (read_start, write_start) = (read.arguments[3], write.arguments[3]);
    let start = read_start.max(write_start);
    let end =
        read_start.checked_add(got.len() as u64)?.min(write_start.checked_add(put.len() as u64)?);
    if start >= end {
        return None;
    }
    let part =
        |data: &'call [u8], first: u64| &data[(start - first) as usize..(end - first) as usize];
    Some(part(got, read_start) == part(put, write_start))
}

/// The data that a call moved.
fn data(call: &TracedCall, direction: BufferDirection) -> Option<&[u8]> {
    let length = usize::try_from(call.result).ok()?;
    call.buffers_of(1, direction).next()?.data.get(..length)
}
