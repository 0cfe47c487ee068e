//! Reads events, in the layout of docs/DESIGN.md, from untrusted bytes.
//!
//! [`parse_event`] checks an event completely: its size, its body by kind, and every argument and
//! item of a call. The returned event can be walked without further errors. Its meaning is not
//! checked: a call with a result that no kernel returns is an event like any other.

use retake_contract::context::{forced_body, registers};
use retake_contract::events::{
    BINDING_BESIDE, EVENT_STAMPED, PASSAGE_ROUND, STAMP_SHIFT, STAMP_WHOLE, TIME_COMPLETE,
    TSC_PROCESSOR, TSC_RANDOM, TSC_RDTSCP, TURN_AGAIN, TURN_FIRST_THREAD, TURN_GIVEN, TURN_SHARED,
    after_body, event as layout, reached_body, sections_body, time_body,
};

use crate::bytes::{read_i64, read_u32, read_u64};
use crate::call::argument_count;
use crate::dropped::Dropped;
use crate::exec::ExecRef;
use crate::ids::{Pid, StreamId};
use crate::item;
use crate::reached::Reached;
use crate::signal::SIGINFO_BYTES;
use crate::table::{self, number};
use crate::time_point::TimePoint;

pub use crate::account::ThreadAccount;
pub use crate::call::{CallRef, Console};
pub use crate::event_error::EventError;
pub use crate::signal_event::{Fault, SignalRef};
pub use retake_contract::events::{
    CALL_CONSOLE_ERR, CALL_CONSOLE_OUT, EXEC_COMMITTED, EventKind, SIGNAL_BEFORE_CALL,
};

/// The size of an event's header, which is also the smallest event.
pub const HEADER_BYTES: usize = layout::LAYOUT_BYTES;

/// The size of a stamp, after the body.
const STAMP_BYTES: usize = 8;

/// A checked event.
#[derive(Debug, Clone, Copy)]
pub struct EventRef<'log> {
    kind: EventKind,
    flags: u8,
    number: u16,
    value: i64,
    bytes: &'log [u8],
    /// The offset of the body's end in `bytes`.
    body_end: usize,
}

/// The contents of an event, by kind.
#[derive(Debug, Clone, Copy)]
pub enum Event<'log> {
    Call(CallRef<'log>),
    /// A signal was delivered to a handler.
    Signal(SignalRef<'log>),
    /// A signal ended the process. `hash` is the hash of its memory.
    Fatal {
        signal: SignalRef<'log>,
        hash: u64,
    },
    /// The thread called `exit` or `exit_group`.
    Exit {
        call: u16,
        status: i64,
        hash: u64,
        pages: u64,
    },
    /// The program read the time-stamp counter. `aux` is set for RDTSCP.
    Tsc {
        counter: u64,
        aux: Option<u64>,
    },
    /// The runtime answered another instruction, which is given by name.
    Answer {
        instruction: &'static str,
        value: u64,
    },
    Exec(ExecRef<'log>),
    /// The first event of a stream.
    Start {
        /// The stream of the thread that created this one; `None` for the first process.
        parent: Option<StreamId>,
        pid: Pid,
        tid: Pid,
        how: u64,
    },
    /// The thread has the baton from here on.
    Turn {
        turn: u64,
        how: TurnKind,
    },
    /// The thread gives the baton away at the beginning of a function that locks, or while it
    /// spins. Its turn follows.
    Passage {
        /// How many such functions the thread has begun, including this one, or how many rounds it
        /// has spun.
        count: u64,
        spins: bool,
    },
    /// The thread was stopped between events, for a signal or to give up the baton. `state` has its
    /// registers and the hash of its stack window.
    Forced {
        signal: u16,
        hash: u64,
        state: &'log [u8],
    },
    /// Memory is compared here.
    Hash {
        hash: u64,
        pages: u64,
    },
    /// The thread died without a last event of its own.
    End {
        status: u64,
    },
    /// In the supervisor's stream: the account of a thread that has ended.
    Thread {
        stream: StreamId,
        account: ThreadAccount,
    },
    /// In the supervisor's stream: a reading of the counter and the clocks.
    Time(TimePoint),
    /// In traces: the initial state of a process, written by the tracer.
    State {
        text: &'log [u8],
    },
    /// In the supervisor's stream: what was dropped. See [`crate::Dropped`].
    Dropped {
        body: &'log [u8],
    },
    /// Under the sync policy: a compare-and-exchange failed. The fields are the value that it saw.
    Compare {
        low: u64,
        high: u64,
    },
    /// In the supervisor's stream, under the sync policy: how far a thread had come.
    Reached {
        stream: StreamId,
        how_far: Reached,
    },
    /// Under the sync policy: signals come after an operation of the thread. `operations` is how
    /// many it had ended.
    Behind {
        operations: u64,
    },
    /// Under the sync policy: the thread had the dynamic linker bind the function of this slot.
    Binding {
        slot: u64,
        /// Another thread had not come to the end of its binding.
        beside: bool,
    },
    /// Under the sync policy: the thread's next operation comes after so many operations of another
    /// thread.
    After {
        operations: u64,
        of: StreamId,
        /// How many operations the thread itself had ended.
        own: u64,
        clock: u32,
    },
}

/// Stands in place of a parent's stream number if there is no parent.
pub const NO_PARENT: u32 = u32::MAX;

/// Returns the parent for a stored stream number.
pub fn parent_stream(number: u32) -> Option<StreamId> {
    (number != NO_PARENT).then_some(StreamId(number))
}

/// In a START event: the recorder began the thread, or attached to it.
pub const BY_NOBODY: u64 = 0;
/// In a START event: the thread is the first one of a process with memory of its own.
pub const BY_FORK: u64 = 1;
/// In a START event: the thread is the first one of a process that began in its maker's memory.
pub const BY_VFORK: u64 = 2;
/// In a START event: the thread is another one of its maker's process.
pub const AS_THREAD: u64 = 3;

/// Why a thread waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnKind {
    /// The thread takes the turn before the event that follows.
    Again,
    /// The process creates its first thread.
    FirstThread,
    /// As `Again`, among all processes that share memory. The process joins them if it has not yet.
    Shared,
    /// The thread gives the baton away before it returns to its code. Its turn follows.
    Given,
    /// A number that no runtime writes.
    Unknown(u16),
}

impl TurnKind {
    fn from_number(number: u16) -> Self {
        match number {
            TURN_AGAIN => Self::Again,
            TURN_FIRST_THREAD => Self::FirstThread,
            TURN_SHARED => Self::Shared,
            TURN_GIVEN => Self::Given,
            other => Self::Unknown(other),
        }
    }
}

/// Checks the event at the beginning of `bytes`. Returns the event and its size; the next event
/// begins after it.
///
/// # Errors
/// [`EventError::Truncated`] if `bytes` ends within the event; other errors if the event is
/// malformed.
pub fn parse_event(bytes: &[u8]) -> Result<(EventRef<'_>, usize), EventError> {
    let available = bytes.len();
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(EventError::Truncated { needed: HEADER_BYTES, available });
    };
    let needed = event_size(header)?;
    let kind = header[layout::KIND];
    let kind = EventKind::from_number(kind).ok_or(EventError::Kind { kind })?;
    let bytes = bytes.get(..needed).ok_or(EventError::Truncated { needed, available })?;
    let flags = header[layout::FLAGS];
    let number = u16::from_le_bytes([header[layout::NUMBER], header[layout::NUMBER + 1]]);
    let value = read_i64(header, layout::VALUE);
    let is_stamped = flags & EVENT_STAMPED != 0;
    let body_end = needed - if is_stamped { STAMP_BYTES } else { 0 };
    if body_end < HEADER_BYTES {
        return Err(EventError::Size { size: needed as u32 });
    }
    let flags = flags & !EVENT_STAMPED;
    let event = EventRef { kind, flags, number, value, bytes, body_end };
    event.check_body()?;
    Ok((event, needed))
}

/// Returns the size of the event at the beginning of `bytes`. Needs only its first four bytes.
///
/// # Errors
/// [`EventError::Truncated`] or [`EventError::Size`].
pub fn event_size(bytes: &[u8]) -> Result<usize, EventError> {
    let Some(size) = bytes.first_chunk::<4>() else {
        return Err(EventError::Truncated { needed: 4, available: bytes.len() });
    };
    let size = u32::from_le_bytes(*size);
    if !size.is_multiple_of(8) || (size as usize) < HEADER_BYTES {
        return Err(EventError::Size { size });
    }
    Ok(size as usize)
}

impl<'log> EventRef<'log> {
    /// Whether this is a call that is about to execute a program. The next event gives the outcome:
    /// an exec, or the call again with its result.
    pub fn is_begun_exec(&self) -> bool {
        self.kind == EventKind::Call
            && matches!(self.number, number::EXECVE | number::EXECVEAT)
            && self.value == EXEC_COMMITTED
    }

    /// Whether this is a reading of the clocks before which all events are in the recording.
    pub fn is_complete(&self) -> bool {
        self.kind == EventKind::Time && self.flags & TIME_COMPLETE != 0
    }

    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// Returns the flags, whose meaning depends on the kind.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether the event has a stamp.
    pub fn has_stamp(&self) -> bool {
        self.body_end < self.bytes.len()
    }

    /// Returns the time-stamp counter at the event, in ticks, if it has a stamp. `before` is the
    /// counter at the previous stamp in the stream; 0 if there is none.
    pub fn counter(&self, before: u64) -> Option<u64> {
        let stamp = self.bytes.get(self.body_end..).filter(|bytes| !bytes.is_empty())?;
        let units = read_u64(stamp, 0);
        Some(match units & (STAMP_WHOLE | STAMP_WHOLE << 1) {
            STAMP_WHOLE => (units ^ STAMP_WHOLE) << STAMP_SHIFT,
            _ => before.wrapping_add(units << STAMP_SHIFT),
        })
    }

    /// Returns the system-call number or the signal number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the result, time-stamp counter, memory hash or sequence number.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// Returns all bytes, including the header.
    pub fn bytes(&self) -> &'log [u8] {
        self.bytes
    }

    /// Returns the bytes after the header, without the stamp.
    pub fn body(&self) -> &'log [u8] {
        &self.bytes[HEADER_BYTES..self.body_end]
    }

    /// Decodes the event by kind.
    pub fn decode(&self) -> Event<'log> {
        let body = self.body();
        let value = self.value as u64;
        match self.kind {
            EventKind::Call => Event::Call(CallRef::new(self.number, self.flags, self.value, body)),
            EventKind::Signal => Event::Signal(self.signal()),
            EventKind::Fatal => Event::Fatal { signal: self.signal(), hash: value },
            EventKind::Exit => Event::Exit {
                call: self.number,
                status: self.value,
                hash: read_u64(body, 0),
                pages: read_u64(body, 8),
            },
            EventKind::Tsc if self.number == TSC_RANDOM => {
                Event::Answer { instruction: "rdrand", value }
            }
            EventKind::Tsc if self.number == TSC_PROCESSOR => {
                Event::Answer { instruction: "rdpid", value }
            }
            EventKind::Tsc => Event::Tsc {
                counter: value,
                aux: (self.number == TSC_RDTSCP).then(|| read_u64(body, 0)),
            },
            EventKind::Exec => Event::Exec(ExecRef::new(body)),
            EventKind::Start => Event::Start {
                parent: parent_stream(value as u32),
                pid: Pid(read_u32(body, 0) as i32),
                tid: Pid(read_u32(body, 4) as i32),
                how: read_u64(body, 8),
            },
            EventKind::Turn => Event::Turn { turn: value, how: TurnKind::from_number(self.number) },
            EventKind::Passage => {
                Event::Passage { count: value, spins: self.number == PASSAGE_ROUND }
            }
            EventKind::Forced => Event::Forced { signal: self.number, hash: value, state: body },
            EventKind::Hash => Event::Hash { hash: value, pages: read_u64(body, 0) },
            EventKind::End => Event::End { status: value },
            EventKind::Thread => {
                Event::Thread { stream: StreamId(value as u32), account: ThreadAccount::read(body) }
            }
            EventKind::Time => Event::Time(TimePoint::read(value, body)),
            EventKind::State => Event::State { text: body },
            EventKind::Dropped => Event::Dropped { body },
            EventKind::Compare => Event::Compare { low: value, high: read_u64(body, 0) },
            EventKind::Reached => {
                Event::Reached { stream: StreamId(value as u32), how_far: Reached::read(body) }
            }
            EventKind::Behind => {
                Event::Behind { operations: read_u64(body, sections_body::OPERATIONS) }
            }
            EventKind::Binding => {
                Event::Binding { slot: value, beside: self.flags & BINDING_BESIDE != 0 }
            }
            EventKind::After => Event::After {
                operations: value,
                of: StreamId(read_u32(body, after_body::STREAM)),
                own: read_u64(body, after_body::OPERATIONS),
                clock: read_u32(body, after_body::CLOCK),
            },
        }
    }

    /// Returns where a FORCED event stopped the thread; `None` for other events.
    pub fn forced_at(&self) -> Option<u64> {
        const PROGRAM_COUNTER: usize = forced_body::REGS + registers::RIP;
        let bytes = self.body().get(PROGRAM_COUNTER..PROGRAM_COUNTER + 8)?;
        (self.kind == EventKind::Forced).then(|| read_u64(bytes, 0))
    }

    /// Returns the call, if the event is one.
    pub fn as_call(&self) -> Option<CallRef<'log>> {
        match self.decode() {
            Event::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Returns what was dropped from the recording, if the event is such a note.
    pub fn as_dropped(&self) -> Option<Dropped> {
        (self.kind == EventKind::Dropped).then(|| Dropped::read(self.body()))
    }

    fn signal(&self) -> SignalRef<'log> {
        SignalRef { number: self.number, flags: self.flags, body: self.body() }
    }

    fn check_body(&self) -> Result<(), EventError> {
        let body = self.body();
        let needed = match self.kind {
            EventKind::Call => return self.check_call(),
            EventKind::Exec => {
                return ExecRef::check(body).map_err(|what| EventError::Exec { what });
            }
            EventKind::Signal | EventKind::Fatal => SIGINFO_BYTES,
            EventKind::Exit | EventKind::Start => 16,
            EventKind::Compare => 32,
            EventKind::After => after_body::LAYOUT_BYTES,
            EventKind::Behind | EventKind::Binding => sections_body::LAYOUT_BYTES,
            EventKind::Tsc if self.number == TSC_RDTSCP => 8,
            EventKind::Hash => 8,
            EventKind::Thread => ThreadAccount::BYTES,
            EventKind::Time => time_body::LAYOUT_BYTES,
            EventKind::Reached => reached_body::LAYOUT_BYTES,
            EventKind::Dropped => Dropped::body_bytes(body),
            EventKind::Tsc
            | EventKind::Turn
            | EventKind::Passage
            | EventKind::Forced
            | EventKind::End
            | EventKind::State => 0,
        };
        if body.len() < needed {
            return Err(EventError::Body { kind: self.kind, needed, available: body.len() });
        }
        Ok(())
    }

    fn check_call(&self) -> Result<(), EventError> {
        let body = self.body();
        let count = argument_count(self.number, body);
        if body.len() < count * 8 {
            return Err(EventError::Body {
                kind: self.kind,
                needed: count * 8,
                available: body.len(),
            });
        }
        let checked = item::check(&body[count * 8..], HEADER_BYTES + count * 8, count);
        match table::call(self.number) {
            Some(_) => checked,
            // These are arguments, of which nothing is known here.
            None => checked.map_err(|_| EventError::UnknownCall { number: self.number }),
        }
    }
}
