//! `retake dump`: the events of a recording, as text or JSON.

use std::ffi::OsString;

use clap::{ArgGroup, Args};
use retake_model::print::{TextOptions, event_line};
use retake_model::{EventKind, EventRef, table};
use retake_recording::{
    Error, EventReader, Numbered, Recording, StreamId, StreamKind, StreamSummary,
};

use crate::failure::{Failure, Result};
use crate::json_event::JsonEvent;
use crate::output::{Output, Style};
use crate::recordings;

/// How many events before and after the one that `--around` names are shown.
const AROUND: u64 = 10;

/// Options of `retake dump`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("events").args(["range", "around"])))]
#[command(after_help = "\
Each thread of the program has a stream of events, mostly system calls. They are shown stream after stream: the number of the \
event, then the event in the manner of strace. With --json there is one object a line instead, with all the data that were \
recorded.

Examples:
  retake dump                            everything in the latest recording
  retake dump make-1 --call openat,execve
  retake dump --stream 0 --around 48213  what led to a divergence, and what should have followed
  retake dump --pid 4711 --kind signal,exit
  retake dump --json | jq 'select(.error == \"ENOENT\") | .arguments'
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// Only these processes, by the numbers they had while recording
    #[arg(long, value_delimiter = ',', value_name = "PID")]
    pid: Vec<i32>,

    /// Only these threads
    #[arg(long, value_delimiter = ',', value_name = "TID")]
    tid: Vec<i32>,

    /// Only these streams
    #[arg(long, value_delimiter = ',', value_name = "NUMBER")]
    stream: Vec<u32>,

    /// Only these system calls
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = call_number)]
    call: Vec<u16>,

    /// Only these kinds of events: call, signal, fatal, exit, tsc, exec, start, turn, forced, hash,
    /// end, compare; and of what the supervisor notes: thread, dropped
    #[arg(long, value_delimiter = ',', value_name = "KIND", value_parser = kind)]
    kind: Vec<EventKind>,

    /// Only events from A up to, but not including, B; either may be left out
    #[arg(long, value_name = "A..B", value_parser = range)]
    range: Option<EventRange>,

    /// Only the event with this number and a few before and after it
    #[arg(long, value_name = "EVENT")]
    around: Option<u64>,

    /// Show up to this many bytes of each string and buffer
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    strings: usize,

    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// Events from `first` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EventRange {
    first: u64,
    end: u64,
}

impl EventRange {
    const ALL: Self = Self { first: 0, end: u64::MAX };
}

fn call_number(name: &str) -> std::result::Result<u16, String> {
    let row = table::call_by_name(name);
    row.map(|row| row.number).ok_or_else(|| "there is no such system call".to_owned())
}

fn kind(name: &str) -> std::result::Result<EventKind, String> {
    EventKind::ALL
        .into_iter()
        .find(|kind| kind.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| "there is no such kind of event".to_owned())
}

fn range(text: &str) -> std::result::Result<EventRange, String> {
    let (first, end) = text.split_once("..").ok_or("expected two numbers with .. between them")?;
    let number = |text: &str, absent| match text {
        "" => Ok(absent),
        text => text.parse::<u64>().map_err(|_| format!("{text:?} is not the number of an event")),
    };
    Ok(EventRange { first: number(first, 0)?, end: number(end, u64::MAX)? })
}

/// Prints the events.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    let dropped = recordings::dropped(&recording);
    recordings::note_dropped(&dropped);
    let chosen: Vec<StreamSummary> =
        recording.streams().filter(|stream| options.wants_stream(stream)).collect();
    if chosen.is_empty() && options.chooses_streams() {
        if let Some(stream) =
            options.stream.iter().find(|stream| dropped.has_stream(StreamId(**stream)))
        {
            return Err(Failure::new(format!(
                "stream {stream} was left out while recording (--keep-last)"
            ))
            .attempt("retake ps, which lists what is there"));
        }
        return Err(Failure::new("no thread of the recording is one of those chosen")
            .attempt("retake ps, which lists the processes"));
    }
    let mut output = Output::new();
    let mut failure = None;
    for (index, stream) in chosen.iter().enumerate() {
        if index > 0 && !options.json {
            output.line("")?;
        }
        let problem = dump_stream(options, &recording, stream, &mut output)?;
        failure = failure.or(problem);
    }
    output.finish()?;
    failure.map_or(Ok(()), Err)
}

/// Prints one stream as far as it can be read. Returns the first thing that is wrong with it.
fn dump_stream(
    options: &Options,
    recording: &Recording,
    stream: &StreamSummary,
    output: &mut Output,
) -> Result<Option<Failure>> {
    let range = options.event_range();
    let text = TextOptions {
        string_bytes: options.strings,
        unabbreviated: true,
        ..TextOptions::default()
    };
    let info = &stream.info;
    if !options.json {
        let heading = format!(
            "# stream {}: process {}, thread {}, {} events",
            info.id, info.pid, info.tid, stream.event_count
        );
        output.line(output.styled(Style::Bold, heading))?;
    }
    let mut reader = EventReader::new(recording, info.id)?;
    if range.first > 0 {
        reader.seek_before(range.first)?;
    }
    let mut problem = None;
    while reader.next_index() < range.end {
        let Numbered { index, event, .. } = match reader.next() {
            Ok(Some(numbered)) => numbered,
            Ok(None) => break,
            Err(error) => {
                problem.get_or_insert(error.into());
                break;
            }
        };
        if index < range.first {
            continue;
        }
        let event = match event {
            Ok(event) if options.wants_event(&event) => event,
            Ok(_) => continue,
            Err(error) => {
                problem.get_or_insert_with(|| {
                    Error::Malformed { stream: info.id, index, error }.into()
                });
                continue;
            }
        };
        if options.json {
            output.json_line(&JsonEvent::new(info, index, &event, &text))?;
        } else {
            let number = output.styled(Style::Faint, format!("{index:>7}"));
            output.line(format!("{number}  {}", event_line(&event, &text)))?;
        }
    }
    if reader.is_cut() && !options.json {
        let index = reader.next_index();
        output.line(format!("# the stream ends in the middle of event {index}"))?;
    }
    Ok(problem)
}

impl Options {
    fn chooses_streams(&self) -> bool {
        !(self.pid.is_empty() && self.tid.is_empty() && self.stream.is_empty())
    }

    fn wants_stream(&self, stream: &StreamSummary) -> bool {
        let info = &stream.info;
        // What the supervisor notes is no event of the program.
        if info.kind == StreamKind::Supervisor
            && self.stream.is_empty()
            && !self.kind.iter().any(|kind| matches!(kind, EventKind::Thread | EventKind::Dropped))
        {
            return false;
        }
        is_wanted(&self.pid, &info.pid)
            && is_wanted(&self.tid, &info.tid)
            && is_wanted(&self.stream, &info.id.0)
    }

    fn wants_event(&self, event: &EventRef<'_>) -> bool {
        let is_chosen_call = event.kind() == EventKind::Call && self.call.contains(&event.number());
        (self.call.is_empty() || is_chosen_call) && is_wanted(&self.kind, &event.kind())
    }

    fn event_range(&self) -> EventRange {
        match (self.range, self.around) {
            (Some(range), _) => range,
            (None, Some(event)) => EventRange {
                first: event.saturating_sub(AROUND),
                end: event.saturating_add(AROUND + 1),
            },
            (None, None) => EventRange::ALL,
        }
    }
}

/// An empty choice is everything.
fn is_wanted<T: PartialEq>(chosen: &[T], one: &T) -> bool {
    chosen.is_empty() || chosen.contains(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_events() {
        let good = [("3..5", 3, 5), ("..5", 0, 5), ("3..", 3, u64::MAX)];
        for (text, first, end) in good {
            assert_eq!(range(text), Ok(EventRange { first, end }));
        }
        assert_eq!(range(".."), Ok(EventRange::ALL));
        for bad in ["", "3", "a..b", "3..-1", "1..2..3"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn calls_and_kinds_by_name() {
        assert_eq!(call_number("read"), Ok(0));
        assert!(call_number("reed").is_err());
        assert_eq!(kind("Exec"), Ok(EventKind::Exec));
        assert!(kind("").is_err());
    }
}
