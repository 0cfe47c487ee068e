//! Places of a recording as users name them, and going there.

use crate::crash::has_end;
use crate::debuggee::{GiveUp, Stop};
use crate::error::{DebugError, Result};
use crate::session::Session;
use retake_model::EventKind;
use retake_recording::EventReader;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Where to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// Where this thread, or the current one, has consumed so many events.
    Event(Option<u32>, u64),
    /// So long after recording began.
    Time(Duration),
    /// Before the program's first instruction.
    Begin,
    /// Before the process exits or dies.
    End,
    /// Before it dies by a signal; there is none if it does not.
    Crash,
    /// A place that the user remembered, by number.
    Checkpoint(u64),
}

/// What places look like.
pub const PLACES: &str = "EVENT, THREAD:EVENT, a time such as 1.5s or 20ms, begin, exit or crash";

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(None, event) => write!(formatter, "{event}"),
            Self::Event(Some(thread), event) => write!(formatter, "{thread}:{event}"),
            Self::Time(time) => write!(formatter, "{}ns", time.as_nanos()),
            Self::Begin => formatter.write_str("begin"),
            Self::End => formatter.write_str("exit"),
            Self::Crash => formatter.write_str("crash"),
            Self::Checkpoint(number) => write!(formatter, "checkpoint {number}"),
        }
    }
}

/// Units of time, in seconds. Those that others end with come first.
const UNITS: [(&str, f64); 5] =
    [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("min", 60.0), ("s", 1.0)];

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "begin" | "start" => return Ok(Self::Begin),
            "end" | "exit" => return Ok(Self::End),
            "crash" => return Ok(Self::Crash),
            _ => {}
        }
        let wrong = || format!("{text:?} is no place\n  try       {PLACES}");
        if let Some(time) = time(text) {
            return Ok(Self::Time(time));
        }
        let (thread, event) = match text.split_once(':') {
            Some((thread, event)) => (Some(thread.parse().map_err(|_| wrong())?), event),
            None => (None, text),
        };
        Ok(Self::Event(thread, event.parse().map_err(|_| wrong())?))
    }
}

fn time(text: &str) -> Option<Duration> {
    let (number, scale) =
        UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let number: f64 = number.trim_end().parse().ok()?;
    Duration::try_from_secs_f64(number * scale).ok()
}

impl Session {
    /// Puts the process where the user wants it, before a debugger comes.
    ///
    /// # Errors
    /// There is no such place, the replay diverged, or the process cannot be controlled.
    pub fn go(&mut self, destination: Destination) -> Result<()> {
        let destination = self.exact(destination)?;
        let since = Instant::now();
        self.kept.used = None;
        if self.arrive_at_kept(destination)?.is_some() {
            self.remark_begin();
            return Ok(());
        }
        self.go_to(destination, &mut || false)?;
        self.remark_begin();
        self.leave_kept(destination, since.elapsed())
    }

    /// The same place in terms of events; says if there is none.
    ///
    /// # Errors
    /// There is no such place.
    pub(crate) fn exact(&mut self, destination: Destination) -> Result<Destination> {
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
            Destination::Checkpoint(number) if !self.has_checkpoint(number) => {
                return Err(DebugError::NoPlace(format!("there is no checkpoint {number}")));
            }
            Destination::End
                if !self.target.is_replaced() && !has_end(&self.recording, self.target.pid)? =>
            {
                self.last_event()?
            }
            other => other,
        })
    }

    /// Where the first thread has consumed all there is: nothing in the process says that it ends.
    fn last_event(&self) -> Result<Destination> {
        let first = self.recording.streams().find(|stream| stream.info.id == self.target.stream);
        let Some(first) = first else { return Ok(Destination::End) };
        let mut reader = EventReader::new(&self.recording, self.target.stream)?;
        let mut events = first.event_count;
        reader.seek_before(events.saturating_sub(1))?;
        while let Ok(Some(numbered)) = reader.next() {
            if numbered.kind == Some(EventKind::End) {
                events = numbered.index; // the recorder's word, not the thread's
            }
        }
        Ok(Destination::Event(Some(first.info.tid as u32), events))
    }

    /// Goes to a place that [`Session::exact`] gave.
    pub(crate) fn go_to(&mut self, destination: Destination, give_up: GiveUp) -> Result<Stop> {
        match destination {
            Destination::Event(..) | Destination::End | Destination::Crash
                if self.timeline.moves > 0 =>
            {
                match self.arrive_at_kept(destination)? {
                    Some(stop) => Ok(stop),
                    None => self.replay_to(destination, give_up),
                }
            }
            destination => self.replay_to(destination, give_up),
        }
    }

    fn replay_to(&mut self, destination: Destination, give_up: GiveUp) -> Result<Stop> {
        match destination {
            Destination::Event(thread, events) => {
                let thread = thread.unwrap_or_else(|| self.debuggee.context().tid);
                self.seek(thread, events, give_up)
            }
            Destination::Time(_) | Destination::End | Destination::Crash => self.go_to_end(give_up),
            Destination::Begin => self.go_to_begin(),
            Destination::Checkpoint(number) => self.restart(number),
        }
    }

    fn has_thread(&self, thread: u32) -> bool {
        self.recording
            .streams()
            .any(|stream| stream.info.pid == self.target.pid && stream.info.tid as u32 == thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_name_number_and_time() {
        let ms = |count| Destination::Time(Duration::from_millis(count));
        let good = [
            ("12", Destination::Event(None, 12)),
            ("4711:12", Destination::Event(Some(4711), 12)),
            ("crash", Destination::Crash),
            ("exit", Destination::End),
            ("1.5s", ms(1500)),
            ("20ms", ms(20)),
            ("2min", ms(120_000)),
        ];
        for (text, place) in good {
            assert_eq!(text.parse(), Ok(place), "{text}");
            assert_eq!(place.to_string().parse(), Ok(place), "{text}");
        }
        for bad in ["", "x", "1:", ":1", "-1", "1:2:3", "s", "-1s", "1.5", "infs"] {
            assert!(bad.parse::<Destination>().is_err(), "{bad}");
        }
    }
}
