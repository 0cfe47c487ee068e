//! The times of events, from stamps and from clocks that the program itself read.
//!
//! A recording has points at which the time-stamp counter and the kernel's clocks were read
//! together. Between two points, all clocks are assumed to run evenly. Times are nanoseconds of the
//! monotonic clock since recording began, so they stay even if the time of day is set.

use retake_contract::events::{EventKind, TSC_RDTSC, TSC_RDTSCP};

use crate::bytes::read_u64;
use crate::event::EventRef;
use crate::item::Direction;
use crate::table::number::{CLOCK_GETTIME, GETTIMEOFDAY};
use crate::time_point::TimePoint;

/// One of the clocks of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hand {
    Counter,
    Unix,
    Monotonic,
}

impl Hand {
    fn of(self, point: &TimePoint) -> u64 {
        match self {
            Self::Counter => point.counter,
            Self::Unix => point.unix_ns,
            Self::Monotonic => point.monotonic_ns,
        }
    }
}

/// Converts stamps to times, by the points of a recording.
#[derive(Debug, Clone)]
pub struct TimeScale {
    /// The points in order of the monotonic clock; at least one.
    points: Vec<TimePoint>,
    ticks_per_second: u64,
}

impl TimeScale {
    /// Creates the time scale; `None` without points. The nominal rate of the counter is used if
    /// there is only one point. A rate of 0 means that the counter does not run evenly and that
    /// there are no stamps.
    pub fn new(mut points: Vec<TimePoint>, ticks_per_second: u64) -> Option<Self> {
        points.sort_by_key(|point| point.monotonic_ns);
        points.dedup_by_key(|point| point.monotonic_ns);
        (!points.is_empty()).then_some(Self { points, ticks_per_second })
    }

    /// Whether events have stamps. If not, only clocks that the program read give times.
    pub fn has_stamps(&self) -> bool {
        self.ticks_per_second != 0
    }

    /// Returns when recording began, in nanoseconds since 1970.
    pub fn began_unix_ns(&self) -> u64 {
        self.points[0].unix_ns
    }

    /// Returns the time from the first point to the last one.
    pub fn span_ns(&self) -> u64 {
        self.points[self.points.len() - 1].monotonic_ns - self.points[0].monotonic_ns
    }

    /// Returns the time of day, in nanoseconds since 1970, at a time of the recording.
    pub fn unix_ns(&self, time_ns: u64) -> u64 {
        let monotonic_ns = self.points[0].monotonic_ns.saturating_add(time_ns);
        self.convert((Hand::Monotonic, Hand::Unix), monotonic_ns)
    }

    fn of_counter(&self, counter: u64) -> u64 {
        self.since_begin(self.convert((Hand::Counter, Hand::Monotonic), counter))
    }

    fn since_begin(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_sub(self.points[0].monotonic_ns)
    }

    /// Converts a reading of one clock to another. Beyond the points, extrapolates from the nearest
    /// two.
    fn convert(&self, (from, to): (Hand, Hand), at: u64) -> u64 {
        let behind = self.points.partition_point(|point| from.of(point) <= at);
        let last = self.points.len() - 1;
        let low = behind.saturating_sub(1).min(last.saturating_sub(1));
        let (one, other) = (&self.points[low], &self.points[last.min(low + 1)]);
        let mut run = from.of(other).saturating_sub(from.of(one));
        let mut rise = to.of(other).saturating_sub(to.of(one));
        if run == 0 || rise == 0 {
            // There is only one point, or a clock was set back.
            (run, rise) = match from {
                Hand::Counter => (self.ticks_per_second.max(1), 1_000_000_000),
                Hand::Unix | Hand::Monotonic => (1, 1),
            };
        }
        let distance = i128::from(at) - i128::from(from.of(one));
        let shown = i128::from(to.of(one)) + distance * i128::from(rise) / i128::from(run);
        u64::try_from(shown.max(0)).unwrap_or(u64::MAX)
    }

    /// Returns the time that the program read from a clock in this event.
    fn reading(&self, event: &EventRef<'_>) -> Option<u64> {
        let call = event.as_call()?;
        let (argument, is_monotonic, scale) = match (call.number(), call.argument(0)?) {
            (GETTIMEOFDAY, _) => (0, false, 1000),
            (CLOCK_GETTIME, 0) => (1, false, 1),
            (CLOCK_GETTIME, 1) => (1, true, 1),
            _ => return None,
        };
        let item = call.items_of(argument, Direction::Output).next()?;
        let bytes = item.inline_bytes().get(..16)?;
        let ns = read_u64(bytes, 0)
            .checked_mul(1_000_000_000)?
            .checked_add(read_u64(bytes, 8).checked_mul(scale)?)?;
        Some(self.since_begin(if is_monotonic {
            ns
        } else {
            self.convert((Hand::Unix, Hand::Monotonic), ns)
        }))
    }
}

/// The time of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTime {
    /// Nanoseconds since recording began.
    pub ns: u64,
    /// If false, the event happened at this time or later, up to the time of the next event.
    pub is_exact: bool,
}

/// Follows a stream from its first event and returns the times of its events. Times never decrease.
#[derive(Debug, Clone)]
pub struct StreamTimes<'scale> {
    scale: &'scale TimeScale,
    counter: u64,
    last_ns: u64,
}

/// The largest distance beyond the end of the recording at which a clock that the program read is
/// believed. Beyond that, it is the clock of a time namespace, or was set.
const SLACK_NS: u64 = 1_000_000;

impl<'scale> StreamTimes<'scale> {
    /// Starts before the first event.
    pub fn new(scale: &'scale TimeScale) -> Self {
        Self { scale, counter: 0, last_ns: 0 }
    }

    /// Returns the time of the next event in the stream. For a call, this is its return.
    pub fn pass(&mut self, event: &EventRef<'_>) -> EventTime {
        let told = if let Some(counter) = event.counter(self.counter) {
            self.counter = counter;
            Some(self.scale.of_counter(self.counter))
        } else if event.kind() == EventKind::Tsc && self.scale.has_stamps() {
            matches!(event.number(), TSC_RDTSC | TSC_RDTSCP)
                .then(|| self.scale.of_counter(event.value() as u64))
                .filter(|ns| self.is_possible(*ns))
        } else {
            self.scale.reading(event).filter(|ns| self.is_possible(*ns))
        };
        self.last_ns = self.last_ns.max(told.unwrap_or(0));
        EventTime { ns: self.last_ns, is_exact: told.is_some() }
    }

    fn is_possible(&self, ns: u64) -> bool {
        ns.saturating_add(SLACK_NS) >= self.last_ns
            && ns <= self.scale.span_ns().saturating_add(SLACK_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_event;
    use retake_contract::events::{EVENT_STAMPED, STAMP_SHIFT, STAMP_WHOLE};

    /// Two ticks per nanosecond; the time of day is set forward by a second in the middle.
    fn scale() -> TimeScale {
        let point = |counter, unix_ns, monotonic_ns| TimePoint { counter, unix_ns, monotonic_ns };
        let points = vec![
            point(5_000_000, 1_004_000_000, 14_000_000),
            point(1_000_000, 2_000_000, 12_000_000),
        ];
        TimeScale::new(points, 2_000_000_000).unwrap()
    }

    #[test]
    fn counters_and_clocks_are_times() {
        let scale = scale();
        assert_eq!(scale.began_unix_ns(), 2_000_000);
        assert_eq!(scale.span_ns(), 2_000_000);
        // Before the first point, at the points, between them, and after the last one.
        for (counter, ns) in
            [(0, 0), (1_000_000, 0), (3_000_000, 1_000_000), (7_000_000, 3_000_000)]
        {
            assert_eq!(scale.of_counter(counter), ns, "{counter}");
        }
        assert_eq!(scale.unix_ns(0), 2_000_000);
        assert_eq!(scale.unix_ns(2_000_000), 1_004_000_000);
        let one = TimeScale::new(vec![scale.points[0]], 4_000_000_000).unwrap();
        assert_eq!(one.of_counter(5_000_000), 1_000_000);
        assert_eq!(one.unix_ns(7), 2_000_007);
        assert!(TimeScale::new(Vec::new(), 1).is_none());
    }

    fn event(kind: EventKind, stamp: Option<u64>, value: u64) -> Vec<u8> {
        let size: u32 = if stamp.is_some() { 24 } else { 16 };
        let flags = if stamp.is_some() { EVENT_STAMPED } else { 0 };
        let mut bytes = size.to_le_bytes().to_vec();
        bytes.extend([kind as u8, flags, 0, 0]);
        bytes.extend(value.to_le_bytes());
        bytes.extend(stamp.into_iter().flat_map(u64::to_le_bytes));
        bytes
    }

    #[test]
    fn stamps_add_up_and_times_never_go_back() {
        let scale = scale();
        let mut stream = StreamTimes::new(&scale);
        let unit = 1_u64 << STAMP_SHIFT;
        let cases = [
            (event(EventKind::Turn, Some(1000), 0), Some((1000 * unit - 1_000_000) / 2)),
            (event(EventKind::Turn, None, 0), None),
            (event(EventKind::Turn, Some(10), 0), Some((1010 * unit - 1_000_000) / 2)),
            // The first one after an image counts from 0.
            (
                event(EventKind::Turn, Some(STAMP_WHOLE | 1020), 0),
                Some((1020 * unit - 1_000_000) / 2),
            ),
            // The counter itself. A value far beyond the recording is not believed.
            (event(EventKind::Tsc, None, 1_100_000), Some(50_000)),
            (event(EventKind::Tsc, None, u64::MAX), None),
            // The counters of two processors may differ a little.
            (event(EventKind::Turn, Some(5_u64.wrapping_neg()), 0), Some(50_000)),
        ];
        let mut last = 0;
        for (bytes, expected) in cases {
            let (event, _) = parse_event(&bytes).unwrap();
            let EventTime { ns, is_exact } = stream.pass(&event);
            assert_eq!(is_exact.then_some(ns), expected, "{event:?}");
            assert!(ns >= last);
            last = ns;
        }
    }
}
