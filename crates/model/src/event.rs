//! Events, as docs/DESIGN.md lays them out, read from bytes that nobody vouches for.
//!
//! [`parse_event`] checks one event completely: its size, its body by kind, and every argument and
//! item of a call. What it returns can be walked without further errors. It does not judge meaning:
//! a call with a result that no kernel gives is an event like any other.

use retake_contract::context::{deferred_signal, fault, forced_body, registers};
use retake_contract::events::{
    TSC_PROCESSOR, TSC_RANDOM, TSC_RDTSCP, TURN_AGAIN, TURN_FIRST_THREAD, TURN_GIVEN, TURN_SHARED,
    event as layout,
};

use crate::dropped::Dropped;
use crate::exec::ExecRef;
use crate::ids::{Pid, StreamId};
use crate::item::{self, Direction, ItemRef, Items};
use crate::signal::{SIGINFO_BYTES, SiginfoRef};
use crate::table::{self, CallRow, Row, SubRow};

pub use retake_contract::events::{
    CALL_CONSOLE_ERR, CALL_CONSOLE_OUT, EXEC_COMMITTED, EventKind, SIGNAL_BEFORE_CALL,
};

/// Bytes of the header; the smallest event.
pub const HEADER_BYTES: usize = layout::LAYOUT_BYTES;

/// Why bytes are not an event. Offsets are from the beginning of the event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// More bytes are needed to know; at the end of a stream this is damage.
    #[error("the event needs {needed} bytes, {available} are there")]
    Truncated { needed: usize, available: usize },
    #[error("an event of {size} bytes: sizes are multiples of 8 from 16 on")]
    Size { size: u32 },
    #[error("event kind {kind} is unknown")]
    Kind { kind: u8 },
    #[error("a {} event has a body of {needed} bytes or more, here are {available}", kind.name())]
    Body { kind: EventKind, needed: usize, available: usize },
    #[error("the item at offset {offset} needs {needed} bytes, {available} are left")]
    Item { offset: usize, needed: u64, available: usize },
    #[error("the item at offset {offset} has the unknown direction {direction}")]
    ItemDirection { offset: usize, direction: u8 },
    #[error("the item at offset {offset} belongs to argument {argument}, the call has {count}")]
    ItemArgument { offset: usize, argument: u8, count: usize },
    #[error("the exec event is malformed: {what}")]
    Exec { what: &'static str },
}

/// One event, checked.
#[derive(Debug, Clone, Copy)]
pub struct EventRef<'log> {
    kind: EventKind,
    flags: u8,
    number: u16,
    value: i64,
    bytes: &'log [u8],
}

/// An event by kind.
#[derive(Debug, Clone, Copy)]
pub enum Event<'log> {
    Call(CallRef<'log>),
    /// A signal was delivered to a handler.
    Signal(SignalRef<'log>),
    /// A signal ended the process; `hash` is of its memory.
    Fatal {
        signal: SignalRef<'log>,
        hash: u64,
    },
    /// `exit` or `exit_group`.
    Exit {
        call: u16,
        status: i64,
        hash: u64,
        pages: u64,
    },
    /// A time-stamp counter was read; `aux` by RDTSCP.
    Tsc {
        counter: u64,
        aux: Option<u64>,
    },
    /// Another instruction was answered, by its name.
    Answer {
        instruction: &'static str,
        value: u64,
    },
    Exec(ExecRef<'log>),
    /// The first event of a stream.
    Start {
        /// `None` for the first process.
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
    /// The thread gives the baton away where a function begins that locks. Its turn follows.
    Passage {
        /// How many such functions it has begun, this one included.
        count: u64,
    },
    /// The thread was stopped between events; `state` is its registers and the hash of its stack
    /// window. Stopped between events, to deliver a signal or to give up the baton.
    Forced {
        signal: u16,
        hash: u64,
        state: &'log [u8],
    },
    /// Memory compared here.
    Hash {
        hash: u64,
        pages: u64,
    },
    /// The thread died without a last event of its own.
    End {
        status: u64,
    },
    /// In the supervisor's stream: what is known of a thread that has ended.
    Thread {
        stream: StreamId,
        account: ThreadAccount,
    },
    /// In traces: what a process starts with, as whoever traces writes it.
    State {
        text: &'log [u8],
    },
    /// In the supervisor's stream: what was left out. See [`crate::Dropped`].
    Dropped {
        body: &'log [u8],
    },
    /// Under the sync policy: a compare-and-exchange failed, and was not tried again at once; what
    /// it saw.
    Compare {
        low: u64,
        high: u64,
    },
}

/// Why a thread waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnKind {
    /// Before the event that follows.
    Again,
    /// The process makes its first thread.
    FirstThread,
    /// The same among all processes that share memory, which the process joins if it has not yet.
    Shared,
    /// None yet: the thread gives the baton away before it goes back to its code. Its turn follows.
    Given,
    /// No runtime writes such a one.
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

/// When a thread ran, what it did, how long it waited. Times are since recording began.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ThreadAccount {
    pub started_ns: u64,
    pub ended_ns: u64,
    /// System calls.
    pub calls: u64,
    /// Of them, those that were caught by dispatch instead of a patched site.
    pub dispatched: u64,
    pub signals: u64,
    /// How often it got the baton from another thread.
    pub turns: u64,
    /// How often it was stopped between events.
    pub forced: u64,
    /// How often, and how long in all, it waited for the baton.
    pub waits: u64,
    pub wait_ns: u64,
}

impl ThreadAccount {
    /// Bytes of the body.
    pub const BYTES: usize = 9 * 8;

    /// The event.
    pub fn event(&self, stream: StreamId) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + Self::BYTES);
        bytes.extend(((HEADER_BYTES + Self::BYTES) as u32).to_le_bytes());
        bytes.extend([EventKind::Thread as u8, 0, 0, 0]);
        bytes.extend(u64::from(stream.0).to_le_bytes());
        bytes.extend(self.fields().iter().flat_map(|field| field.to_le_bytes()));
        bytes
    }

    /// Adds what another thread did; the times become those from the first start to the last end.
    pub fn add(&mut self, other: &Self) {
        self.started_ns = self.started_ns.min(other.started_ns);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        self.calls = self.calls.saturating_add(other.calls);
        self.dispatched = self.dispatched.saturating_add(other.dispatched);
        self.signals = self.signals.saturating_add(other.signals);
        self.turns = self.turns.saturating_add(other.turns);
        self.forced = self.forced.saturating_add(other.forced);
        self.waits = self.waits.saturating_add(other.waits);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
    }

    fn fields(&self) -> [u64; 9] {
        let Self {
            started_ns,
            ended_ns,
            calls,
            dispatched,
            signals,
            turns,
            forced,
            waits,
            wait_ns,
        } = *self;
        [started_ns, ended_ns, calls, dispatched, signals, turns, forced, waits, wait_ns]
    }

    /// `body` holds [`Self::BYTES`]: the caller has checked.
    fn read(body: &[u8]) -> Self {
        let [started_ns, ended_ns, calls, dispatched, signals, turns, forced, waits, wait_ns] =
            std::array::from_fn(|at| read_u64(body, at * 8));
        Self { started_ns, ended_ns, calls, dispatched, signals, turns, forced, waits, wait_ns }
    }
}

/// Checks the event at the beginning of `bytes`. Returns it and its size; the next event begins
/// there.
///
/// # Errors
/// [`EventError::Truncated`] when `bytes` ends inside the event, other errors when it is malformed.
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
    let event = EventRef { kind, flags, number, value, bytes };
    event.check_body()?;
    Ok((event, needed))
}

/// How many bytes the event at the beginning of `bytes` has, from its first four bytes alone.
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

/// Number of the call that executes a program.
pub const EXECVE: u16 = 59;
/// As [`EXECVE`].
pub const EXECVEAT: u16 = 322;

impl<'log> EventRef<'log> {
    /// Whether this is a call that executes a program and has not failed yet. What became of it is
    /// the next event: an exec, or the call once more with its result.
    pub fn is_begun_exec(&self) -> bool {
        self.kind == EventKind::Call
            && matches!(self.number, EXECVE | EXECVEAT)
            && self.value == EXEC_COMMITTED
    }

    pub fn kind(&self) -> EventKind {
        self.kind
    }

    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// System call number or signal number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Result, time-stamp counter, memory hash or sequence number.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// All bytes, with the header.
    pub fn bytes(&self) -> &'log [u8] {
        self.bytes
    }

    /// What comes behind the header.
    pub fn body(&self) -> &'log [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The event by kind.
    pub fn decode(&self) -> Event<'log> {
        let body = self.body();
        let value = self.value as u64;
        match self.kind {
            EventKind::Call => Event::Call(CallRef {
                event: *self,
                argument_count: argument_count(self.number, body),
            }),
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
                parent: (value as u32 != u32::MAX).then_some(StreamId(value as u32)),
                pid: Pid(read_u32(body, 0) as i32),
                tid: Pid(read_u32(body, 4) as i32),
                how: read_u64(body, 8),
            },
            EventKind::Turn => Event::Turn { turn: value, how: TurnKind::from_number(self.number) },
            EventKind::Passage => Event::Passage { count: value },
            EventKind::Forced => Event::Forced { signal: self.number, hash: value, state: body },
            EventKind::Hash => Event::Hash { hash: value, pages: read_u64(body, 0) },
            EventKind::End => Event::End { status: value },
            EventKind::Thread => {
                Event::Thread { stream: StreamId(value as u32), account: ThreadAccount::read(body) }
            }
            EventKind::State => Event::State { text: body },
            EventKind::Dropped => Event::Dropped { body },
            EventKind::Compare => Event::Compare { low: value, high: read_u64(body, 0) },
        }
    }

    /// Where a FORCED event found the thread; `None` for other events.
    pub fn forced_at(&self) -> Option<u64> {
        const PROGRAM_COUNTER: usize = forced_body::REGS + registers::RIP;
        let bytes = self.body().get(PROGRAM_COUNTER..PROGRAM_COUNTER + 8)?;
        (self.kind == EventKind::Forced).then(|| read_u64(bytes, 0))
    }

    /// The call, if it is one.
    pub fn as_call(&self) -> Option<CallRef<'log>> {
        match self.decode() {
            Event::Call(call) => Some(call),
            _ => None,
        }
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
            EventKind::Compare => 24,
            EventKind::Tsc if self.number == TSC_RDTSCP => 8,
            EventKind::Hash => 8,
            EventKind::Thread => ThreadAccount::BYTES,
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
        item::check(&body[count * 8..], HEADER_BYTES + count * 8, count)
    }
}

/// How many arguments a CALL event has: as many as the row, or the sub-row that its selector picks.
fn argument_count(number: u16, body: &[u8]) -> usize {
    let Some(call) = table::call(number) else {
        return 0;
    };
    let Some(selector) = call.selector else {
        return call.row.arguments.len();
    };
    let at = usize::from(selector) * 8;
    let Some(bytes) = body.get(at..at + 4) else {
        return call.row.arguments.len();
    };
    let sub = call.sub_row(read_u32(bytes, 0));
    sub.map_or(call.row.arguments.len(), |sub| sub.row.arguments.len())
}

/// A system call.
#[derive(Debug, Clone, Copy)]
pub struct CallRef<'log> {
    event: EventRef<'log>,
    argument_count: usize,
}

/// The streams of output that are printed again at replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Console {
    Out,
    Err,
}

impl<'log> CallRef<'log> {
    pub fn number(&self) -> u16 {
        self.event.number
    }

    /// What the program got in `rax`: from -4095 to -1 an error.
    pub fn result(&self) -> i64 {
        self.event.value
    }

    pub fn flags(&self) -> u8 {
        self.event.flags
    }

    /// The table's row of the call; none for a number beyond the table.
    pub fn call_row(&self) -> Option<&'static CallRow> {
        table::call(self.event.number)
    }

    /// The row that describes the arguments, and the sub-row if it is one.
    pub fn row(&self) -> Option<(&'static Row, Option<&'static SubRow>)> {
        let arguments: Vec<u64> = self.arguments().collect();
        self.call_row().map(|call| call.resolve(&arguments))
    }

    /// The argument registers.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = u64> + use<'log> {
        let body = self.event.body();
        body[..self.argument_count * 8].chunks_exact(8).map(|bytes| read_u64(bytes, 0))
    }

    /// One argument register.
    pub fn argument(&self, index: usize) -> Option<u64> {
        self.arguments().nth(index)
    }

    /// What belongs to the call, in the order of recording: inputs first.
    pub fn items(&self) -> Items<'log> {
        Items::new(&self.event.body()[self.argument_count * 8..])
    }

    /// The items of one argument in one direction.
    pub fn items_of(
        &self,
        argument: usize,
        direction: Direction,
    ) -> impl Iterator<Item = ItemRef<'log>> + use<'log> {
        self.items()
            .filter(move |item| item.argument() == argument && item.direction() == direction)
    }

    /// The stream of the thread that the call made.
    pub fn child(&self) -> Option<StreamId> {
        let item = self.items().find(|item| item.direction() == Direction::Child)?;
        item.inline_bytes().first_chunk().map(|bytes| StreamId(u32::from_le_bytes(*bytes)))
    }

    /// Which console the call wrote to, and its place in the global order of output.
    pub fn console(&self) -> Option<(Console, u64)> {
        let which = match self.event.flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR) {
            0 => return None,
            flags if flags & CALL_CONSOLE_OUT != 0 => Console::Out,
            _ => Console::Err,
        };
        let item = self.items().find(|item| item.direction() == Direction::Console)?;
        let sequence = item.inline_bytes().first_chunk()?;
        Some((which, u64::from_le_bytes(*sequence)))
    }
}

/// A signal that was delivered or was fatal.
#[derive(Debug, Clone, Copy)]
pub struct SignalRef<'log> {
    number: u16,
    flags: u8,
    body: &'log [u8],
}

/// What the machine said about a fault, for the signal frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub error_code: u64,
    pub trap_number: u64,
    pub address: u64,
}

impl<'log> SignalRef<'log> {
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Whether it came in place of the call that the thread was about to make.
    pub fn before_call(&self) -> bool {
        self.flags & SIGNAL_BEFORE_CALL != 0
    }

    /// The siginfo that the handler saw.
    pub fn siginfo(&self) -> SiginfoRef<'log> {
        // parse_event has checked the length.
        SiginfoRef::new(self.body).expect("the body of a signal event holds a siginfo")
    }

    /// What follows the siginfo, if it was recorded.
    pub fn fault(&self) -> Option<Fault> {
        let body = self.body.get(deferred_signal::FAULT..deferred_signal::LAYOUT_BYTES)?;
        Some(Fault {
            error_code: read_u64(body, fault::ERROR_CODE),
            trap_number: read_u64(body, fault::TRAP_NUMBER),
            address: read_u64(body, fault::ADDRESS),
        })
    }
}

/// `bytes` holds 4 bytes at `offset`: the caller has checked.
pub(crate) fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(value)
}

/// `bytes` holds 8 bytes at `offset`: the caller has checked.
pub(crate) fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(value)
}

fn read_i64(bytes: &[u8], offset: usize) -> i64 {
    read_u64(bytes, offset) as i64
}
