//! Sizes and times as values of options: `64M`, `2GB`, `30min`, `7d`.

use std::time::Duration;

/// The units of sizes, as powers of two. A `B` may follow.
const SIZES: [(&str, u32); 4] = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];
/// The units of times, in seconds.
const TIMES: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3600), ("d", 86400)];

/// The units of both, for messages.
pub const UNITS: &str = "K, M, G or T of bytes, or s, min, h or d of time";

/// A size or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A number of bytes.
    Size(u64),
    /// A length of time.
    Time(Duration),
}

/// Parses a size or a time.
pub fn either(text: &str) -> Result<Quantity, String> {
    let (number, unit) = split(text, UNITS)?;
    if let Some(size) = size_in(number, unit) {
        return size.map(Quantity::Size);
    }
    if let Some(time) = time_in(number, unit) {
        return time.map(Quantity::Time);
    }
    Err(match unit {
        "m" => format!("{number}M of bytes or {number}min of time?"),
        unit => wrong_unit(unit, UNITS),
    })
}

/// Parses a size.
pub fn size(text: &str) -> Result<u64, String> {
    let units = "K, M, G or T";
    let (number, unit) = split(text, units)?;
    size_in(number, unit).unwrap_or_else(|| Err(wrong_unit(unit, units)))
}

/// Parses a time.
pub fn time(text: &str) -> Result<Duration, String> {
    let units = "s, min, h or d";
    let (number, unit) = split(text, units)?;
    time_in(number, unit).unwrap_or_else(|| Err(wrong_unit(unit, units)))
}

/// A size as a user would type it.
pub fn size_text(bytes: u64) -> String {
    let unit = SIZES.iter().rev().find(|(_, shift)| bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// A time as a user would type it.
pub fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let unit = TIMES.iter().rev().find(|(_, length)| seconds.is_multiple_of(*length));
    unit.map_or_else(|| seconds.to_string(), |(unit, length)| format!("{}{unit}", seconds / length))
}

fn split<'text>(text: &'text str, units: &str) -> Result<(u64, &'text str), String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number =
        number.parse().map_err(|_| format!("expected a whole number and a unit: {units}"))?;
    Ok((number, unit))
}

fn wrong_unit(unit: &str, units: &str) -> String {
    match unit {
        "" => format!("the unit is missing: {units}"),
        unit => format!("{unit:?} is not a unit; the units are {units}"),
    }
}

fn size_in(number: u64, unit: &str) -> Option<Result<u64, String>> {
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let (_, shift) = SIZES.iter().find(|(name, _)| *name == unit)?;
    Some(number.checked_mul(1 << shift).ok_or("that is more than any disk has".to_owned()))
}

fn time_in(number: u64, unit: &str) -> Option<Result<Duration, String>> {
    let (_, seconds) = TIMES.iter().find(|(name, _)| *name == unit)?;
    let time = number.checked_mul(*seconds).filter(|seconds| *seconds > 0);
    Some(time.map(Duration::from_secs).ok_or("no such time".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        for good in ["1M", "64M", "2K", "3G", "1T", "1000K"] {
            assert_eq!(size(good).map(size_text).as_deref(), Ok(good));
        }
        for good in ["90s", "30min", "12h", "2d"] {
            assert_eq!(time(good).map(time_text).as_deref(), Ok(good));
        }
        assert_eq!(size("2GB"), Ok(2 << 30));
        assert_eq!(either("2GB"), Ok(Quantity::Size(2 << 30)));
        assert_eq!(either("7d"), Ok(Quantity::Time(Duration::from_secs(7 * 86400))));
        for bad in ["", "M", "5", "5x", "-1M", "1.5G", "99999999999T", "7d", "1B"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        for bad in ["", "5", "0s", "3M", "99999999999999999d", "5m"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
