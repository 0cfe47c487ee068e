//! The observations of sources: records of a trace, and other facts for listings.

use retake_trace_format::TraceRecord;

/// An action of a traced thread, or something that happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are records")]
pub enum Observation {
    /// A record of a trace. [`numbered`] gives it its id.
    Record(TraceRecord),
    /// A signal was delivered to a handler, or killed the process.
    Signal {
        /// Its process.
        process: u32,
        /// Its thread.
        thread: u32,
        /// Nanoseconds since 1970.
        time_ns: u64,
        /// Which signal.
        number: u16,
        /// The siginfo.
        siginfo: Vec<u8>,
    },
    /// A thread ended.
    Ended {
        /// Its process.
        process: u32,
        /// Its thread.
        thread: u32,
        /// Nanoseconds since 1970.
        time_ns: u64,
        /// Exit status, or the signal that killed it.
        how: Ending,
    },
}

/// How a thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// It ended with its process.
    WithProcess,
}

impl Observation {
    /// Returns the time by which observations are sorted: the entry of a call, or the time of
    /// anything else.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Record(TraceRecord::Call(call)) => call.entered_ns,
            Self::Record(TraceRecord::ProcessStart(start)) => start.time_ns,
            Self::Record(TraceRecord::MappedPages(pages)) => pages.time_ns,
            Self::Record(TraceRecord::Incomplete(_)) => 0,
            Self::Signal { time_ns, .. } | Self::Ended { time_ns, .. } => *time_ns,
        }
    }

    /// Returns the time by which live observations are sorted: the return of a call, if it has
    /// returned.
    pub(crate) fn completed_ns(&self) -> u64 {
        match self {
            Self::Record(TraceRecord::Call(call)) if call.returned_ns != 0 => call.returned_ns,
            other => other.time_ns(),
        }
    }

    /// Returns the thread, or 0 if there is none.
    pub fn thread(&self) -> u32 {
        match self {
            Self::Record(TraceRecord::Call(call)) => call.thread,
            Self::Record(TraceRecord::MappedPages(pages)) => pages.thread,
            Self::Signal { thread, .. } | Self::Ended { thread, .. } => *thread,
            other => other.process(),
        }
    }

    /// Returns the process, or 0 if there is none.
    pub fn process(&self) -> u32 {
        match self {
            Self::Record(TraceRecord::Call(call)) => call.process,
            Self::Record(TraceRecord::ProcessStart(start)) => start.process,
            Self::Record(TraceRecord::MappedPages(pages)) => pages.process,
            Self::Record(TraceRecord::Incomplete(_)) => 0,
            Self::Signal { process, .. } | Self::Ended { process, .. } => *process,
        }
    }
}

/// Gives a record the next id. Ids begin with 1 and have no gaps.
pub fn numbered(record: &mut TraceRecord, next_id: &mut u64) {
    let id = match record {
        TraceRecord::Call(call) => &mut call.id,
        TraceRecord::ProcessStart(start) => &mut start.id,
        TraceRecord::MappedPages(pages) => &mut pages.id,
        TraceRecord::Incomplete(_) => return,
    };
    *id = *next_id;
    *next_id += 1;
}
