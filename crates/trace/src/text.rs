//! Shows observations as lines, as strace prints them.

use crate::call;
use crate::observation::{Ending, Observation};
use crate::tracker::Tracker;
use retake_model::calendar;
use retake_model::describe::describe_call;
use retake_model::description::CallDescription;
use retake_model::parse_event;
use retake_model::signal::{self, SiginfoRef};
use retake_model::table::number;
use retake_model::table::{self, ArgumentKind, Row, ValueType};
use retake_model::text::{TextOptions, quote};
use retake_trace_format::{ProcessStart, StartKind, TraceRecord, TracedCall};
use std::collections::HashMap;

/// How times are shown before each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// No times.
    #[default]
    None,
    /// Time of day in seconds.
    Seconds,
    /// Time of day in microseconds.
    Microseconds,
    /// Seconds since 1970, in microseconds.
    Unix,
    /// Time since the line before.
    Relative,
}

/// The form in which lines name their thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefix {
    /// `[pid  1234] ` while there are several threads.
    #[default]
    Brackets,
    /// `1234  ` while there are several threads, for output to files.
    Number,
    /// `1234  ` in each line.
    Always,
    /// No name.
    Never,
}

/// The execution of the first program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Execution {
    /// The name of the program, as it was executed.
    pub program: Vec<u8>,
    /// All arguments, beginning with `argv[0]`.
    pub arguments: Vec<Vec<u8>>,
    /// The strings of its environment.
    pub environment: Vec<Vec<u8>>,
}

/// The format of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    /// The form of times before each line.
    pub clock: Clock,
    /// Whether the time in a call follows its result.
    pub durations: bool,
    /// Whether descriptors are shown with their paths.
    pub paths: bool,
    /// Whether call numbers stand before names.
    pub numbers: bool,
    /// Whether only calls are shown: no signals, no ends of processes.
    pub quiet: bool,
    /// The form in which lines name their thread.
    pub prefix: Prefix,
    /// The column in which results begin, counted from 1, if calls leave room for it.
    pub result_column: usize,
    /// The execution of the first program. If absent, it is taken from the trace.
    pub execution: Option<Execution>,
    /// Lengths and other options of the text.
    pub text: TextOptions,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            clock: Clock::None,
            durations: false,
            paths: false,
            numbers: false,
            quiet: false,
            prefix: Prefix::Brackets,
            result_column: RESULT_COLUMN,
            execution: None,
            text: TextOptions::default(),
        }
    }
}

/// Formats observations as lines.
#[derive(Debug)]
pub struct Printer {
    style: Style,
    /// The living threads, with their processes.
    threads: HashMap<u32, u32>,
    last_ns: Option<u64>,
    started: bool,
}

/// The column in which results begin, counted from 1, as in strace.
pub const RESULT_COLUMN: usize = 40;

const EXECVE: u32 = number::EXECVE as u32;

impl Printer {
    /// Makes a printer. Local time is `utc_offset_s` seconds ahead of UTC.
    pub fn new(style: Style, utc_offset_s: i32) -> Self {
        let text = TextOptions { utc_offset_s, ..style.text.clone() };
        Self {
            style: Style { text, ..style },
            threads: HashMap::new(),
            last_ns: None,
            started: false,
        }
    }

    /// Returns the line for an observation. `None` if there is nothing to show. The tracker must
    /// not have followed it yet.
    pub fn line(&mut self, observation: &Observation, tracker: &Tracker) -> Option<String> {
        let line = self.line_of(observation, tracker);
        if let Observation::Ended { process, thread, .. } = observation {
            self.threads
                .retain(|known, of| known != thread && (process != thread || of != process));
        }
        line
    }

    fn line_of(&mut self, observation: &Observation, tracker: &Tracker) -> Option<String> {
        if observation.process() != 0 {
            self.threads.insert(observation.thread(), observation.process());
        }
        let lead = self.lead(observation);
        let body = match observation {
            Observation::Record(TraceRecord::Call(call)) => {
                return Some(self.call(&lead, call, tracker));
            }
            Observation::Record(TraceRecord::ProcessStart(start)) => {
                return self.start(&lead, start);
            }
            Observation::Record(TraceRecord::MappedPages(pages)) => {
                let name = if pages.write { "mmappwrite" } else { "mmappread" };
                let path = quote(&pages.path, pages.path.len(), &self.style.text);
                let data = quote(&pages.data, pages.data.len(), &self.style.text);
                format!("{name}({path}, {}, {data}, {})", pages.file_offset, pages.data.len())
            }
            Observation::Record(TraceRecord::Incomplete(reason)) => {
                format!("!!! incomplete: {reason} !!!")
            }
            Observation::Signal { .. } | Observation::Ended { .. } if self.style.quiet => {
                return None;
            }
            Observation::Signal { number, siginfo, .. } => {
                let info =
                    SiginfoRef::new(siginfo).map(|siginfo| siginfo.describe()).unwrap_or_default();
                format!("--- {} {info} ---", signal::name(*number))
            }
            Observation::Ended { how: Ending::Exited(status), .. } => {
                format!("+++ exited with {status} +++")
            }
            Observation::Ended { how: Ending::Killed(number), .. } => {
                format!("+++ killed by {} +++", signal::name(*number as u16))
            }
            Observation::Ended { .. } => return None,
        };
        Some(format!("{lead}{}{body}", self.time(observation.time_ns())))
    }

    /// Returns the name of the thread that a line begins with.
    fn lead(&self, observation: &Observation) -> String {
        let thread = observation.thread();
        let is_one_of_several = self.threads.len() > 1;
        match self.style.prefix {
            Prefix::Brackets if is_one_of_several => format!("[pid {thread:>5}] "),
            Prefix::Number if is_one_of_several => format!("{thread:<5} "),
            Prefix::Always if observation.process() != 0 => format!("{thread:<5} "),
            _ => String::new(),
        }
    }

    /// Appends the result to a call, in its column.
    fn with_result(&self, head: String, result: &str) -> String {
        let width = self.style.result_column.saturating_sub(1);
        format!("{head:<width$} = {result}")
    }

    fn time(&mut self, time_ns: u64) -> String {
        let since = time_ns.saturating_sub(self.last_ns.replace(time_ns).unwrap_or(time_ns));
        let clock = || calendar::time_of_day(time_ns, self.style.text.utc_offset_s);
        let micro = time_ns / 1000 % 1_000_000;
        match self.style.clock {
            Clock::None => String::new(),
            Clock::Seconds => format!("{} ", clock()),
            Clock::Microseconds => format!("{}.{micro:06} ", clock()),
            Clock::Unix => format!("{}.{micro:06} ", time_ns / 1_000_000_000),
            Clock::Relative => {
                format!("{:>6}.{:06} ", since / 1_000_000_000, since / 1000 % 1_000_000)
            }
        }
    }

    /// Returns the line for the first program's start. No traced call shows that one.
    fn start(&mut self, lead: &str, start: &ProcessStart) -> Option<String> {
        if start.how != StartKind::Exec || std::mem::replace(&mut self.started, true) {
            return None;
        }
        let given = self.style.execution.clone().unwrap_or_else(|| Execution {
            program: start.executable.clone(),
            arguments: start.arguments.clone(),
            environment: Vec::new(),
        });
        let time = self.time(start.time_ns);
        let texts = &self.style.text;
        let environment = match (texts.unabbreviated, given.environment.len()) {
            (_, 0) => "...".to_owned(),
            (false, count) => format!("[/* {count} vars */]"),
            (true, _) => quoted(&given.environment, texts),
        };
        // A path is shown whole.
        let program = quote(
            &given.program,
            given.program.len(),
            &TextOptions { string_bytes: usize::MAX, ..texts.clone() },
        );
        let number = self.number(EXECVE);
        let head = format!(
            "{lead}{time}{number}execve({program}, {}, {environment})",
            quoted(&given.arguments, texts)
        );
        Some(self.with_result(head, "0"))
    }

    /// Returns `[  59] `, as strace has it.
    fn number(&self, number: u32) -> String {
        if self.style.numbers { format!("[{number:>4}] ") } else { String::new() }
    }

    fn call(&mut self, lead: &str, call: &TracedCall, tracker: &Tracker) -> String {
        self.started = true;
        let lead = format!("{lead}{}{}", self.time(call.entered_ns), self.number(call.number));
        let bytes = call::to_event(call);
        let Ok((event, _)) = parse_event(&bytes) else {
            return format!("{lead}syscall_{}(?)", call.number);
        };
        let Some(call_ref) = event.as_call() else {
            return format!("{lead}syscall_{}(?)", call.number);
        };
        let mut description = describe_call(&call_ref, &self.style.text);
        if self.style.paths {
            self.add_paths(&mut description, call, tracker);
        }
        let head = format!("{lead}{}", description.head());
        if call.returned_ns == 0 {
            let never = matches!(description.name.as_str(), "exit" | "exit_group");
            return if never {
                self.with_result(head, "?")
            } else {
                format!("{} <unfinished ...>", head.trim_end_matches(')'))
            };
        }
        let spent = call.returned_ns.saturating_sub(call.entered_ns);
        let duration = if self.style.durations {
            format!(" <{}.{:06}>", spent / 1_000_000_000, spent / 1000 % 1_000_000)
        } else {
            String::new()
        };
        self.with_result(head, &format!("{}{duration}", description.result_text))
    }

    /// Adds paths to descriptors: `3</etc/passwd>` instead of `3`.
    fn add_paths(
        &self,
        description: &mut CallDescription<'_>,
        call: &TracedCall,
        tracker: &Tracker,
    ) {
        let Some(row) = u16::try_from(call.number).ok().and_then(table::call) else { return };
        let row: &Row = row.resolve(&call.arguments).0;
        let path = |descriptor: i32| tracker.descriptor_path(call.process, descriptor).map(angled);
        for (argument, described) in row.arguments.iter().zip(&mut description.arguments) {
            if matches!(
                argument.kind,
                ArgumentKind::Value(ValueType::Descriptor | ValueType::DirectoryDescriptor)
            ) {
                described.text += &path(described.value as i32).unwrap_or_default();
            }
        }
        if matches!(row.result, ValueType::Descriptor) && !call.failed() && call.returned_ns != 0 {
            let mut after = tracker.of_process(call.process);
            after.follow(&mut Observation::Record(TraceRecord::Call(call.clone())));
            description.result_text += &after
                .descriptor_path(call.process, call.result as i32)
                .map(angled)
                .unwrap_or_default();
        }
    }
}

/// Returns `["a", "b"]`, with as many strings as fit.
fn quoted(strings: &[Vec<u8>], texts: &TextOptions) -> String {
    let mut shown: Vec<String> = strings
        .iter()
        .take(texts.element_count)
        .map(|text| quote(text, text.len(), texts))
        .collect();
    if shown.len() < strings.len() {
        shown.push("...".to_owned());
    }
    format!("[{}]", shown.join(", "))
}

fn angled(path: &[u8]) -> String {
    let text = quote(
        path,
        path.len(),
        &TextOptions { string_bytes: usize::MAX, ..TextOptions::default() },
    );
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
        let call = TracedCall {
            process,
            thread: process,
            entered_ns,
            returned_ns: entered_ns + 1500,
            number: number::CLOSE.into(),
            result: -9,
            ..TracedCall::default()
        };
        Observation::Record(TraceRecord::Call(TracedCall { arguments: [7, 0, 0, 0, 0, 0], ..call }))
    }

    #[test]
    fn lines_are_those_of_strace() {
        let ended = |process| Observation::Ended {
            process,
            thread: process,
            time_ns: 0,
            how: Ending::Exited(3),
        };
        let lines = printed(Style::default(), &[close(5, 9), ended(5), close(6, 9)]);
        let plain = |lead: &str| {
            format!("{:<39} = -1 EBADF (Bad file descriptor)", format!("{lead}close(7)"))
        };
        assert_eq!(lines, [plain(""), "+++ exited with 3 +++".to_owned(), plain("")]);
        let both = [close(5, 9), close(6, 9), ended(5), close(6, 9)];
        let lines = printed(Style::default(), &both);
        assert_eq!(
            lines,
            [
                plain(""),
                plain("[pid     6] "),
                "[pid     5] +++ exited with 3 +++".to_owned(),
                plain("")
            ]
        );
        let lines = printed(
            Style { prefix: Prefix::Always, numbers: true, ..Style::default() },
            &both[..1],
        );
        assert_eq!(lines, [plain("5     [   3] ")]);
        assert_eq!(
            printed(Style { prefix: Prefix::Never, ..Style::default() }, &both[1..2]),
            [plain("")]
        );
    }

    #[test]
    fn the_first_program_is_told_as_it_was_started() {
        let start =
            crate::state::of_process(std::process::id().cast_signed(), StartKind::Exec).unwrap();
        let start = Observation::Record(TraceRecord::ProcessStart(Box::new(start)));
        let execution = Execution {
            program: b"/bin/x".to_vec(),
            arguments: vec![b"x".to_vec(); 3],
            environment: vec![b"A=1".to_vec(); 2],
        };
        let style = |unabbreviated, element_count| Style {
            execution: Some(execution.clone()),
            text: TextOptions { unabbreviated, element_count, ..TextOptions::default() },
            ..Style::default()
        };
        let line = |style| printed(style, std::slice::from_ref(&start)).remove(0);
        assert_eq!(
            line(style(false, 2)),
            r#"execve("/bin/x", ["x", "x", ...], [/* 2 vars */]) = 0"#
        );
        assert_eq!(
            line(style(true, 9)),
            r#"execve("/bin/x", ["x", "x", "x"], ["A=1", "A=1"]) = 0"#
        );
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
