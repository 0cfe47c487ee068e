//! Observations as lines, as strace prints them.

use crate::call;
use crate::observation::{Ending, Observation};
use crate::tracker::Tracker;
use retake_model::describe::{CallDescription, describe_call};
use retake_model::parse_event;
use retake_model::print::{TextOptions, quote};
use retake_model::signal::{self, SiginfoRef};
use retake_model::table::{self, ArgumentKind, Row, ValueType};
use retake_trace_format::{ProcessStart, StartKind, TraceRecord, TracedCall};
use std::collections::HashSet;

/// How times are shown before each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// Not.
    #[default]
    None,
    /// Time of day in seconds.
    Seconds,
    /// Time of day in microseconds.
    Microseconds,
    /// Seconds since 1970, in microseconds.
    Unix,
    /// Since the line before.
    Relative,
}

/// How lines look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Style {
    /// What comes before each line.
    pub clock: Clock,
    /// Time spent in the call, behind it.
    pub durations: bool,
    /// Paths of descriptors.
    pub paths: bool,
    /// Only calls: no signals, no ends of processes.
    pub quiet: bool,
    /// By what name the first program was executed; if it is empty, that of its file is shown.
    pub program: Vec<u8>,
    /// Lengths.
    pub text: TextOptions,
}

/// Makes lines.
#[derive(Debug)]
pub struct Printer {
    style: Style,
    processes: HashSet<u32>,
    /// Seconds that local time is ahead of UTC.
    utc_offset_s: i64,
    last_ns: Option<u64>,
    started: bool,
}

/// Calls are padded to this width before their result, so that results are in a column.
const RESULT_COLUMN: usize = 40;

impl Printer {
    /// For local time that is so many seconds ahead of UTC.
    pub fn new(style: Style, utc_offset_s: i64) -> Self {
        Self { style, processes: HashSet::new(), utc_offset_s, last_ns: None, started: false }
    }

    /// The line for an observation; `None` if there is nothing to say. The tracker must not have followed it yet.
    pub fn line(&mut self, observation: &Observation, tracker: &Tracker) -> Option<String> {
        let first_process = self.processes.is_empty();
        let is_new = observation.process() != 0 && self.processes.insert(observation.process());
        let body = match observation {
            Observation::Record(TraceRecord::Call(call)) => self.call(call, tracker),
            Observation::Record(TraceRecord::ProcessStart(start)) => self.start(start)?,
            Observation::Record(TraceRecord::MappedPages(pages)) => {
                let name = if pages.write { "mmappwrite" } else { "mmappread" };
                let path = quote(&pages.path, pages.path.len(), &self.style.text);
                let data = quote(&pages.data, pages.data.len(), &self.style.text);
                format!("{name}({path}, {}, {data}, {})", pages.file_offset, pages.data.len())
            }
            Observation::Record(TraceRecord::Incomplete(reason)) => format!("!!! incomplete: {reason} !!!"),
            Observation::Signal { .. } | Observation::Ended { .. } if self.style.quiet => return None,
            Observation::Signal { number, siginfo, .. } => {
                let info = SiginfoRef::new(siginfo).map(|siginfo| siginfo.describe()).unwrap_or_default();
                format!("--- {} {info} ---", signal::name(*number))
            }
            Observation::Ended { how: Ending::Exited(status), process, thread, .. } if process == thread => format!("+++ exited with {status} +++"),
            Observation::Ended { how: Ending::Killed(number), .. } => format!("+++ killed by {} +++", signal::name(*number as u16)),
            Observation::Ended { .. } => return None,
        };
        let several = self.processes.len() > 1 || (is_new && !first_process);
        Some(format!("{}{}{body}", self.who(observation, several), self.time(observation.time_ns())))
    }

    fn who(&self, observation: &Observation, several: bool) -> String {
        let thread = match observation {
            Observation::Record(TraceRecord::Call(call)) => call.thread,
            Observation::Signal { thread, .. } | Observation::Ended { thread, .. } => *thread,
            other => other.process(),
        };
        if several || thread != observation.process() { format!("[pid {thread}] ") } else { String::new() }
    }

    fn time(&mut self, time_ns: u64) -> String {
        let since = time_ns.saturating_sub(self.last_ns.replace(time_ns).unwrap_or(time_ns));
        let seconds = (time_ns / 1_000_000_000) as i64 + self.utc_offset_s;
        let day = seconds.rem_euclid(86_400);
        let clock = format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60);
        let micro = time_ns / 1000 % 1_000_000;
        match self.style.clock {
            Clock::None => String::new(),
            Clock::Seconds => format!("{clock} "),
            Clock::Microseconds => format!("{clock}.{micro:06} "),
            Clock::Unix => format!("{}.{micro:06} ", time_ns / 1_000_000_000),
            Clock::Relative => format!("{:>6}.{:06} ", since / 1_000_000_000, since / 1000 % 1_000_000),
        }
    }

    /// Only the first program is not begun by a call that was traced.
    fn start(&mut self, start: &ProcessStart) -> Option<String> {
        if start.how != StartKind::Exec || std::mem::replace(&mut self.started, true) {
            return None;
        }
        let texts = TextOptions { string_bytes: self.style.text.string_bytes.max(128), ..self.style.text.clone() };
        let quoted: Vec<String> = start.arguments.iter().map(|argument| quote(argument, argument.len(), &texts)).collect();
        let program = if self.style.program.is_empty() { &start.executable } else { &self.style.program };
        let call = format!("execve({}, [{}], ...)", quote(program, program.len(), &texts), quoted.join(", "));
        Some(format!("{call:<RESULT_COLUMN$} = 0"))
    }

    fn call(&mut self, call: &TracedCall, tracker: &Tracker) -> String {
        self.started = true;
        let bytes = call::to_event(call);
        let Ok((event, _)) = parse_event(&bytes) else { return format!("syscall_{}(?)", call.number) };
        let Some(call_ref) = event.as_call() else { return format!("syscall_{}(?)", call.number) };
        let mut description = describe_call(&call_ref, &self.style.text);
        if self.style.paths {
            self.add_paths(&mut description, call, tracker);
        }
        let head = description.head();
        if call.returned_ns == 0 {
            let never = matches!(description.name.as_str(), "exit" | "exit_group");
            return if never { format!("{head:<RESULT_COLUMN$} = ?") } else { format!("{} <unfinished ...>", head.trim_end_matches(')')) };
        }
        let spent = call.returned_ns.saturating_sub(call.entered_ns);
        let duration = if self.style.durations { format!(" <{}.{:06}>", spent / 1_000_000_000, spent / 1000 % 1_000_000) } else { String::new() };
        format!("{head:<RESULT_COLUMN$} = {}{duration}", description.result_text)
    }

    /// `3</etc/passwd>` in place of `3`.
    fn add_paths(&self, description: &mut CallDescription<'_>, call: &TracedCall, tracker: &Tracker) {
        let Some(row) = u16::try_from(call.number).ok().and_then(table::call) else { return };
        let row: &Row = row.resolve(&call.arguments).0;
        let path = |descriptor: i32| tracker.descriptor_path(call.process, descriptor).map(angled);
        for (argument, described) in row.arguments.iter().zip(&mut description.arguments) {
            if matches!(argument.kind, ArgumentKind::Value(ValueType::Descriptor | ValueType::DirectoryDescriptor)) {
                described.text += &path(described.value as i32).unwrap_or_default();
            }
        }
        if matches!(row.result, ValueType::Descriptor) && !call.failed() && call.returned_ns != 0 {
            let mut after = tracker.of_process(call.process);
            after.follow(&mut Observation::Record(TraceRecord::Call(call.clone())));
            description.result_text += &after.descriptor_path(call.process, call.result as i32).map(angled).unwrap_or_default();
        }
    }
}

fn angled(path: &[u8]) -> String {
    let text = quote(path, path.len(), &TextOptions { string_bytes: usize::MAX, ..TextOptions::default() });
    format!("<{}>", text.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(style: Style, observations: &[Observation]) -> Vec<String> {
        let (mut printer, mut tracker) = (Printer::new(style, 3600), Tracker::default());
        let line = |observation: &Observation| {
            let line = printer.line(observation, &tracker);
            tracker.follow(&mut observation.clone());
            line
        };
        observations.iter().filter_map(line).collect()
    }

    fn close(process: u32, entered_ns: u64) -> Observation {
        let call =
            TracedCall { process, thread: process, entered_ns, returned_ns: entered_ns + 1500, number: 3, result: -9, ..TracedCall::default() };
        Observation::Record(TraceRecord::Call(TracedCall { arguments: [7, 0, 0, 0, 0, 0], ..call }))
    }

    #[test]
    fn lines_are_those_of_strace() {
        let ended = |process| Observation::Ended { process, thread: process, time_ns: 0, how: Ending::Exited(3) };
        let lines = printed(Style::default(), &[close(5, 9), ended(5), close(6, 9)]);
        let plain = format!("{:<40} = -1 EBADF (Bad file descriptor)", "close(7)");
        assert_eq!(lines, [plain.clone(), "+++ exited with 3 +++".to_owned(), format!("[pid 6] {plain}")]);
    }

    #[test]
    fn times_are_shown_as_asked() {
        let at = 1_700_000_000_123_456_789;
        let cases = [
            (Clock::Seconds, "23:13:20 close"),
            (Clock::Microseconds, "23:13:20.123456 close"),
            (Clock::Unix, "1700000000.123456 close"),
            (Clock::Relative, "     0.000000 close"),
        ];
        for (clock, begin) in cases {
            let style = Style { clock, durations: true, ..Style::default() };
            let line = printed(style, &[close(5, at)]).remove(0);
            assert!(line.starts_with(begin) && line.ends_with(" <0.000001>"), "{line}");
        }
    }
}
