//! Places of a recording as users name them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A place to go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// Where this thread, or the current one, has consumed this many events.
    Event(Option<u32>, u64),
    /// This long after recording began.
    Time(Duration),
    /// Before the program's first instruction.
    Begin,
    /// Before the process exits or dies.
    End,
    /// Before the process dies by a signal. There is no such place if it does not.
    Crash,
    /// A place that the user remembered, by number.
    Checkpoint(u64),
}

/// The forms of places, for messages.
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

/// The units of time, in seconds. A unit that is the end of another comes after it.
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
        let wrong = || format!("{text:?} is not a place\n  try       {PLACES}");
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
