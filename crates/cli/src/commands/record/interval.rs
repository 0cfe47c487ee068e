//! The value of `--image-every`: a time or `off`.

use std::time::Duration;

/// The least time between two images.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// When images are made, as a user says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// Never.
    Off,
    /// Whenever this time has passed.
    Every(Duration),
}

/// Parses a time, `10s`, `200ms` or `1min`.
pub fn time(text: &str) -> std::result::Result<Duration, String> {
    match interval(text)? {
        Interval::Every(time) => Ok(time),
        Interval::Off => Err("expected a time, such as 10s or 5min".to_owned()),
    }
}

/// Parses a time, `10s`, `200ms`, `1min`, or `off`.
pub fn interval(text: &str) -> std::result::Result<Interval, String> {
    if text == "off" {
        return Ok(Interval::Off);
    }
    let time: jiff::SignedDuration =
        text.parse().map_err(|_| "expected a time, such as 10s or 200ms".to_owned())?;
    let time = Duration::try_from(time).map_err(|_| "it is negative".to_owned())?;
    match time < LEAST_INTERVAL {
        true => Err("the least is 10ms".to_owned()),
        false => Ok(Interval::Every(time)),
    }
}
