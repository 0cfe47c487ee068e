//! The value of `--keep-last`: a size or a time.

use std::time::Duration;

use retake_record::KeepLast;

/// Less is not worth its while: a single chunk may have so much.
const LEAST_BYTES: u64 = 1 << 20;

const UNITS: &str = "K, M, G or T of bytes, or s, min, h or d of time";

/// Reads `64M`, `2G`, `30min`, `12h`.
pub fn parse(text: &str) -> Result<KeepLast, String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 =
        number.parse().map_err(|_| format!("expected a whole number and a unit: {UNITS}"))?;
    let size = |shift: u32| {
        number
            .checked_mul(1 << shift)
            .ok_or("that is more than any disk has".to_owned())
            .and_then(size)
    };
    let time = |seconds: u64| {
        number.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or("no such time".to_owned())
    };
    let time = |seconds| time(seconds).map(|seconds| KeepLast::Time(Duration::from_secs(seconds)));
    match unit {
        "K" => size(10),
        "M" => size(20),
        "G" => size(30),
        "T" => size(40),
        "s" => time(1),
        "min" => time(60),
        "h" => time(3600),
        "d" => time(86400),
        "m" => Err(format!("{number}M of bytes or {number}min of time?")),
        "" => Err(format!("the unit is missing: {UNITS}")),
        unit => Err(format!("{unit:?} is no unit; there are {UNITS}")),
    }
}

fn size(bytes: u64) -> Result<KeepLast, String> {
    if bytes < LEAST_BYTES { Err("the least is 1M".to_owned()) } else { Ok(KeepLast::Bytes(bytes)) }
}

/// As the user would type it, for the recording's settings.
pub fn text(limit: KeepLast) -> String {
    match limit {
        KeepLast::Bytes(bytes) => {
            with_unit(bytes, &[("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)])
        }
        KeepLast::WhatFits => "what fits".to_owned(),
        KeepLast::Time(time) => {
            with_unit(time.as_secs(), &[("d", 86400), ("h", 3600), ("min", 60), ("s", 1)])
        }
    }
}

fn with_unit(number: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, size)| number.is_multiple_of(*size));
    fitting.map_or(number.to_string(), |(unit, size)| format!("{}{unit}", number / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        for good in ["1M", "64M", "2048K", "3G", "1T", "90s", "30min", "12h", "2d"] {
            let limit = parse(good).unwrap();
            assert_eq!(parse(&text(limit)), Ok(limit), "{good}");
        }
        assert_eq!(parse("64M"), Ok(KeepLast::Bytes(64 << 20)));
        assert_eq!(parse("30min"), Ok(KeepLast::Time(Duration::from_secs(1800))));
        for bad in [
            "",
            "M",
            "5",
            "5x",
            "0s",
            "0M",
            "512K",
            "-1M",
            "1.5G",
            "99999999999T",
            "99999999999999999d",
            "5MB",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("10m"), Err("10M of bytes or 10min of time?".to_owned()));
    }
}
