//! `retake dump`: prints the events of a recording, as text or JSON.

mod times;

use std::ffi::OsString;

use clap::{ArgGroup, Args};
use retake_model::print::{TextOptions, event_line};
use retake_model::{EventKind, EventRef, EventTime, StreamTimes, TimeScale, table};
use retake_recording::{
    Error, EventReader, Numbered, Recording, StreamId, StreamInfo, StreamKind, StreamSummary,
};

use crate::failure::{Failure, Result};
use crate::json_event::JsonEvent;
use crate::output::{Output, Style};
use crate::recordings;
use times::{Column, Times};

/// The number of events that `--around` shows before its event, and after it.
const AROUND: u64 = 10;

/// Options of `retake dump`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("events").args(["range", "around"])))]
#[command(after_help = "\
Each thread of the program has a stream of events, mostly system calls. dump shows one stream \
after another. Each line has the number of an event, then the event in the form of strace. With \
--json, each line is one object with all recorded data.

With -t, -tt, -ttt, -r or --elapsed, each event has a time; that of a call is the time of its \
return. A + after the time means: then or later, up to the time of the next event. Events that \
cost little have no time of their own.

Examples:
  retake dump                            everything in the latest recording
  retake dump make-1 --call openat,execve
  retake dump --stream 0 --around 48213  what led to a divergence, and what should have followed
  retake dump --pid 4711 --kind signal,exit
  retake dump -r --call read,poll        how long each took
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
    /// end, compare; and of the supervisor's: thread, time, dropped
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

    #[command(flatten)]
    times: Times,

    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// The events from `first` up to, but not including, `end`.
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
    let range = EventRange { first: number(first, 0)?, end: number(end, u64::MAX)? };
    if range.first >= range.end {
        return Err(format!(
            "the range from {} up to, but not including, {} has no events",
            range.first, range.end
        ));
    }
    Ok(range)
}

/// Prints the events.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    let dropped = recordings::dropped(&recording);
    recordings::note_dropped(&recording);
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
        return Err(Failure::new("the recording has none of the chosen threads")
            .attempt("retake ps, which lists the processes"));
    }
    options.check_around(&chosen)?;
    let scale = recording.time_scale();
    if options.times.are_wanted() && scale.as_ref().is_some_and(|scale| !scale.has_stamps()) {
        retake_kernel::tell!(
            "note: times are coarse: the processor's time-stamp counter did not run evenly, so \
            only clocks that the program read tell the time"
        );
    }
    let dump = Dump { options, recording: &recording, scale };
    let mut output = Output::new();
    let mut failure = None;
    for (index, stream) in chosen.iter().enumerate() {
        if index > 0 && !options.json {
            output.line("")?;
        }
        let problem = dump.stream(stream, &mut output)?;
        failure = failure.or(problem);
    }
    output.finish()?;
    failure.map_or(Ok(()), Err)
}

/// A dump in progress.
struct Dump<'dump> {
    options: &'dump Options,
    recording: &'dump Recording,
    scale: Option<TimeScale>,
}

impl Dump<'_> {
    /// Prints one stream as far as it can be read. Returns the first error.
    fn stream(&self, stream: &StreamSummary, output: &mut Output) -> Result<Option<Failure>> {
        let range = self.options.event_range();
        let info = &stream.info;
        let mut lines = Lines::begin(self, stream, output)?;
        let most = if self.options.json { usize::MAX } else { self.options.strings };
        let mut reader =
            EventReader::new(self.recording, info.id)?.with_referenced(self.recording, most);
        // Times are sums from the beginning of the stream.
        if range.first > 0 && lines.times.is_none() {
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
            let is_in_range = index >= range.first;
            match event {
                Ok(event) => {
                    let time = lines.times.as_mut().map(|times| times.pass(&event));
                    if is_in_range && self.options.wants_event(&event) {
                        lines.show(index, &event, time, output)?;
                    }
                }
                Err(error) if is_in_range => {
                    problem.get_or_insert_with(|| {
                        Error::Malformed { stream: info.id, index, error }.into()
                    });
                }
                Err(_) => {}
            }
        }
        if reader.is_cut() && !self.options.json {
            let index = reader.next_index();
            output.line(format!("# the stream ends in the middle of event {index}"))?;
        }
        Ok(problem)
    }
}

/// The printer of one stream's lines.
struct Lines<'dump> {
    info: &'dump StreamInfo,
    text: TextOptions,
    is_json: bool,
    scale: Option<&'dump TimeScale>,
    column: Option<Column<'dump>>,
    /// Present if times are wanted.
    times: Option<StreamTimes<'dump>>,
}

impl<'dump> Lines<'dump> {
    fn begin(
        dump: &'dump Dump<'_>,
        stream: &'dump StreamSummary,
        output: &mut Output,
    ) -> Result<Self> {
        let (options, info, scale) = (dump.options, &stream.info, dump.scale.as_ref());
        if !options.json {
            let heading = format!(
                "# stream {}: process {}, thread {}, {} events",
                info.id, info.pid, info.tid, stream.event_count
            );
            output.line(output.styled(Style::Bold, heading))?;
        }
        // The supervisor's events carry their own times.
        let has_times = info.kind != StreamKind::Supervisor;
        let column = options.times.column(scale)?.filter(|_| has_times);
        let wants_times = has_times && (options.json || column.is_some());
        Ok(Self {
            info,
            text: TextOptions {
                string_bytes: options.strings,
                unabbreviated: true,
                ..TextOptions::default()
            },
            is_json: options.json,
            scale,
            column,
            times: scale.filter(|_| wants_times).map(StreamTimes::new),
        })
    }

    fn show(
        &mut self,
        index: u64,
        event: &EventRef<'_>,
        time: Option<EventTime>,
        output: &mut Output,
    ) -> Result<()> {
        if self.is_json {
            let event = JsonEvent::new(self.info, index, event, &self.text);
            return output.json_line(&event.at(self.scale.zip(time)));
        }
        let number = output.styled(Style::Faint, format!("{index:>7}"));
        let time = self.column.as_mut().zip(time);
        let time = time.map_or(String::new(), |(column, time)| column.text(time) + " ");
        output.line(format!("{number}  {time}{}", event_line(event, &self.text)))
    }
}

impl Options {
    /// Checks that the event of `--around` is in at least one of the streams.
    fn check_around(&self, chosen: &[StreamSummary]) -> Result<()> {
        let Some(event) = self.around else { return Ok(()) };
        let most = chosen.iter().map(|stream| stream.event_count).max().unwrap_or(0);
        if event < most {
            return Ok(());
        }
        let last = most.saturating_sub(1);
        Err(Failure::new(format!("event {event} is beyond the end: the last one is {last}"))
            .attempt(format!("--around {last}")))
    }

    fn chooses_streams(&self) -> bool {
        !(self.pid.is_empty() && self.tid.is_empty() && self.stream.is_empty())
    }

    fn wants_stream(&self, stream: &StreamSummary) -> bool {
        let info = &stream.info;
        // The supervisor's events are not the program's, and are shown only on request.
        if info.kind == StreamKind::Supervisor
            && self.stream.is_empty()
            && !self.kind.iter().any(|kind| {
                matches!(
                    kind,
                    EventKind::Thread | EventKind::Time | EventKind::Reached | EventKind::Dropped
                )
            })
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

/// Whether `one` is chosen. An empty choice is everything.
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
