//! Records of the programs in the kernel. `bpf/record.h` and `bpf/program.c` write them.

/// Bytes before a record's body.
pub(crate) const HEADER_BYTES: usize = 24;

/// A record of what a thread did.
#[derive(Debug, Clone, Copy)]
pub struct Record<'ring> {
    /// The thread, by a number that is unique for the whole trace.
    pub thread: u64,
    /// Number of the record among the thread's, which may come through several rings.
    pub sequence: u32,
    /// Thread ID; in [`Body::Start`], that of the parent thread.
    pub tid: u32,
    /// Whether the thread was sent the signal that holds it until its tracer resumes it.
    pub is_stopped: bool,
    /// What it did.
    pub body: Body<'ring>,
    bytes: &'ring [u8],
}

/// A copy of a record, which waits for the records before it.
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
    /// A whole CALL event.
    Call(&'ring [u8]),
    /// A CALL event without its data. The data are in the memory of the thread, which is held
    /// meanwhile.
    Held {
        /// The event.
        event: &'ring [u8],
        /// The value-result lengths before the call, by argument.
        before: [u64; 6],
        /// Whether inputs could not be read before the call either.
        is_faulted: bool,
    },
    /// Items with inputs that the present call may change, or that are gone after it.
    Inputs(&'ring [u8]),
    /// Another whole event.
    Event(&'ring [u8]),
    /// The first record of a new thread.
    Start {
        /// The parent thread.
        parent: u64,
        /// Its process.
        process: u32,
        /// The thread ID.
        tid: u32,
        /// Whether the thread belongs to its parent's process.
        is_thread: bool,
        /// Nanoseconds since 1970.
        time_ns: u64,
    },
    /// An exec: a program begins.
    Exec {
        /// The exec call. `None` if it was not made by the traced program.
        call: Option<ExecCall>,
        /// The path of the program.
        path: &'ring [u8],
        /// Whether inputs of the call could not be read at entry.
        is_faulted: bool,
    },
    /// The last record of a thread.
    End {
        /// The wait status.
        status: u32,
    },
    /// Something that the programs do not write.
    Malformed,
}

/// The exec call at its entry.
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
/// Bytes after the event of a held call.
const HELD_BYTES: usize = 48;
/// Bytes before the path of an exec.
const EXEC_BYTES: usize = 72;

impl<'ring> Record<'ring> {
    /// Returns the size in bytes of the record that begins with this header of [`HEADER_BYTES`].
    pub(crate) fn size(header: &[u8]) -> u32 {
        u32_at(header, 0)
    }

    /// Parses a whole record.
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

    /// Copies the record out of the ring.
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
