//! What the programs in the kernel write: `bpf/record.h` and `bpf/program.c` are the other side.

/// Bytes before a record's body.
pub(crate) const HEADER_BYTES: usize = 24;

/// Something that a thread did.
#[derive(Debug, Clone, Copy)]
pub struct Record<'ring> {
    /// Which thread: unique among all that ever were.
    pub thread: u64,
    /// The how-manieth record of the thread. Those of one thread may come through several rings.
    pub sequence: u32,
    /// Its number; that of the maker in [`Body::Start`].
    pub tid: u32,
    /// The thread was sent the signal that holds it until its tracer lets it go on.
    pub is_stopped: bool,
    /// What it did.
    pub body: Body<'ring>,
    bytes: &'ring [u8],
}

/// A record that waits for those before it.
#[derive(Debug, Clone)]
pub struct OwnedRecord(Vec<u8>);

impl OwnedRecord {
    /// The record.
    pub fn record(&self) -> Record<'_> {
        Record::parse(&self.0)
    }
}

/// What a thread did.
#[derive(Debug, Clone, Copy)]
pub enum Body<'ring> {
    /// A CALL event, whole.
    Call(&'ring [u8]),
    /// A CALL event without its data. They are in the memory of the thread, which is held
    /// meanwhile.
    Held {
        /// The event.
        event: &'ring [u8],
        /// What value-result lengths were before the call, by argument.
        before: [u64; 6],
        /// Nor was it possible to read them before the call.
        is_faulted: bool,
    },
    /// Items with what the call that the thread is in may change or outlive.
    Inputs(&'ring [u8]),
    /// Another event, whole.
    Event(&'ring [u8]),
    /// The first record of a new thread.
    Start {
        /// The thread that made it.
        parent: u64,
        /// Its process.
        process: u32,
        /// Its number.
        tid: u32,
        /// It is a thread of its maker's process.
        is_thread: bool,
        /// Nanoseconds since 1970.
        time_ns: u64,
    },
    /// A program begins.
    Exec {
        /// The call that asked for it; `None` if it was not the program's own.
        call: Option<ExecCall>,
        /// What was executed.
        path: &'ring [u8],
        /// Inputs of the call could not be read at its entry.
        is_faulted: bool,
    },
    /// The last record of a thread.
    End {
        /// As a wait status.
        status: u32,
    },
    /// Not what the programs write.
    Malformed,
}

/// An exec as it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecCall {
    /// Number of the call.
    pub number: u32,
    /// Nanoseconds since 1970.
    pub entered_ns: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

const STOPPED: u8 = 1;
const FAULTED: u8 = 2;
/// Behind the event of a held call.
const HELD_BYTES: usize = 48;
/// Before the path of an exec.
const EXEC_BYTES: usize = 72;

impl<'ring> Record<'ring> {
    /// Bytes of the record that begins with these [`HEADER_BYTES`].
    pub(crate) fn size(header: &[u8]) -> u32 {
        u32_at(header, 0)
    }

    /// Reads a whole record.
    pub(crate) fn parse(bytes: &'ring [u8]) -> Self {
        let (kind, flags) = (bytes[4], bytes[5]);
        let body = Body::parse(kind, flags & FAULTED != 0, &bytes[HEADER_BYTES..])
            .unwrap_or(Body::Malformed);
        let is_stopped = flags & STOPPED != 0;
        Self {
            thread: u64_at(bytes, 8),
            sequence: u32_at(bytes, 16),
            tid: u32_at(bytes, 20),
            is_stopped,
            body,
            bytes,
        }
    }

    /// A copy that outlives the ring's.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord(self.bytes.to_vec())
    }
}

impl<'ring> Body<'ring> {
    fn parse(kind: u8, is_faulted: bool, body: &'ring [u8]) -> Option<Self> {
        Some(match kind {
            0 => Self::Call(body),
            1 => {
                let (event, tail) = body.split_at(body.len().checked_sub(HELD_BYTES)?);
                Self::Held { event, before: words(tail), is_faulted }
            }
            2 => Self::Inputs(body),
            3 => Self::Event(body),
            4 if body.len() >= 32 => Self::Start {
                parent: u64_at(body, 0),
                process: u32_at(body, 8),
                tid: u32_at(body, 12),
                is_thread: u32_at(body, 16) != 0,
                time_ns: u64_at(body, 24),
            },
            5 => {
                let (fixed, path) = body.split_at_checked(EXEC_BYTES)?;
                let call = ExecCall {
                    number: u64_at(fixed, 8) as u32,
                    entered_ns: u64_at(fixed, 16),
                    arguments: words(&fixed[24..]),
                };
                Self::Exec {
                    call: Some(call).filter(|_| u64_at(fixed, 8) != u64::MAX),
                    path: path.get(..u32_at(fixed, 0) as usize)?,
                    is_faulted,
                }
            }
            6 if body.len() >= 8 => Self::End { status: u32_at(body, 0) },
            _ => return None,
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn words(bytes: &[u8]) -> [u64; 6] {
    std::array::from_fn(|index| u64_at(bytes, index * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_le_bytes().to_vec();
        bytes.extend([kind, flags, 0, 0]);
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(99u32.to_le_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn records_are_read() {
        let exec = [&4u64.to_le_bytes()[..], &[0xff; 8], &[0; 56], b"/a/b0000"].concat();
        let bytes = record(5, FAULTED, &exec);
        let read = Record::parse(&bytes);
        assert_eq!((read.thread, read.sequence, read.tid, read.is_stopped), (7, 3, 99, false));
        assert!(
            matches!(read.body, Body::Exec { call: None, path: b"/a/b", is_faulted: true }),
            "{read:?}"
        );
        let held = [&[1; 16][..], &[2; 48]].concat();
        let bytes = record(1, STOPPED, &held);
        assert!(matches!(
            Record::parse(&bytes),
            Record { is_stopped: true, body: Body::Held { event: [1, ..], .. }, .. }
        ));
    }

    #[test]
    fn nonsense_is_told_from_records() {
        for (kind, body) in [(1, 40), (4, 24), (5, 64), (6, 0), (9, 8)] {
            let bytes = record(kind, 0, &vec![0xff; body]);
            assert!(matches!(Record::parse(&bytes).body, Body::Malformed), "{kind}");
        }
    }
}
