//! What is told about a divergence.

use crate::windows::Windows;
use retake_kernel::maps;
use retake_kernel::shared::Slot;
use retake_recording::Policy;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// A divergence, described for people.
#[derive(Debug, Clone)]
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
    is_sync: bool,
}

impl Report {
    pub(crate) fn new(windows: &Windows, slot: &Slot) -> Self {
        let lines = &slot.lines;
        let is_sync = windows.recording().metadata().policy == Policy::Sync;
        let program_counter = lines.diverged_registers[16].load(Relaxed);
        Self {
            stream: slot.stream.load(Relaxed),
            pid: lines.recorded_pid.load(Relaxed),
            event: lines.diverged_event.load(Relaxed),
            offset: lines.diverged_offset.load(Relaxed),
            why: lines.diverged_why.load(Relaxed),
            number: lines.diverged_number.load(Relaxed),
            arguments: std::array::from_fn(|i| lines.diverged_arguments[i].load(Relaxed)),
            expected: lines.diverged_expected.load(Relaxed),
            actual: lines.diverged_actual.load(Relaxed),
            place: place(slot.pid.load(Relaxed) as i32, program_counter),
            message: None,
            is_sync,
        }
    }

    pub(crate) fn unreadable(windows: &Windows, slot: &Slot, error: &std::io::Error) -> Self {
        Self { message: Some(error.to_string()), ..Self::new(windows, slot) }
    }
}

fn place(pid: i32, program_counter: u64) -> String {
    let mapping = maps::of_process(pid).ok().and_then(|all| all.into_iter().find(|m| (m.start..m.end).contains(&program_counter)));
    match mapping {
        Some(m) => format!("{program_counter:#x} ({}+{:#x})", m.name, program_counter - m.start + m.offset),
        None => format!("{program_counter:#x}"),
    }
}

fn kind_name(kind: u64) -> &'static str {
    [
        "nothing: the end of its stream",
        "a system call",
        "a signal",
        "a fatal signal",
        "its exit",
        "a time-stamp counter reading",
        "an exec",
        "its start",
        "a turn",
        "a forced preemption",
        "a memory hash",
        "its end",
    ]
    .get(kind as usize)
    .copied()
    .unwrap_or("something unknown")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "replay diverged at event {} of stream {} (process {}, stream offset {})", self.event, self.stream, self.pid, self.offset)?;
        if let Some(message) = &self.message {
            return write!(f, "  the recording cannot be read on: {message}");
        }
        let (expected, actual) = match self.why {
            1 => (kind_name(self.expected).to_owned(), kind_name(self.actual).to_owned()),
            2 => (format!("call {}", self.expected), format!("call {}", self.actual)),
            4 => (format!("input with hash {:08x}", self.expected), format!("hash {:08x}", self.actual)),
            14 => (format!("turn {}", self.expected), format!("none for {} ms", self.actual)),
            6 => (format!("memory hash {:016x}", self.expected), format!("{:016x}", self.actual)),
            _ => (format!("{:#x}", self.expected), format!("{:#x}", self.actual)),
        };
        let what = [
            "?",
            "kind of event",
            "system call",
            "argument",
            "input data",
            "result",
            "memory",
            "signal",
            "end",
            "mapping",
            "program memory",
            "fault",
            "format",
            "number of sections in a turn",
            "order of turns",
        ];
        writeln!(f, "  differs   {}", what.get(self.why as usize).unwrap_or(&"?"))?;
        writeln!(f, "  expected  {expected}\n  actual    {actual}")?;
        write!(f, "  at        call {}(", self.number)?;
        for (i, argument) in self.arguments.iter().enumerate() {
            write!(f, "{}{argument:#x}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, ") from {}", self.place)?;
        if self.is_sync {
            write!(f, "\n  likely    threads raced in a way that --policy sync does not record\n  try       recording again without --policy")?;
        }
        Ok(())
    }
}
