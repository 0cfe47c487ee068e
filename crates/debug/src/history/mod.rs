//! What the recording says about the debugged process. Nothing here uses a replay.
//!
//! * `target`: the debugged process; `path`: the program that it executed.
//! * `crash`: how it died; `ended`: processes ended by something else.
//! * `events`, `outputs`: the events around a place, and the output up to there.
//! * `times`: when things happened; `thread_names`: the names of its threads.
//! * `alone`: shared memory that only one process uses; `one_core`: programs that notice on which
//!   core they run.
//! * `strangers`: processes that take turns with one that begins at an image.
//! * `scan`: reads the headers of events without their bodies.

pub(crate) mod alone;
pub(crate) mod crash;
pub(crate) mod ended;
mod events;
pub(crate) mod one_core;
mod outputs;
pub(crate) mod path;
mod scan;
pub(crate) mod strangers;
pub(crate) mod target;
mod thread_names;
mod times;

pub(crate) use events::LastCall;

use crate::destination::Destination;
use crate::error::{DebugError, Result};
use crash::{Crash, has_end};
use path::program_path;
use retake_model::EventKind;
use retake_model::signal::SIGINFO_BYTES;
use retake_recording::{EventReader, Recording, StreamId, StreamKind, StreamSummary};
use std::cell::OnceCell;
use std::time::Duration;
use target::Target;
use thread_names::ThreadNames;
use times::Times;

/// A thread's stream, and the number of events that it has consumed.
pub(crate) type Consumed = (StreamId, u64);

/// The recorded information about a process.
pub(crate) struct History {
    pub recording: Recording,
    pub target: Target,
    /// The path of the executed program.
    pub path: String,
    /// How the process died, if a signal killed it.
    pub crash: Option<Crash>,
    /// The times, read on first use.
    times: OnceCell<Option<Times>>,
    names: OnceCell<ThreadNames>,
}

impl History {
    /// Makes the history of a process.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn of(recording: &Recording, target: Target) -> Result<Self> {
        Ok(Self {
            recording: recording.clone(),
            path: program_path(recording, &target),
            crash: target.crash(recording)?,
            target,
            times: OnceCell::new(),
            names: OnceCell::new(),
        })
    }

    /// The history for another program that the process executed; `None` if it executed fewer.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn with_program(&self, program: usize) -> Result<Option<Self>> {
        let target = self.target.with_program(&self.recording, program)?;
        target.map(|target| Self::of(&self.recording, target)).transpose()
    }

    /// Describes the recording for users.
    pub fn about(&self) -> String {
        let metadata = self.recording.metadata();
        let words: Vec<String> =
            metadata.arguments.iter().map(|argument| argument.to_string_lossy()).collect();
        let events: u64 = self.streams().map(|stream| stream.event_count).sum();
        format!(
            "recording {}\ncommand   {}\nprocess   {} ({events} events), {}",
            self.recording.path().display(),
            words.join(" "),
            self.target.pid,
            self.path
        )
    }

    /// The streams of the process.
    fn streams(&self) -> impl Iterator<Item = StreamSummary> {
        self.recording.streams().filter(|stream| stream.info.pid == self.target.pid)
    }

    // ---- threads ----

    /// The name of a thread, by the program's ID, after this many events.
    pub fn thread_name(&self, thread: u32, events: u64) -> &str {
        let names =
            self.names.get_or_init(|| ThreadNames::of(&self.recording, &self.target, &self.path));
        names.name(thread, events)
    }

    fn has_thread(&self, thread: u32) -> bool {
        self.streams().any(|stream| stream.info.tid as u32 == thread)
    }

    // ---- places ----

    /// Converts a place to one in terms of events.
    ///
    /// # Errors
    /// There is no such place.
    pub fn exact(&self, destination: Destination) -> Result<Destination> {
        Ok(match destination {
            Destination::Crash if self.crash.is_none() => {
                return Err(DebugError::NoPlace("this process did not crash".to_owned()));
            }
            Destination::Time(time) => self.event_at(time)?,
            Destination::Event(Some(thread), _) if !self.has_thread(thread) => {
                return Err(DebugError::NoPlace(format!(
                    "the process never had a thread {thread}"
                )));
            }
            Destination::Event(Some(thread), events) => {
                self.check_place(thread, events)?;
                destination
            }
            other => other,
        })
    }

    /// Checks that a thread consumes this many events.
    ///
    /// # Errors
    /// The thread ends before, or the recording cannot be read.
    pub fn check_place(&self, thread: u32, events: u64) -> Result<()> {
        let mut end = 0;
        for stream in self.streams().filter(|stream| stream.info.tid as u32 == thread) {
            end = end.max(end_of_stream(&self.recording, &stream)?);
        }
        if events <= end {
            return Ok(());
        }
        Err(DebugError::NoPlace(format!(
            "event {events} of thread {thread} is beyond the end: the thread ends at event \
            {end}\n  try       {thread}:{end}, or exit"
        )))
    }

    /// The thread that did something last, and the number of all its events, if nothing in the
    /// process says that it ends: it was killed, or recording was cut off.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn last_event(&self) -> Result<Option<(u32, u64)>> {
        if self.target.is_replaced() || has_end(&self.recording, self.target.pid)? {
            return Ok(None);
        }
        let mut last = None;
        for stream in self.streams().filter(|stream| stream.info.kind != StreamKind::Supervisor) {
            let events = end_of_stream(&self.recording, &stream)?;
            let time = self.times().and_then(|times| times.time(stream.info.id, events));
            last = last.max(Some((time, stream.info.id, stream.info.tid as u32, events)));
        }
        Ok(last.map(|(_, _, tid, events)| (tid, events)))
    }

    /// Places spread evenly over the events of the process, including forced points, in the form
    /// that [`Destination`] reads. They are ordered by thread.
    pub fn samples(&self, wanted: u64) -> Vec<String> {
        let all: u64 = self.streams().map(|stream| stream.event_count).sum();
        let step = all.div_ceil(wanted.max(1)).max(1);
        let places = self.streams().flat_map(|stream| {
            // Before the program there is nothing to see.
            let first =
                if stream.info.id == self.target.stream { self.target.first_event } else { 1 };
            let events = (first..stream.event_count).filter(move |event| event % step == 0);
            events.map(move |event| format!("{}:{event}", stream.info.tid))
        });
        places.collect()
    }

    // ---- times ----

    fn times(&self) -> Option<&Times> {
        self.times.get_or_init(|| Times::of(&self.recording, self.target.pid)).as_ref()
    }

    /// When a thread had consumed this many events: nanoseconds since recording began, and since
    /// 1970.
    pub fn time(&self, (stream, events): Consumed) -> Option<(u64, u64)> {
        let times = self.times()?;
        let ns = times.time(stream, events)?;
        Some((ns, times.unix_ns(ns)))
    }

    /// Nanoseconds from the beginning of recording until a thread had consumed this many events,
    /// and until the end of the process.
    pub fn elapsed(&self, (stream, events): Consumed) -> Option<(u64, u64)> {
        let times = self.times()?;
        Some((times.time(stream, events)?, times.end()?))
    }

    /// The place where the process was at a time.
    fn event_at(&self, time: Duration) -> Result<Destination> {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let Some((times, end)) = self.times().and_then(|times| Some((times, times.end()?))) else {
            return Err(DebugError::NoPlace(
                "the recording does not say when anything happened".to_owned(),
            ));
        };
        if ns > end {
            return Err(DebugError::NoPlace(format!(
                "{:.6} s is beyond the end: the process ended {:.6} s after recording began\n  \
                try       exit",
                time.as_secs_f64(),
                end as f64 / 1e9
            )));
        }
        if ns == end {
            return Ok(Destination::End);
        }
        let Some((stream, events)) = times.place(ns) else { return Ok(Destination::Begin) };
        let info =
            self.recording.streams().find(|known| known.info.id == stream).map(|known| known.info);
        Ok(info
            .map_or(Destination::Begin, |info| Destination::Event(Some(info.tid as u32), events)))
    }

    // ---- events ----

    /// The state of the last call of a thread.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn last_call(&self, place: Consumed) -> Result<LastCall> {
        events::last_call(&self.recording, place)
    }

    /// The kernel's information about a signal that a thread gets at a place.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn siginfo(&self, place: Consumed, number: u16) -> Result<Option<[u8; SIGINFO_BYTES]>> {
        events::siginfo(&self.recording, place, number)
    }

    /// Describes the events before and after a place.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn events_around(&self, place: Consumed, before: u64, after: u64) -> Result<String> {
        events::around(&self.recording, place, before, after)
    }

    /// Describes the system call that the thread makes at a place, if that writes to this memory.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn writing_call(
        &self,
        place: Consumed,
        address: u64,
        bytes: u64,
    ) -> Result<Option<String>> {
        events::writing_call(&self.recording, place, address, bytes)
    }

    /// The number of the last output of the process before its threads had consumed these numbers
    /// of events, in this turn.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn last_output(&self, living: &[Consumed], turn: u64) -> Result<Option<u64>> {
        let mut last = None;
        for stream in self.streams() {
            // The place of a living thread is known. Other threads have ended, or begin in a later
            // turn.
            let (events, turn) = match living.iter().find(|(known, _)| *known == stream.info.id) {
                Some((_, events)) => (*events, u64::MAX),
                None => (u64::MAX, turn),
            };
            last = last.max(outputs::last_output(&self.recording, stream.info.id, events, turn)?);
        }
        Ok(last)
    }

    /// The numbers of the outputs that these threads are just making at their places: they have
    /// printed, and wait for their turn.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn outputs_under_way(&self, threads: &[Consumed]) -> Result<Vec<u64>> {
        let outputs = threads
            .iter()
            .map(|(stream, events)| outputs::next_output(&self.recording, *stream, *events));
        Ok(outputs.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// The number of events that a thread has consumed when it is about to end, or when its recording
/// stops.
fn end_of_stream(recording: &Recording, stream: &StreamSummary) -> Result<u64> {
    let mut reader = EventReader::new(recording, stream.info.id)?;
    let mut events = stream.event_count;
    reader.seek_before(events.saturating_sub(1))?;
    while let Ok(Some(numbered)) = reader.next() {
        // The recorder wrote the last event, not the thread.
        if matches!(numbered.kind, Some(EventKind::Exit | EventKind::Fatal | EventKind::End)) {
            events = events.min(numbered.index);
        }
    }
    Ok(events)
}
