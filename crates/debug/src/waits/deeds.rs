//! What calls did to descriptors, locks on files and processes: everything that `holders` needs of
//! the events of a recording.

use crate::error::Result;
use retake_model::table::number;
use retake_model::{CallRef, Event, ItemDirection, StreamTimes, errno};
use retake_recording::{EventReader, Recording, StreamId, StreamInfo, StreamKind};

/// What one call did, with its thread and time.
#[derive(Debug)]
pub(super) struct Deed {
    pub ns: u64,
    pub stream: StreamId,
    pub index: u64,
    pub pid: i32,
    pub what: What,
}

/// What a call did.
#[derive(Debug)]
pub(super) enum What {
    /// The thread began.
    Begin,
    Pipe {
        ends: [u32; 2],
        closes_on_exec: bool,
    },
    Pair {
        ends: [u32; 2],
        closes_on_exec: bool,
    },
    Open {
        descriptor: u32,
        path: String,
        closes_on_exec: bool,
    },
    Duplicate {
        old: u32,
        new: u32,
        closes_on_exec: bool,
    },
    Close {
        first: u32,
        last: u32,
    },
    ClosesOnExec {
        descriptor: u32,
        closes: bool,
    },
    Exec,
    Child {
        stream: StreamId,
    },
    Exit {
        all_threads: bool,
    },
    Die,
    Kill {
        pid: i32,
    },
    LockFile {
        descriptor: u32,
        operation: u32,
    },
    LockRange {
        descriptor: u32,
        is_of_description: bool,
        range: Range,
    },
}

/// A range of a file, as `fcntl` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i16,
    pub start: i64,
    /// The length; 0 for up to the end.
    pub length: i64,
}

impl Range {
    /// Reads the bytes of a `struct flock`. A range that is not relative to the beginning of the
    /// file is taken to be the whole file.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let half = |at: usize| Some(i16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(i64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (kind, whence) = (half(0)?, half(2)?);
        let (start, length) = if whence == 0 { (word(8)?, word(16)?) } else { (0, 0) };
        Some(Self { kind, start, length })
    }

    fn end(self) -> i64 {
        if self.length == 0 { i64::MAX } else { self.start.saturating_add(self.length) }
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

const O_CLOEXEC: u64 = 0o2_000_000;
const FD_CLOEXEC: u64 = 1;
const CLOSE_RANGE_CLOEXEC: u64 = 4;

/// Returns all deeds of a recording in order, as far as it can be read.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn of(recording: &Recording) -> Result<Vec<Deed>> {
    let mut deeds = Vec::new();
    for stream in recording.streams().filter(|one| one.info.kind != StreamKind::Supervisor) {
        read(recording, &stream.info, &mut deeds)?;
    }
    let first = |stream: StreamId| {
        let of_stream = deeds.iter().filter(move |deed: &&Deed| deed.stream == stream);
        of_stream.map(|deed| deed.ns).min()
    };
    // A child may begin before the call that made it returns.
    let earlier: Vec<(usize, u64)> = deeds
        .iter()
        .enumerate()
        .filter_map(|(at, deed)| match deed.what {
            What::Child { stream } => Some((at, first(stream)?)),
            _ => None,
        })
        .collect();
    for (at, ns) in earlier {
        deeds[at].ns = deeds[at].ns.min(ns);
    }
    deeds.sort_by_key(|deed| (deed.ns, deed.stream.0, deed.index));
    Ok(deeds)
}

fn read(recording: &Recording, info: &StreamInfo, deeds: &mut Vec<Deed>) -> Result<()> {
    let scale = recording.time_scale();
    let mut times = scale.as_ref().map(StreamTimes::new);
    let mut reader = EventReader::new(recording, info.id)?;
    while let Ok(Some(numbered)) = reader.next() {
        let Ok(event) = numbered.event else { continue };
        let ns = times.as_mut().map_or(0, |times| times.pass(&event).ns);
        let what = match event.decode() {
            Event::Call(call) => deed(&call),
            Event::Exec(_) => Some(What::Exec),
            Event::Exit { call, .. } => {
                Some(What::Exit { all_threads: call == number::EXIT_GROUP })
            }
            Event::Fatal { .. } => Some(What::Die),
            Event::Start { .. } => Some(What::Begin),
            _ => None,
        };
        if let Some(what) = what {
            let (stream, index, pid) = (info.id, numbered.index, info.pid);
            deeds.push(Deed { ns, stream, index, pid, what });
        }
    }
    Ok(())
}

fn deed(call: &CallRef<'_>) -> Option<What> {
    if errno::of_result(call.result()).is_some() {
        return None;
    }
    if let Some(stream) = call.child() {
        return Some(What::Child { stream });
    }
    let argument = |index| call.argument(index).unwrap_or(0);
    let descriptor = call.result() as u32;
    let opened = |name, closes_on_exec| {
        Some(What::Open { descriptor, path: text(call, name)?, closes_on_exec })
    };
    match call.number() {
        number::PIPE | number::PIPE2 => {
            let closes_on_exec = call.number() == number::PIPE2 && argument(1) & O_CLOEXEC != 0;
            Some(What::Pipe { ends: pair(call, 0)?, closes_on_exec })
        }
        number::SOCKETPAIR => {
            let closes_on_exec = argument(1) & O_CLOEXEC != 0;
            Some(What::Pair { ends: pair(call, 3)?, closes_on_exec })
        }
        number::OPEN => opened(0, argument(1) & O_CLOEXEC != 0),
        number::CREAT => opened(0, false),
        number::OPENAT => opened(1, argument(2) & O_CLOEXEC != 0),
        number::OPENAT2 => opened(1, true),
        number::DUP => duplicate(argument(0), descriptor, false),
        number::DUP2 => duplicate(argument(0), descriptor, false),
        number::DUP3 => duplicate(argument(0), descriptor, argument(2) & O_CLOEXEC != 0),
        number::CLOSE => Some(What::Close { first: argument(0) as u32, last: argument(0) as u32 }),
        number::CLOSE_RANGE if argument(2) & CLOSE_RANGE_CLOEXEC == 0 => {
            Some(What::Close { first: argument(0) as u32, last: argument(1) as u32 })
        }
        number::KILL if argument(1) as i32 == libc::SIGKILL => {
            Some(What::Kill { pid: argument(0) as i32 })
        }
        number::FLOCK => {
            Some(What::LockFile { descriptor: argument(0) as u32, operation: argument(1) as u32 })
        }
        number::FCNTL => controlled(call),
        _ => None,
    }
}

fn controlled(call: &CallRef<'_>) -> Option<What> {
    let argument = |index| call.argument(index).unwrap_or(0);
    let (old, value) = (argument(0), argument(2));
    match argument(1) as i32 {
        libc::F_DUPFD => duplicate(old, call.result() as u32, false),
        libc::F_DUPFD_CLOEXEC => duplicate(old, call.result() as u32, true),
        libc::F_SETFD => {
            Some(What::ClosesOnExec { descriptor: old as u32, closes: value & FD_CLOEXEC != 0 })
        }
        command @ (libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW) => {
            let item = call.items_of(2, ItemDirection::Input).next()?;
            Some(What::LockRange {
                descriptor: old as u32,
                is_of_description: matches!(command, libc::F_OFD_SETLK | libc::F_OFD_SETLKW),
                range: Range::of(item.inline_bytes())?,
            })
        }
        _ => None,
    }
}

fn duplicate(old: u64, new: u32, closes_on_exec: bool) -> Option<What> {
    Some(What::Duplicate { old: old as u32, new, closes_on_exec })
}

/// The two descriptors that a call made.
fn pair(call: &CallRef<'_>, argument: usize) -> Option<[u32; 2]> {
    let item = call.items_of(argument, ItemDirection::Output).next()?;
    let number =
        |at: usize| Some(u32::from_le_bytes(*item.inline_bytes().get(at..)?.first_chunk()?));
    Some([number(0)?, number(4)?])
}

fn text(call: &CallRef<'_>, argument: usize) -> Option<String> {
    let item = call.items_of(argument, ItemDirection::Input).next()?;
    let bytes = item.inline_bytes().split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}
