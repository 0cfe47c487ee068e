//! The value of `--keep-last`: a size or a time.

use std::time::Duration;

use retake_record::{KeepLast, When};

use crate::quantity::{self, Quantity};

/// The least size. A single chunk can be as large.
const LEAST_BYTES: u64 = 1 << 20;

/// Parses a limit: `64M`, `2G`, `30min`, `12h`.
pub fn parse(text: &str) -> Result<KeepLast, String> {
    match quantity::either(text)? {
        Quantity::Size(bytes) => enough(bytes).map(KeepLast::Bytes),
        Quantity::Time(time) => Ok(KeepLast::Time(time)),
    }
}

/// Parses a limit in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    quantity::size(text).and_then(enough)
}

fn enough(bytes: u64) -> Result<u64, String> {
    if bytes < LEAST_BYTES { Err("the least is 1M".to_owned()) } else { Ok(bytes) }
}

/// The least time between images.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
/// Images are made when the events have grown by this part of a limit in bytes.
const PART: u64 = 8;

/// When to make images, so that a process that runs for long can be cut at one.
pub fn images(limit: KeepLast) -> Option<When> {
    match limit {
        KeepLast::Bytes(bytes) => Some(When::Grown(bytes / PART)),
        KeepLast::Time(time) => Some(When::Every((time / 2).max(LEAST_PAUSE))),
        KeepLast::WhatFits => None,
    }
}

/// The limit as a user would type it, for the recording's settings.
pub fn text(limit: KeepLast) -> String {
    match limit {
        KeepLast::Bytes(bytes) => quantity::size_text(bytes),
        KeepLast::WhatFits => "what fits".to_owned(),
        KeepLast::Time(time) => quantity::time_text(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        for good in ["1M", "64M", "2048K", "3G", "1T", "90s", "30min", "12h", "2d", "5MB"] {
            let limit = parse(good).unwrap();
            assert_eq!(parse(&text(limit)), Ok(limit), "{good}");
        }
        assert_eq!(parse("64M"), Ok(KeepLast::Bytes(64 << 20)));
        assert_eq!(parse("30min"), Ok(KeepLast::Time(Duration::from_secs(1800))));
        for bad in ["", "M", "5", "5x", "0s", "0M", "512K", "-1M", "1.5G", "99999999999T"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("10m"), Err("10M of bytes or 10min of time?".to_owned()));
    }
}
