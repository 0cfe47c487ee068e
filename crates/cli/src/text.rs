//! Numbers, times and names as text for people. Text from a recording is made harmless for
//! terminals.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use retake_recording::{ByteText, Exit};
use serde::{Serialize, Serializer};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// A size: `999 B`, `1.2 kB`, `34.5 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    // 999.95 would be printed as 1000.0.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration: `12 ms`, `3.4 s`, `5 min 6 s`, `7 h 8 min`.
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A time such as `2026-11-21 05:27:13`, in local time; `-` for a time outside of the calendar.
pub fn local_time(unix_milliseconds: u64) -> String {
    let timestamp = i64::try_from(unix_milliseconds)
        .ok()
        .and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok());
    timestamp.map_or("-".to_owned(), |timestamp| {
        let local = timestamp.to_zoned(TimeZone::system());
        local.strftime("%Y-%m-%d %H:%M:%S").to_string()
    })
}

/// The current difference between local time and UTC, in seconds.
pub fn utc_offset_s() -> i32 {
    TimeZone::system().to_offset(Timestamp::now()).seconds()
}

/// Nanoseconds since 1970. In JSON this is text such as `2026-11-23T03:30:23.858274177Z`, because
/// some readers of JSON keep fewer digits of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub u64);

impl Moment {
    fn timestamp(self) -> Timestamp {
        Timestamp::from_nanosecond(i128::from(self.0)).expect("64 bits of them end in 2554")
    }

    /// The time in local time, such as `2026-11-23 03:30:23.858274`.
    pub fn local(self) -> String {
        let local = self.timestamp().to_zoned(TimeZone::system());
        local.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.9}", self.timestamp()))
    }
}

/// A number with its digits in groups: `1 234 567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number of recordings: `1 recording`, `12 recordings`.
pub fn recordings(how_many: usize) -> String {
    match how_many {
        1 => "1 recording".to_owned(),
        _ => format!("{} recordings", count(how_many as u64)),
    }
}

/// The end of a program: `3`, `SIGSEGV`, or `stopped`.
pub fn exit(exit: Exit) -> String {
    match exit {
        Exit::Exited(status) => status.to_string(),
        Exit::Killed(signal) => signal_name(signal),
        Exit::Stopped => "stopped".to_owned(),
    }
}

/// The name of a signal, such as `SIGSEGV`.
pub fn signal_name(signal: i32) -> String {
    match u16::try_from(signal) {
        Ok(number) => retake_model::signal::name(number).into_owned(),
        Err(_) => signal.to_string(),
    }
}

/// The text with control characters escaped, as they could move a terminal's cursor or do worse.
pub fn harmless(text: &str) -> String {
    let is_harmful = |character: char| character.is_control() && character != '\t';
    if !text.contains(is_harmful) {
        return text.to_owned();
    }
    let escape = |character: char| {
        if is_harmful(character) {
            character.escape_default().to_string()
        } else {
            character.to_string()
        }
    };
    text.chars().map(escape).collect()
}

/// A command as a user would type it.
pub fn command(arguments: &[ByteText]) -> String {
    let quoted: Vec<String> =
        arguments.iter().map(|argument| quoted(&argument.to_string_lossy())).collect();
    quoted.join(" ")
}

/// An argument, quoted if a shell needs that.
pub fn quoted(argument: &str) -> String {
    let is_plain = |character: char| {
        character.is_alphanumeric() || "-_./=:,+@%^".contains(character) || !character.is_ascii()
    };
    let argument = harmless(argument);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument;
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

/// The number of terminal columns that the text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text cut to `width` columns, with `…` as the last. A letter and its combining marks are kept
/// or cut together.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let has_room = |letter: &&str| {
        let left = room.checked_sub(letter.width());
        room = left.unwrap_or(0);
        left.is_some()
    };
    text.graphemes(true).take_while(has_room).chain(["…"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations() {
        let sizes = [0, 999, 1000, 1_234_567, 999_960_000, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "1.2 MB", "1.0 GB", "18.4 EB"]);
        let durations = [0, 999, 1000, 59_999, 60_000, 3_600_000, u64::MAX / 4000].map(duration);
        assert_eq!(durations[..6], ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min 0 s", "1 h 0 min"]);
        let counts = [0, 999, 1000, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1 000", "1 234 567"]);
        assert_eq!(local_time(u64::MAX), "-");
    }

    #[test]
    fn commands_are_quoted_and_harmless() {
        let arguments = ["a", "b c", "", "it's", "\x1b[2J", "--x=1"].map(ByteText::from);
        assert_eq!(command(&arguments), "a 'b c' '' 'it'\\''s' '\\u{1b}[2J' --x=1");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
        assert_eq!((cut("abcd", 1), cut("", 0)), ("…".to_owned(), String::new()));
    }

    #[test]
    fn letters_are_as_wide_as_terminals_show_them() {
        let texts = ["abc", "漢字", "e\u{301}", "👩\u{200d}💻", "❤\u{fe0f}", "🇩🇪", "ﾊﾝ"];
        assert_eq!(texts.map(width), [3, 4, 1, 2, 2, 2, 2]);
        // A wide letter does not fit into one column.
        let cuts = [3, 4, 5, 6].map(|width| cut("漢字漢", width));
        assert_eq!(cuts, ["漢…", "漢…", "漢字…", "漢字漢"]);
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        let cuts = [2, 3].map(|width| cut("👩\u{200d}💻ab", width));
        assert_eq!(cuts, ["…", "👩\u{200d}💻…"]);
    }
}
