//! Dates and times of day as text, with the calendar of jiff. The caller gives the offset of its
//! time zone from UTC; nothing here reads the machine's settings.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date as day};

/// Returns the local date and time at an offset from UTC; `None` beyond the years -9999 to 9999.
fn shown(unix_seconds: i64, utc_offset_s: i32) -> Option<DateTime> {
    let local = unix_seconds.checked_add(i64::from(utc_offset_s))?;
    day(1970, 1, 1).at(0, 0, 0, 0).checked_add(SignedDuration::from_secs(local)).ok()
}

/// Formats nanoseconds since 1970 as a time of day: `03:30:23`.
pub fn time_of_day(unix_ns: u64, utc_offset_s: i32) -> String {
    let shown = shown((unix_ns / 1_000_000_000) as i64, utc_offset_s);
    shown.expect("64 bits of nanoseconds end in 2554").strftime("%H:%M:%S").to_string()
}

/// Formats a time as `2026-11-23T03:30:23.858274177+0000`; `None` if it is beyond the calendar.
pub(crate) fn date(unix_seconds: i64, nanoseconds: u64, utc_offset_s: i32) -> Option<String> {
    let shown = shown(unix_seconds, utc_offset_s)?;
    let (year, rest) = (shown.year(), shown.strftime("%m-%dT%H:%M:%S"));
    let fraction = if nanoseconds == 0 { String::new() } else { format!(".{nanoseconds:09}") };
    let sign = if utc_offset_s < 0 { '-' } else { '+' };
    let minutes = utc_offset_s.unsigned_abs() / 60;
    Some(format!("{year:04}-{rest}{fraction}{sign}{:02}{:02}", minutes / 60, minutes % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, nanoseconds, offset from UTC, and the expected text.
    type Case = (i64, u64, i32, &'static str);

    #[test]
    fn dates_are_those_of_the_calendar() {
        const CASES: [Case; 14] = [
            // The days around the end of February, in leap years and others.
            (951_782_400, 0, 0, "2000-02-29T00:00:00+0000"),
            (951_868_800, 0, 0, "2000-03-01T00:00:00+0000"),
            (-2_203_891_201, 0, 0, "1900-02-28T23:59:59+0000"),
            (-2_203_891_200, 0, 0, "1900-03-01T00:00:00+0000"),
            (4_107_542_399, 0, 0, "2100-02-28T23:59:59+0000"),
            (4_107_542_400, 0, 0, "2100-03-01T00:00:00+0000"),
            // Offsets ahead of UTC and behind it, one of them by less than a minute.
            (1_700_000_000, 5, -12_600, "2023-11-14T18:43:20.000000005-0330"),
            (-1, 999_999_999, 3600, "1970-01-01T00:59:59.999999999+0100"),
            (1, 0, -59, "1969-12-31T23:59:02-0000"),
            // A file may claim more nanoseconds than a second has.
            (1_700_000_000, 2_000_000_000, 20_700, "2023-11-15T03:58:20.2000000000+0545"),
            // Years of all lengths, and negative ones.
            (-62_135_596_801, 0, 0, "0000-12-31T23:59:59+0000"),
            (-62_167_219_201, 0, 0, "-001-12-31T23:59:59+0000"),
            (-253_402_300_799, 1, 0, "-6060-01-02T00:00:01.000000001+0000"),
            (253_402_300_799, 0, 0, "9999-12-31T23:59:59+0000"),
        ];
        for (seconds, nanoseconds, offset, text) in CASES {
            assert_eq!(date(seconds, nanoseconds, offset).as_deref(), Some(text), "{seconds}");
        }
        for (seconds, offset) in [(253_402_300_799, 1), (i64::MAX, 1), (i64::MIN, -1)] {
            assert_eq!(date(seconds, 0, offset), None, "{seconds}");
        }
    }

    #[test]
    fn every_time_of_day_can_be_told() {
        assert_eq!(time_of_day(1_700_000_000_999_999_999, 0), "22:13:20");
        assert_eq!(time_of_day(1_700_000_000_000_000_000, -12_600), "18:43:20");
        assert_eq!(time_of_day(0, -1), "23:59:59");
        for offset in [i32::MIN, i32::MAX] {
            assert_eq!((time_of_day(0, offset).len(), time_of_day(u64::MAX, offset).len()), (8, 8));
        }
    }
}
