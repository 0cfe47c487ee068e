//! The report of a replay.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use retake_model::table::{self, ArgumentKind, ValueType};
use retake_trace_format::TracedCall;
use serde::Serialize;

use crate::calls::Arguments;
use crate::plan::name_of;
use crate::prepare::Prepared;
use crate::thread_state::user_time;

/// The longest path in a report, in bytes.
const MAXIMUM_TEXT: usize = 200;

/// A call that differs from the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// The call's id in the trace.
    pub id: u64,
    /// The traced process.
    pub process: u32,
    /// The traced thread.
    pub thread: u32,
    /// The name of the call, with its descriptors and paths.
    pub call: String,
    /// What the trace says.
    pub expected: String,
    /// What happened.
    pub actual: String,
}

/// The counts for calls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Executed, with the traced result.
    pub verified: u64,
    /// Executed, with another result.
    pub mismatched: u64,
}

/// The report of a replay.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Calls in the trace, as far as it was read.
    pub calls: u64,
    /// Executed calls that did what the trace says.
    pub verified: u64,
    /// Executed calls that did something else.
    pub mismatched: u64,
    /// Calls that were not executed, by reason: they have no effect on files, or none that can be
    /// repeated.
    pub simulated: BTreeMap<&'static str, u64>,
    /// Calls that were left out though they may have had an effect on files, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Calls that were executed, by name.
    pub by_call: BTreeMap<&'static str, CallCounts>,
    /// The first differences, in the order of the trace.
    pub mismatches: Vec<Mismatch>,
    /// What was made before the replay, if anything.
    pub prepared: Option<Prepared>,
    /// The reasons why the trace is incomplete, as the trace itself states them.
    pub incomplete: Vec<String>,
    /// Whether the replay ended at a difference. The rest of the trace was not executed then.
    pub stopped: bool,
    /// Threads that executed calls.
    pub threads: u32,
    /// How long the preparation took.
    pub preparation_seconds: f64,
    /// The user time of the preparation, in all threads.
    pub preparation_user_seconds: f64,
    /// How long the calls took.
    pub replay_seconds: f64,
    /// The user time of the calls and of comparing, in all threads.
    pub replay_user_seconds: f64,
}

impl Report {
    /// Whether every executed call did what the trace says.
    pub fn is_faithful(&self) -> bool {
        self.mismatched == 0
    }
}

/// Measures the time that a part of a replay takes.
#[derive(Debug)]
pub struct Stopwatch {
    began: Instant,
    user_before: Duration,
}

impl Stopwatch {
    /// Starts the measurement.
    pub fn start() -> Self {
        Self { began: Instant::now(), user_before: user_time() }
    }

    /// Returns the seconds since the start, and the seconds of user time among them.
    pub fn seconds(&self) -> (f64, f64) {
        (
            self.began.elapsed().as_secs_f64(),
            user_time().saturating_sub(self.user_before).as_secs_f64(),
        )
    }
}

/// The results of one worker.
#[derive(Debug, Default)]
pub struct Tally {
    by_number: BTreeMap<u32, CallCounts>,
    skipped: BTreeMap<&'static str, u64>,
    mismatches: Vec<Mismatch>,
}

impl Tally {
    /// Counts a call that did what the trace says.
    pub fn verified(&mut self, call: &TracedCall) {
        self.by_number.entry(call.number).or_default().verified += 1;
    }

    /// Counts a call that was left out.
    pub fn skipped(&mut self, reason: &'static str) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    /// Records a call that did something else.
    pub fn mismatched(
        &mut self,
        call: &TracedCall,
        differences: &[(String, String)],
        maximum: usize,
    ) {
        self.by_number.entry(call.number).or_default().mismatched += 1;
        if self.mismatches.len() >= maximum {
            return;
        }
        let join = |text: fn(&(String, String)) -> &str| {
            differences.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        self.mismatches.push(Mismatch {
            id: call.id,
            process: call.process,
            thread: call.thread,
            call: describe(call),
            expected: join(|difference| &difference.0),
            actual: join(|difference| &difference.1),
        });
    }

    /// Adds these results to the report.
    pub fn add_to(self, report: &mut Report) {
        for (number, counts) in self.by_number {
            let whole = report.by_call.entry(name_of(number)).or_default();
            whole.verified += counts.verified;
            whole.mismatched += counts.mismatched;
            report.verified += counts.verified;
            report.mismatched += counts.mismatched;
        }
        for (reason, count) in self.skipped {
            *report.skipped.entry(reason).or_default() += count;
        }
        report.mismatches.extend(self.mismatches);
    }
}

/// Describes a call with its descriptors and paths.
fn describe(call: &TracedCall) -> String {
    let row = u16::try_from(call.number)
        .ok()
        .and_then(table::call)
        .map(|row| row.resolve(&call.arguments).0);
    let arguments = row.map(|row| row.arguments).unwrap_or_default();
    let described =
        arguments.iter().take(call.arguments.len()).enumerate().filter_map(|(index, argument)| {
            match &argument.kind {
                ArgumentKind::Value(ValueType::Descriptor | ValueType::DirectoryDescriptor) => {
                    let number = call.arguments[index] as i32;
                    Some(if number == libc::AT_FDCWD {
                        String::from("AT_FDCWD")
                    } else {
                        number.to_string()
                    })
                }
                ArgumentKind::Pointer(pointer) if matches!(pointer.element, "path" | "string") => {
                    let text = Arguments(call).text(index as u8)?;
                    let shown =
                        String::from_utf8_lossy(&text[..text.len().min(MAXIMUM_TEXT)]).into_owned();
                    Some(format!("{shown:?}"))
                }
                ArgumentKind::Value(ValueType::Size | ValueType::Offset) => {
                    Some(call.arguments[index].to_string())
                }
                _ => None,
            }
        });
    format!("{}({})", name_of(call.number), described.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_trace_format::{BufferDirection, TracedBuffer};

    #[test]
    fn calls_are_described_by_what_they_are_about() {
        let path = TracedBuffer {
            argument: 1,
            direction: BufferDirection::Input,
            address: 1,
            total_bytes: 5,
            data: b"a/b\"c".to_vec().into(),
        };
        let call = TracedCall {
            number: libc::SYS_unlinkat as u32,
            arguments: [u64::from(libc::AT_FDCWD as u32), 1, 0, 0, 0, 0],
            buffers: vec![path],
            ..TracedCall::default()
        };
        assert_eq!(describe(&call), r#"unlinkat(AT_FDCWD, "a/b\"c")"#);
        let read = TracedCall {
            number: libc::SYS_read as u32,
            arguments: [3, 7, 100, 0, 0, 0],
            ..TracedCall::default()
        };
        assert_eq!(describe(&read), "read(3, 100)");
        assert_eq!(
            describe(&TracedCall { number: u32::MAX, ..TracedCall::default() }),
            "unknown()"
        );
    }
}
