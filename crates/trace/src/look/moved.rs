//! Data that the kernel moves between descriptors without showing them to the program.
//!
//! They are read again from where they came from or went to: from the source if it is a file, else
//! from the destination if it is a file, else from the pipe that they went into. The data in a
//! socket are peeked at before the call. If another thread changes the file or empties the pipe in
//! between, the data differ or are missing.

use super::Sink;
use crate::state;
use retake_kernel::memory;
use retake_model::table::number;
use retake_record::Moment;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};

const SENDFILE: u64 = number::SENDFILE as u64;
const TEE: u64 = number::TEE as u64;
const IOCTL: u64 = number::IOCTL as u64;
/// `FICLONE` of `linux/fs.h`.
const CLONE: u32 = 0x4004_9409;

/// The most bytes of one event.
const PIECE: usize = 1 << 20;
/// The size of our pipes. No more is peeked at before a call.
const PIPE_BYTES: usize = 1 << 20;

/// One side of a move: a descriptor, and a position in it.
struct Side {
    descriptor: i32,
    /// The position of the first byte, if it is known.
    start: Option<u64>,
}

/// Both sides, and the number of bytes moved.
struct Move {
    from: Side,
    to: Side,
    bytes: u64,
}

/// Returns the data in the socket that a call is about to move data from. Empty if it is not a
/// socket, or has none.
pub(super) fn peek(moment: &Moment) -> Vec<u8> {
    let size = moment.arguments[if moment.number == SENDFILE { 3 } else { 4 }]
        .min(PIPE_BYTES as u64) as usize;
    let (source, _) = descriptors(moment);
    let mut bytes = vec![0; size];
    let is_socket =
        |file: &File| file.metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    let peeked =
        memory::descriptor_of(moment.pid, source).ok().filter(is_socket).and_then(|socket| {
            rustix::net::recv(&socket, bytes.as_mut_slice(), RecvFlags::PEEK | RecvFlags::DONTWAIT)
                .ok()
        });
    bytes.truncate(peeked.map_or(0, |(count, _)| count));
    bytes
}

/// Returns source and destination.
fn descriptors(moment: &Moment) -> (i32, i32) {
    let number = |index: usize| moment.arguments[index] as i32;
    match moment.number {
        SENDFILE => (number(1), number(0)),
        TEE => (number(0), number(1)),
        IOCTL => (number(2), number(0)),
        _ => (number(0), number(2)),
    }
}

/// Takes the bytes that a call has moved.
pub(super) fn capture(moment: &Moment, peeked: Option<Vec<u8>>, sink: Sink<'_>) -> io::Result<()> {
    let Some(moved) = what_moved(moment).filter(|moved| moved.bytes > 0) else { return Ok(()) };
    if let Some(bytes) = peeked.filter(|bytes| bytes.len() as u64 >= moved.bytes) {
        return put(&bytes[..moved.bytes as usize], sink);
    }
    for side in [&moved.from, &moved.to] {
        if let (Some(file), Some(start)) = (regular(moment.pid, side.descriptor), side.start) {
            return put_file(&file, start, moved.bytes, sink);
        }
    }
    let in_pipe = match moment.number {
        TEE => pipe_content(moment.pid, moved.from.descriptor)
            .map(|bytes| bytes.get(..moved.bytes as usize).map(<[u8]>::to_vec)),
        _ => pipe_content(moment.pid, moved.to.descriptor).map(|bytes| tail(&bytes, moved.bytes)),
    };
    match in_pipe {
        Ok(Some(bytes)) => put(&bytes, sink),
        // Another thread took them out, or they were never peeked at. The record says that they are
        // missing.
        _ => Ok(()),
    }
}

fn tail(bytes: &[u8], count: u64) -> Option<Vec<u8>> {
    bytes.len().checked_sub(usize::try_from(count).ok()?).map(|start| bytes[start..].to_vec())
}

fn what_moved(moment: &Moment) -> Option<Move> {
    let (from, to) = descriptors(moment);
    let bytes = u64::try_from(moment.result).ok()?;
    let (from_pointer, to_pointer) = match moment.number {
        SENDFILE => (moment.arguments[2], 0),
        TEE => (0, 0),
        IOCTL => return cloned(moment),
        _ => (moment.arguments[1], moment.arguments[3]),
    };
    let start = |descriptor, pointer| {
        let now = if pointer == 0 {
            state::position(moment.pid, descriptor)
        } else {
            word(moment.pid, pointer)
        };
        now.and_then(|now| now.checked_sub(bytes))
    };
    let side = |descriptor, pointer| Side { descriptor, start: start(descriptor, pointer) };
    Some(Move { from: side(from, from_pointer), to: side(to, to_pointer), bytes })
}

/// Returns the move of a call that makes files share blocks.
fn cloned(moment: &Moment) -> Option<Move> {
    let (destination, third) = (moment.arguments[0] as i32, moment.arguments[2]);
    let (source, from, length, to) = match moment.arguments[1] as u32 {
        CLONE => (third as i32, 0, 0, 0),
        _ => (
            word(moment.pid, third)? as i32,
            word(moment.pid, third + 8)?,
            word(moment.pid, third + 16)?,
            word(moment.pid, third + 24)?,
        ),
    };
    let size = regular(moment.pid, source)?.metadata().ok()?.len();
    let rest = size.checked_sub(from)?;
    let bytes = if length == 0 { rest } else { length.min(rest) };
    Some(Move {
        from: Side { descriptor: source, start: Some(from) },
        to: Side { descriptor: destination, start: Some(to) },
        bytes,
    })
}

fn word(pid: i32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory::read(pid, address, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Opens the file behind a descriptor separately, for reading.
fn regular(pid: i32, descriptor: i32) -> Option<File> {
    let path = format!("/proc/{pid}/fd/{descriptor}");
    std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    File::open(path).ok()
}

fn put_file(file: &File, start: u64, bytes: u64, sink: Sink<'_>) -> io::Result<()> {
    let mut piece = vec![0; usize::try_from(bytes).unwrap_or(PIECE).min(PIECE)];
    let mut done = 0;
    while done < bytes {
        let wanted = usize::try_from(bytes - done).unwrap_or(PIECE).min(PIECE);
        let Ok(count @ 1..) = file.read_at(&mut piece[..wanted], start + done) else {
            return Ok(());
        };
        put(&piece[..count], sink)?;
        done += count as u64;
    }
    Ok(())
}

fn put(bytes: &[u8], sink: Sink<'_>) -> io::Result<()> {
    bytes.chunks(PIECE).try_for_each(|piece| sink(&moved_event(piece)))
}

/// Makes an event with some of the bytes.
fn moved_event(bytes: &[u8]) -> Vec<u8> {
    let mut body = (bytes.len() as u64).to_le_bytes().to_vec();
    body.extend(bytes);
    state::event(state::kind::MOVED, &body)
}

/// Returns the bytes of such an event. `None` for other bodies.
pub(crate) fn bytes_of(body: &[u8]) -> Option<&[u8]> {
    let (count, bytes) = body.split_first_chunk()?;
    bytes.get(..usize::try_from(u64::from_le_bytes(*count)).ok()?)
}

/// Returns the contents of a pipe, without taking them out.
fn pipe_content(pid: i32, descriptor: i32) -> io::Result<Vec<u8>> {
    let path = format!("/proc/{pid}/fd/{descriptor}");
    if !std::fs::metadata(&path)?.file_type().is_fifo() {
        return Ok(Vec::new());
    }
    let pipe = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // If that fails, the pipe keeps the default size, which most pipes have.
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_BYTES);
    rustix::pipe::tee(pipe.as_fd(), &writer, PIPE_BYTES, SpliceFlags::NONBLOCK)?;
    drop(writer);
    let mut bytes = Vec::new();
    File::from(reader).read_to_end(&mut bytes)?;
    Ok(bytes)
}
