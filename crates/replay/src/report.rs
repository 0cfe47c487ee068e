//! Reports of divergences.

use crate::standstill::{self, Awaited, Waiting};
use crate::windows::Windows;
use retake_contract::context::registers;
use retake_contract::header::Why;
use retake_kernel::confinement::Notice;
use retake_kernel::shared::Slot;
use retake_kernel::{maps, process};
use retake_model::EventKind;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The number of waiting threads that a report lists.
const MOST_WAITING: usize = 8;
/// The size of the instruction that makes a call.
const CALL_BYTES: u64 = 2;

/// A divergence, described for users.
#[derive(Debug, Clone, Default)]
pub struct Report {
    stream: u32,
    pid: u32,
    event: u64,
    offset: u64,
    why: u64,
    number: u64,
    arguments: [u64; 6],
    expected: u64,
    actual: u64,
    place: String,
    message: Option<String>,
    /// Whether the report is about a file of the recording and not about a thread.
    is_of_file: bool,
    attack: Option<String>,
    is_sync: bool,
    /// All waiting threads, if threads wait for each other.
    waiting: Vec<Waiting>,
}

impl Report {
    pub(crate) fn new(windows: &Windows, slot: &Slot) -> Self {
        let divergence = &slot.divergence;
        let is_sync = windows.recording().metadata().policy.is_parallel();
        let program_counter = divergence.registers[registers::RIP / 8].load(Relaxed);
        Self {
            stream: slot.stream.load(Relaxed),
            pid: slot.recorded_pid.load(Relaxed),
            event: divergence.event.load(Relaxed),
            offset: divergence.offset.load(Relaxed),
            why: divergence.why.load(Relaxed),
            number: divergence.number.load(Relaxed),
            arguments: std::array::from_fn(|i| divergence.arguments[i].load(Relaxed)),
            expected: divergence.expected.load(Relaxed),
            actual: divergence.actual.load(Relaxed),
            place: place(slot.pid.load(Relaxed) as i32, program_counter),
            message: None,
            is_of_file: false,
            attack: None,
            is_sync,
            waiting: standstill::waiting(windows.session.header())
                .into_iter()
                .map(|(_, it)| it)
                .collect(),
        }
    }

    /// Describes a thread that waits for a turn that does not come.
    pub(crate) fn stuck(windows: &Windows, slot: &Slot, elapsed: Duration) -> Self {
        Self {
            why: Why::Stuck as u64,
            expected: slot.baton.turn.load(Relaxed),
            actual: elapsed.as_millis() as u64,
            ..Self::new(windows, slot)
        }
    }

    /// Describes a thread that does not come to where the recording stopped it.
    pub(crate) fn unreached(windows: &Windows, slot: &Slot, computed: Duration) -> Self {
        Self {
            why: Why::Unreached as u64,
            expected: slot.divergence.registers[registers::RIP / 8].load(Relaxed),
            actual: computed.as_millis() as u64,
            ..Self::new(windows, slot)
        }
    }

    /// Describes a file that differs from what was recorded.
    pub(crate) fn of_file(error: &retake_recording::Error) -> Self {
        Self { message: Some(error.to_string()), is_of_file: true, ..Self::default() }
    }

    /// Describes a process that made a call that no replay makes.
    pub(crate) fn attack(windows: &Windows, notice: &Notice) -> Self {
        let pid = process::group_leader(notice.tid).unwrap_or(notice.tid);
        let header = windows.session.header();
        let found = |slot: &&Slot| {
            let number = if notice.tid == pid { &slot.pid } else { &slot.tid };
            number.load(Relaxed) as i32 == notice.tid
        };
        let slot = header.used_slots().iter().find(found).unwrap_or(&header.slots[0]);
        Self {
            arguments: notice.arguments,
            place: place(pid, notice.address.saturating_sub(CALL_BYTES)),
            attack: Some(call_name(notice)),
            ..Self::new(windows, slot)
        }
    }

    pub(crate) fn unreadable(windows: &Windows, slot: &Slot, error: &std::io::Error) -> Self {
        Self { message: Some(error.to_string()), ..Self::new(windows, slot) }
    }
}

/// The name of a call of any architecture, for users.
fn call_name(notice: &Notice) -> String {
    let number = notice.number;
    if !notice.is_of_64_bits() {
        return format!("call {number} of 32-bit programs");
    }
    let row = u16::try_from(number).ok().and_then(retake_model::table::call);
    row.map_or_else(|| format!("call {number}"), |row| row.name.to_owned())
}

fn place(pid: i32, program_counter: u64) -> String {
    let mapping = maps::of_process(pid)
        .ok()
        .and_then(|all| all.into_iter().find(|m| (m.start..m.end).contains(&program_counter)));
    match mapping {
        Some(m) => {
            format!("{program_counter:#x} ({}+{:#x})", m.name, program_counter - m.start + m.offset)
        }
        None => format!("{program_counter:#x}"),
    }
}

fn kind_name(kind: u64) -> &'static str {
    let Ok(number @ 1..) = u8::try_from(kind) else { return "nothing: the end of its stream" };
    match EventKind::from_number(number) {
        Some(EventKind::Call) => "a system call",
        Some(EventKind::Signal) => "a signal",
        Some(EventKind::Fatal) => "a fatal signal",
        Some(EventKind::Exit) => "its exit",
        Some(EventKind::Tsc) => "a time-stamp counter reading",
        Some(EventKind::Exec) => "an exec",
        Some(EventKind::Start) => "its start",
        Some(EventKind::Turn) => "a turn",
        Some(EventKind::Forced) => "a forced preemption",
        Some(EventKind::Hash) => "a memory hash",
        Some(EventKind::End) => "its end",
        Some(EventKind::Compare) => "a compare-and-exchange that failed",
        Some(EventKind::Passage) => "a passage",
        Some(EventKind::Behind) => "signals behind an operation",
        Some(EventKind::Binding) => "the binding of a function",
        Some(EventKind::After) => "an operation behind another thread's",
        Some(
            EventKind::Thread
            | EventKind::State
            | EventKind::Dropped
            | EventKind::Reached
            | EventKind::Time,
        )
        | None => "something unknown",
    }
}

/// The thing that differs, for users.
fn difference(why: Option<Why>) -> &'static str {
    match why {
        Some(Why::Kind) => "kind of event",
        Some(Why::Number) => "system call",
        Some(Why::Argument) => "argument",
        Some(Why::Input) => "input data",
        Some(Why::Result) => "result",
        Some(Why::Hash) => "memory",
        Some(Why::Signal) => "signal",
        Some(Why::End) => "end",
        Some(Why::Mapping) => "mapping",
        Some(Why::Memory) => "program memory",
        Some(Why::Fault) => "fault",
        Some(Why::Corrupt) => "format",
        Some(Why::Sections) => "number of sections in a turn",
        Some(Why::Stuck) => "order of turns",
        Some(Why::Passage) => "passage",
        Some(Why::Operations) => "number of operations",
        Some(Why::Deadlock | Why::Late) => "order of operations",
        Some(Why::Unreached) => "place of a stop",
        Some(Why::Unbound) => "binding of a function",
        None => "?",
    }
}

impl Report {
    fn awaited(&self) -> String {
        Awaited::Operation { stream: self.expected as u32, count: self.actual }.to_string()
    }

    fn fmt_call(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, argument) in self.arguments.iter().enumerate() {
            write!(f, "{}{argument:#x}", if i == 0 { "(" } else { ", " })?;
        }
        write!(f, ") from {}", self.place)
    }

    fn fmt_waiting(&self, why: Option<Why>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(why, Some(Why::Stuck | Why::Deadlock | Why::Late)) {
            return Ok(());
        }
        for waiting in self.waiting.iter().take(MOST_WAITING) {
            writeln!(f, "  waiting   {waiting}")?;
        }
        match self.waiting.len().saturating_sub(MOST_WAITING) {
            0 => Ok(()),
            more => writeln!(f, "  waiting   {more} more"),
        }
    }

    fn fmt_attack(&self, call: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the recording attacks: its code makes a system call that no replay makes\n  in        \
            process {} (stream {})",
            self.pid, self.stream
        )?;
        write!(f, "  at        {call}")?;
        self.fmt_call(f)?;
        write!(f, "\n  done      nothing: the process was ended before the kernel made the call")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (true, Some(message)) = (self.is_of_file, &self.message) {
            return write!(
                f,
                "a file of the recording is not what was recorded: {message}\n  try       retake \
                info --verify"
            );
        }
        if let Some(call) = &self.attack {
            return self.fmt_attack(call, f);
        }
        writeln!(
            f,
            "replay diverged at event {} of stream {} (process {}, stream offset {})",
            self.event, self.stream, self.pid, self.offset
        )?;
        if let Some(message) = &self.message {
            return write!(f, "  the rest of the recording cannot be read: {message}");
        }
        let why = Why::from_number(self.why);
        let (expected, actual) = match why {
            Some(Why::Kind) => {
                (kind_name(self.expected).to_owned(), kind_name(self.actual).to_owned())
            }
            Some(Why::Number) => {
                (format!("call {}", self.expected), format!("call {}", self.actual))
            }
            Some(Why::Input) => (
                format!("input with hash {:08x}", self.expected),
                format!("hash {:08x}", self.actual),
            ),
            Some(Why::Stuck) => {
                (format!("turn {}", self.expected), format!("none for {} ms", self.actual))
            }
            Some(Why::Deadlock) => (self.awaited(), "that thread waits for this one".to_owned()),
            Some(Why::Late) => (self.awaited(), "it has not come".to_owned()),
            Some(Why::Unreached) => (
                format!("a stop at {:#x}", self.expected),
                format!("not there after computing for {} ms", self.actual),
            ),
            Some(Why::Unbound) => {
                (format!("a function at {:#x}", self.expected), "no thread binds it".to_owned())
            }
            Some(Why::Hash) => {
                (format!("memory hash {:016x}", self.expected), format!("{:016x}", self.actual))
            }
            _ => (format!("{:#x}", self.expected), format!("{:#x}", self.actual)),
        };
        writeln!(f, "  differs   {}", difference(why))?;
        writeln!(f, "  expected  {expected}\n  actual    {actual}")?;
        self.fmt_waiting(why, f)?;
        if why == Some(Why::Unreached) {
            return write!(f, "  at        {}", self.place);
        }
        write!(f, "  at        call {}", self.number)?;
        self.fmt_call(f)?;
        if self.is_sync {
            write!(
                f,
                "\n  likely    threads raced in a way that --policy sync does not \
                record\n  try       recording again without --policy"
            )?;
        }
        Ok(())
    }
}
