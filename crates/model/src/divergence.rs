//! A divergence: replay does something that the log does not say. It is a value, so that programs
//! can act on it; the text is for people.

use std::fmt;

use crate::event::EventKind;
use crate::ids::{EventIndex, Pid, StreamId};
use crate::{errno, signal, table};

/// What did not match. The numbers are those of the runtime (`WHY_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Mismatch {
    /// A different kind of event. `expected` and `actual` are kinds.
    Kind = 1,
    /// A different system call. `expected` and `actual` are call numbers.
    Number = 2,
    /// A different value in an argument register.
    Argument = 3,
    /// Different data in the input of a call. `expected` and `actual` are hashes.
    Input = 4,
    /// A different result of a call that replay executes.
    Result = 5,
    /// Different memory. `expected` and `actual` are hashes.
    Hash = 6,
    /// A different signal. `expected` and `actual` are signal numbers.
    Signal = 7,
    /// The log ends before the program does.
    End = 8,
    /// A mapping cannot be at its recorded address. `expected` and `actual` are addresses.
    Mapping = 9,
    /// Memory to which a call wrote is missing. `expected` is its address, `actual` its size.
    Memory = 10,
    /// A fault that is not in the log. `expected` is 0, `actual` the address.
    Fault = 11,
    /// The log is contradictory.
    Corrupt = 12,
    /// Under the sync policy, a different number of sections in a turn. `expected` and `actual` are
    /// these numbers.
    Sections = 13,
    /// Under the sync policy, a turn does not come. `expected` is its number, `actual` the time
    /// waited in milliseconds.
    Stuck = 14,
    /// A thread went past the place where it gave the baton away. `expected` and `actual` are
    /// numbers of passages.
    Passage = 15,
    /// Under the sync policy, a thread performed a different number of operations before one that
    /// comes after another thread's. `expected` and `actual` are these numbers.
    Operations = 16,
    /// Under the sync policy, threads wait for one another. `expected` is the stream whose
    /// operation this thread waits for, `actual` the number of that operation.
    Deadlock = 17,
    /// Under the sync policy, another thread's operation does not come. The values are those of a
    /// deadlock.
    Late = 18,
    /// A thread does not come to where the recording stopped it. `expected` is that place's
    /// address, `actual` the time that the thread has computed, in milliseconds.
    Unreached = 19,
}

impl Mismatch {
    pub const ALL: [Self; 19] = [
        Self::Kind,
        Self::Number,
        Self::Argument,
        Self::Input,
        Self::Result,
        Self::Hash,
        Self::Signal,
        Self::End,
        Self::Mapping,
        Self::Memory,
        Self::Fault,
        Self::Corrupt,
        Self::Sections,
        Self::Stuck,
        Self::Passage,
        Self::Operations,
        Self::Deadlock,
        Self::Late,
        Self::Unreached,
    ];

    /// Converts from the runtime's number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mismatch| *mismatch as u32 == number)
    }

    /// Returns the most likely cause.
    fn likely(self) -> &'static str {
        match self {
            Self::Kind | Self::Number | Self::Passage | Self::Unreached => {
                "the program took another path: memory differed before this event"
            }
            Self::Argument | Self::Input => {
                "the program computed something else: memory differed before this event"
            }
            Self::Result => {
                "replay executes this call again, and its result differs on this machine"
            }
            Self::Hash => {
                "a call wrote memory that the table does not list, or threads raced between \
                recorded events"
            }
            Self::Signal | Self::Fault => {
                "memory that was mapped or readable while recording is not so now"
            }
            Self::End => "the recording was cut short, or the program went on where it had ended",
            Self::Mapping => "the address is taken at replay, or a stored file is missing",
            Self::Memory => "the program's memory layout differs from the recorded one",
            Self::Corrupt => "the recording is damaged, or was made by another version",
            Self::Sections | Self::Operations => {
                "threads raced in a way that the sync policy does not record: record without \
                --policy sync"
            }
            Self::Stuck | Self::Deadlock | Self::Late => {
                "threads that race wait for each other, unlike while recording: record without \
                --policy sync"
            }
        }
    }
}

/// A divergence. [`Mismatch`] says what `expected` and `actual` mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    pub mismatch: Mismatch,
    pub stream: StreamId,
    pub tid: Pid,
    /// The event that did not match.
    pub event: EventIndex,
    /// The call in progress, if there was one.
    pub call: Option<u16>,
    pub expected: u64,
    pub actual: u64,
}

impl fmt::Display for Divergence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (event, tid, stream) = (self.event, self.tid, self.stream);
        writeln!(formatter, "replay diverged at event {event} (tid {tid}, stream {stream})")?;
        let (expected, actual) = self.sides();
        writeln!(formatter, "  expected  {expected:<30}  actual  {actual}")?;
        writeln!(formatter, "  likely    {}", self.mismatch.likely())?;
        write!(formatter, "  try       retake dump REC --stream {stream} --around {event}")
    }
}

impl std::error::Error for Divergence {}

impl Divergence {
    /// Formats the expected and the actual side.
    pub fn sides(&self) -> (String, String) {
        match self.mismatch {
            Mismatch::End => ("the end of the log".to_string(), self.place()),
            Mismatch::Corrupt => {
                ("a whole event".to_string(), format!("{} and {:#x}", self.expected, self.actual))
            }
            Mismatch::Stuck => {
                (format!("turn {}", self.expected), format!("none for {} ms", self.actual))
            }
            Mismatch::Deadlock => (self.awaited(), "that one waits for this one".to_string()),
            Mismatch::Late => (self.awaited(), "that one does not come".to_string()),
            Mismatch::Operations => {
                (format!("{} operations", self.expected), self.actual.to_string())
            }
            Mismatch::Sections => {
                (format!("{} sections in the turn", self.expected), self.actual.to_string())
            }
            Mismatch::Passage => {
                (format!("passage {}", self.expected), format!("{} passages", self.actual))
            }
            Mismatch::Unreached => {
                (format!("a stop at {:#x}", self.expected), format!("none for {} ms", self.actual))
            }
            Mismatch::Memory => {
                let expected = format!("{} bytes at {:#x}", self.actual, self.expected);
                (expected, "no such memory".to_string())
            }
            _ => (self.side(self.expected), self.side(self.actual)),
        }
    }

    fn awaited(&self) -> String {
        format!("operation {} of stream {}", self.actual, self.expected)
    }

    fn side(&self, value: u64) -> String {
        match self.mismatch {
            Mismatch::Kind => kind_text(value),
            Mismatch::Number => call_text(value),
            Mismatch::Signal => {
                u16::try_from(value).map_or(format!("{value:#x}"), |n| signal::name(n).into_owned())
            }
            Mismatch::Result => format!("{} -> {}", self.place(), result_text(value as i64)),
            Mismatch::Hash => format!("memory {value:016x}"),
            Mismatch::Input => format!("{} reading {value:08x}", self.place()),
            Mismatch::Fault if value == 0 => "no fault".to_string(),
            Mismatch::Fault => format!("a fault at {value:#x}"),
            _ => format!("{} with {value:#x}", self.place()),
        }
    }

    /// Returns the call, or says that there is none.
    fn place(&self) -> String {
        self.call.map_or("the program".to_string(), |number| call_text(u64::from(number)))
    }
}

fn kind_text(value: u64) -> String {
    let kind = u8::try_from(value).ok().and_then(EventKind::from_number);
    kind.map_or(format!("event kind {value}"), |kind| kind.name().to_string())
}

fn call_text(value: u64) -> String {
    let row = u16::try_from(value).ok().and_then(table::call);
    row.map_or(format!("call {value}"), |call| call.name.to_string())
}

fn result_text(result: i64) -> String {
    match errno::of_result(result).and_then(errno::name) {
        Some(name) => name.to_string(),
        None => result.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divergence(mismatch: Mismatch, expected: u64, actual: u64) -> Divergence {
        Divergence {
            mismatch,
            stream: StreamId(3),
            tid: Pid(7),
            event: EventIndex(48213),
            call: Some(0),
            expected,
            actual,
        }
    }

    #[test]
    fn the_report_has_four_lines() {
        let text = divergence(Mismatch::Result, 4096, -11_i64 as u64).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "replay diverged at event 48213 (tid 7, stream 3)");
        assert_eq!(lines[1], "  expected  read -> 4096                    actual  read -> EAGAIN");
        assert!(lines[2].starts_with("  likely    "));
        assert_eq!(lines[3], "  try       retake dump REC --stream 3 --around 48213");
    }

    #[test]
    fn each_mismatch_says_its_own() {
        let cases = [
            (Mismatch::Kind, 1, 2, ("CALL", "SIGNAL")),
            (Mismatch::Kind, 1, 999, ("CALL", "event kind 999")),
            (Mismatch::Number, 0, 1, ("read", "write")),
            (Mismatch::Number, 0, u64::MAX, ("read", "call 18446744073709551615")),
            (Mismatch::Signal, 11, 15, ("SIGSEGV", "SIGTERM")),
            (Mismatch::Fault, 0, 16, ("no fault", "a fault at 0x10")),
            (Mismatch::Memory, 0x1000, 8, ("8 bytes at 0x1000", "no such memory")),
            (Mismatch::End, 0, 0, ("the end of the log", "read")),
            (Mismatch::Sections, 2, 3, ("2 sections in the turn", "3")),
            (Mismatch::Stuck, 9, 500, ("turn 9", "none for 500 ms")),
            (Mismatch::Passage, 7, 9, ("passage 7", "9 passages")),
            (Mismatch::Operations, 7, 9, ("7 operations", "9")),
            (Mismatch::Deadlock, 2, 9, ("operation 9 of stream 2", "that one waits for this one")),
            (Mismatch::Late, 2, 9, ("operation 9 of stream 2", "that one does not come")),
            (Mismatch::Unreached, 16, 9, ("a stop at 0x10", "none for 9 ms")),
        ];
        for (mismatch, expected, actual, (left, right)) in cases {
            let sides = divergence(mismatch, expected, actual).sides();
            assert_eq!(sides, (left.to_string(), right.to_string()), "{mismatch:?}");
        }
        for number in 1..=19 {
            assert_eq!(Mismatch::from_number(number).unwrap() as u32, number);
        }
        assert_eq!(Mismatch::from_number(20), None);
        assert_eq!(Mismatch::from_number(0), None);
    }
}
