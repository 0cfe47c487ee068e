//! When things happened. Most events have times. Between them, time is taken to pass evenly from
//! event to event.

use retake_model::{StreamTimes, TimeScale};
use retake_recording::{EventReader, Recording, StreamId};
use std::collections::HashMap;

/// The most moments that are kept of a thread. If there are more, every second one is dropped.
const MOST_MOMENTS: usize = 1 << 20;

/// A moment of a thread: the number of consumed events, and the time since recording began.
type Moment = (u64, u64);

/// The moments of all threads of a process.
#[derive(Debug)]
pub(crate) struct Times {
    scale: TimeScale,
    threads: HashMap<StreamId, Vec<Moment>>,
}

impl Times {
    /// Reads the times of a process; `None` if the recording has none. Unreadable events have no
    /// times.
    pub fn of(recording: &Recording, pid: i32) -> Option<Self> {
        let scale = recording.time_scale()?;
        let mut threads = HashMap::new();
        for stream in recording.streams().filter(|stream| stream.info.pid == pid) {
            let mut moments = Moments::default();
            // Errors end the times of the thread.
            let _ = moments.read(recording, stream.info.id, &scale);
            threads.insert(stream.info.id, moments.finish());
        }
        Some(Self { scale, threads })
    }

    /// Converts a time to nanoseconds since 1970.
    pub fn unix_ns(&self, ns: u64) -> u64 {
        self.scale.unix_ns(ns)
    }

    /// The time at which a thread had consumed this many events.
    pub fn time(&self, stream: StreamId, events: u64) -> Option<u64> {
        let moments = self.threads.get(&stream)?;
        let after = moments.partition_point(|moment| moment.0 <= events);
        let &(first, start) = moments.get(after.saturating_sub(1))?;
        let Some(&(last, end)) = moments.get(after) else { return Some(start) };
        Some(between(events, (first, last), (start, end)))
    }

    /// Where the process was at a time: the thread that reached its place last, and its events.
    /// `None` if it had not begun.
    pub fn place(&self, ns: u64) -> Option<(StreamId, u64)> {
        let places = self.threads.iter().filter_map(|(stream, moments)| {
            let after = moments.partition_point(|moment| moment.1 <= ns);
            let &(first, start) = moments.get(after.checked_sub(1)?)?;
            let events = match moments.get(after) {
                Some(&(last, end)) => between(ns, (start, end), (first, last)),
                None => first,
            };
            Some((self.time(*stream, events)?, *stream, events))
        });
        places
            .max_by_key(|(time, stream, _)| (*time, std::cmp::Reverse(stream.0)))
            .map(|(_, stream, events)| (stream, events))
    }

    /// The time at which the last thread ended.
    pub fn end(&self) -> Option<u64> {
        self.threads.values().filter_map(|moments| moments.last()).map(|moment| moment.1).max()
    }
}

/// Interpolates: the value that corresponds to `at`.
fn between(at: u64, from: (u64, u64), to: (u64, u64)) -> u64 {
    let (whole, part) = (from.1.saturating_sub(from.0).max(1), at.saturating_sub(from.0));
    to.0 + (u128::from(to.1.saturating_sub(to.0)) * u128::from(part) / u128::from(whole)) as u64
}

/// The moments of one thread, in order.
#[derive(Debug, Default)]
struct Moments {
    kept: Vec<Moment>,
    last: Option<Moment>,
    /// One moment of 2 to this power is kept.
    thinned: u32,
    seen: u64,
}

impl Moments {
    fn read(
        &mut self,
        recording: &Recording,
        stream: StreamId,
        scale: &TimeScale,
    ) -> retake_recording::Result<()> {
        let mut times = StreamTimes::new(scale);
        let mut reader = EventReader::new(recording, stream)?;
        while let Some(numbered) = reader.next()? {
            let Ok(event) = numbered.event else { continue };
            let time = times.pass(&event);
            if time.is_exact {
                self.add((numbered.index + 1, time.ns));
            }
        }
        Ok(())
    }

    fn add(&mut self, moment: Moment) {
        self.last = Some(moment);
        if self.seen.trailing_zeros() >= self.thinned {
            if self.kept.len() == MOST_MOMENTS {
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.thinned += 1;
            }
            self.kept.push(moment);
        }
        self.seen += 1;
    }

    fn finish(mut self) -> Vec<Moment> {
        self.kept.extend(self.last.filter(|last| self.kept.last() != Some(last)));
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::TimePoint;

    fn times(threads: &[(u32, &[Moment])]) -> Times {
        let point = TimePoint { counter: 0, unix_ns: 5, monotonic_ns: 7 };
        Times {
            scale: TimeScale::new(vec![point], 1).unwrap(),
            threads: threads
                .iter()
                .map(|(stream, moments)| (StreamId(*stream), moments.to_vec()))
                .collect(),
        }
    }

    #[test]
    fn time_passes_evenly_between_moments() {
        let times = times(&[(0, &[(1, 1_000_000), (11, 3_000_000), (21, 13_000_000)])]);
        let told =
            [0, 1, 6, 11, 16, 21, 30].map(|events| times.time(StreamId(0), events).unwrap() / 1000);
        assert_eq!(told, [1000, 1000, 2000, 3000, 8000, 13_000, 13_000]);
        assert_eq!(times.place(2_000_000), Some((StreamId(0), 6)));
        assert_eq!(times.place(10), None);
        assert_eq!(times.end(), Some(13_000_000));
        assert_eq!(times.time(StreamId(7), 0), None);
        assert_eq!(times.unix_ns(3), 8);
    }

    #[test]
    fn the_last_thread_to_come_there_counts() {
        let times =
            times(&[(0, &[(0, 0), (10, 10_000_000)]), (1, &[(0, 5_000_000), (100, 6_000_000)])]);
        assert_eq!(times.place(4_000_000), Some((StreamId(0), 4)));
        assert_eq!(times.place(5_500_000), Some((StreamId(1), 50)));
        assert_eq!(times.place(8_000_000), Some((StreamId(0), 8)));
    }

    #[test]
    fn very_many_moments_are_thinned() {
        let mut moments = Moments::default();
        let count = 3 * MOST_MOMENTS as u64;
        (0..count).for_each(|at| moments.add((at, at * 2)));
        let kept = moments.finish();
        assert!((MOST_MOMENTS / 2..=MOST_MOMENTS + 1).contains(&kept.len()), "{}", kept.len());
        assert!(kept.is_sorted_by(|one, other| one.0 < other.0));
        assert_eq!((kept[0], kept[kept.len() - 1]), ((0, 0), (count - 1, (count - 1) * 2)));
    }
}
