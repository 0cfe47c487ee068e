//! The times of events, as a column of `retake dump`.

use clap::{ArgAction, Args};
use retake_model::{EventTime, TimeScale, calendar};

use crate::failure::{Failure, Result};
use crate::text::utc_offset_s;

/// How times are shown, as strace and `retake trace` have it.
#[derive(Debug, Args)]
pub struct Times {
    /// Time of day before each event; -tt with microseconds, -ttt in seconds since 1970
    #[arg(short = 't', action = ArgAction::Count)]
    time: u8,

    /// Time since the event shown before
    #[arg(short = 'r', long, conflicts_with = "time")]
    relative_timestamps: bool,

    /// Time since recording began
    #[arg(long, conflicts_with_all = ["time", "relative_timestamps"])]
    elapsed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Seconds,
    Microseconds,
    Unix,
    Relative,
    Elapsed,
}

impl Times {
    fn form(&self) -> Option<Form> {
        match (self.time, self.relative_timestamps, self.elapsed) {
            (0, false, false) => None,
            (_, true, _) => Some(Form::Relative),
            (_, _, true) => Some(Form::Elapsed),
            (1, ..) => Some(Form::Seconds),
            (2, ..) => Some(Form::Microseconds),
            (3.., ..) => Some(Form::Unix),
        }
    }

    /// Whether times are shown.
    pub fn are_wanted(&self) -> bool {
        self.form().is_some()
    }

    /// The column for one stream, if times are shown.
    ///
    /// # Errors
    /// The recording has no times.
    pub fn column<'scale>(
        &self,
        scale: Option<&'scale TimeScale>,
    ) -> Result<Option<Column<'scale>>> {
        let Some(form) = self.form() else { return Ok(None) };
        let scale = scale
            .ok_or_else(|| Failure::new("the recording does not say when anything happened"))?;
        Ok(Some(Column { scale, form, utc_offset_s: utc_offset_s(), last_ns: None }))
    }
}

/// The column, with the time of the event that was shown last.
#[derive(Debug)]
pub struct Column<'scale> {
    scale: &'scale TimeScale,
    form: Form,
    utc_offset_s: i32,
    last_ns: Option<u64>,
}

impl Column<'_> {
    /// The text before an event. A `+` at its end means: then or later.
    pub fn text(&mut self, time: EventTime) -> String {
        let since = time.ns - self.last_ns.replace(time.ns).unwrap_or(time.ns);
        let unix_ns = self.scale.unix_ns(time.ns);
        let of_day = || calendar::time_of_day(unix_ns, self.utc_offset_s);
        let micro = |ns: u64| ns / 1000 % 1_000_000;
        let seconds = |ns: u64| format!("{:>3}.{:06}", ns / 1_000_000_000, micro(ns));
        let text = match self.form {
            Form::Seconds => of_day(),
            Form::Microseconds => format!("{}.{:06}", of_day(), micro(unix_ns)),
            Form::Unix => seconds(unix_ns),
            Form::Relative => seconds(since),
            Form::Elapsed => seconds(time.ns),
        };
        text + if time.is_exact { " " } else { "+" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::TimePoint;

    #[test]
    fn times_are_shown_as_strace_has_them() {
        let point = TimePoint {
            counter: 0,
            unix_ns: 1_700_000_000_500_000_000,
            monotonic_ns: 9_000_000_000,
        };
        let scale = TimeScale::new(vec![point], 1).unwrap();
        let shown = |form| {
            let mut column = Column { scale: &scale, form, utc_offset_s: 3600, last_ns: None };
            [(0, true), (1_750_001_999, false)]
                .map(|(ns, is_exact)| column.text(EventTime { ns, is_exact }))
        };
        assert_eq!(shown(Form::Seconds), ["23:13:20 ", "23:13:22+"]);
        assert_eq!(shown(Form::Microseconds), ["23:13:20.500000 ", "23:13:22.250001+"]);
        assert_eq!(shown(Form::Unix), ["1700000000.500000 ", "1700000002.250001+"]);
        assert_eq!(shown(Form::Relative), ["  0.000000 ", "  1.750001+"]);
        assert_eq!(shown(Form::Elapsed), ["  0.000000 ", "  1.750001+"]);
    }
}
