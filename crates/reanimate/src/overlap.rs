//! Reads and writes of the same bytes that overlapped in time: what was read tells which was first.

use libc as sys;
use retake_trace_format::{BufferDirection, TraceRecord, TracedCall};

/// Whether the second call, which overlaps the first, must have been before it: one reads what the other writes, by a
/// descriptor of the same process, and read the new bytes, or old ones.
pub fn must_precede(first: &TraceRecord, second: &TraceRecord) -> bool {
    let (TraceRecord::Call(first), TraceRecord::Call(second)) = (first, second) else {
        return false;
    };
    if second.entered_ns >= first.returned_ns || first.process != second.process || first.arguments[0] != second.arguments[0] {
        return false;
    }
    match (first.number.into(), second.number.into()) {
        (sys::SYS_pread64, sys::SYS_pwrite64) => read_it(first, second) == Some(true),
        (sys::SYS_pwrite64, sys::SYS_pread64) => read_it(second, first) == Some(false),
        _ => false,
    }
}

/// Whether a read got what a write wrote; `None` if they have no bytes in common.
fn read_it<'call>(read: &'call TracedCall, write: &'call TracedCall) -> Option<bool> {
    let (got, put) = (data(read, BufferDirection::Output)?, data(write, BufferDirection::Input)?);
    let (read_start, write_start) = (read.arguments[3], write.arguments[3]);
    let start = read_start.max(write_start);
    let end = read_start.checked_add(got.len() as u64)?.min(write_start.checked_add(put.len() as u64)?);
    if start >= end {
        return None;
    }
    let part = |data: &'call [u8], first: u64| &data[(start - first) as usize..(end - first) as usize];
    Some(part(got, read_start) == part(put, write_start))
}

/// What was moved.
fn data(call: &TracedCall, direction: BufferDirection) -> Option<&[u8]> {
    let length = usize::try_from(call.result).ok()?;
    call.buffers_of(1, direction).next()?.data.get(..length)
}
