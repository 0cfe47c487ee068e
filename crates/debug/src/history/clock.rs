//! When things happened. A recording has no times of events, but it says when threads began and
//! ended, and what the program read from clocks; between these, time is taken to pass evenly from
//! event to event.

use retake_model::table::number::{CLOCK_GETTIME, GETTIMEOFDAY};
use retake_model::{Event, ItemDirection};
use retake_recording::{EventReader, Recording, StreamId, StreamKind};
use std::collections::HashMap;

/// Clocks that run as time does, without the processors' own.
const KINDS: usize = 5;
/// Readings of a thread that are nearer to each other than this are one.
const RESOLUTION_NS: u64 = 100_000;

/// A moment of a thread: so many events consumed, at this time since recording began.
type Moment = (u64, u64);

/// When the threads of a process were where.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    threads: HashMap<StreamId, Vec<Moment>>,
}

/// What a thread read from a clock, before that is related to when recording began.
struct Reading {
    stream: StreamId,
    event: u64,
    kind: usize,
    ns: u64,
}

impl Clock {
    /// Of one process. What cannot be read gives no times.
    pub fn of(recording: &Recording, pid: i32) -> Self {
        let spans = spans(recording, pid);
        let mut readings = Vec::new();
        for &stream in spans.keys() {
            // Up to where it can be read.
            let _ = read_clocks(recording, stream, &mut readings);
        }
        let mut clock = Self::default();
        let bases: [Option<i128>; KINDS] =
            std::array::from_fn(|kind| base(&readings, &spans, kind));
        for (&stream, &(events, started, ended)) in &spans {
            let own = readings.iter().filter(|reading| reading.stream == stream);
            let between = own.filter_map(|reading| {
                let time = i128::from(reading.ns) - bases[reading.kind]?;
                Some((reading.event, u64::try_from(time).unwrap_or(0).clamp(started, ended)))
            });
            let mut moments: Vec<Moment> = std::iter::once((0, started)).chain(between).collect();
            moments.push((events, ended));
            clock.threads.insert(stream, in_order(moments));
        }
        clock
    }

    /// The time at which a thread had consumed so many events.
    pub fn time(&self, stream: StreamId, events: u64) -> Option<u64> {
        let moments = self.threads.get(&stream)?;
        let after = moments.partition_point(|moment| moment.0 <= events);
        let &(first, start) = moments.get(after.checked_sub(1)?)?;
        let Some(&(last, end)) = moments.get(after) else { return Some(start) };
        Some(between(events, (first, last), (start, end)))
    }

    /// Where the process was at a time: the thread that came there last, and its events. None: it
    /// had not begun.
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

    /// When the last thread ended.
    pub fn end(&self) -> Option<u64> {
        self.threads.values().filter_map(|moments| moments.last()).map(|moment| moment.1).max()
    }
}

/// The value that is to `to` what `at` is to `from`.
fn between(at: u64, from: (u64, u64), to: (u64, u64)) -> u64 {
    let (whole, part) = (from.1.saturating_sub(from.0).max(1), at.saturating_sub(from.0));
    to.0 + (u128::from(to.1.saturating_sub(to.0)) * u128::from(part) / u128::from(whole)) as u64
}

/// Neither events nor time go back; close ones are left out.
fn in_order(mut moments: Vec<Moment>) -> Vec<Moment> {
    moments.sort_unstable();
    let mut kept: Vec<Moment> = Vec::new();
    let last = moments.len().saturating_sub(1);
    for (index, (event, ns)) in moments.into_iter().enumerate() {
        let is_new =
            kept.last().is_none_or(|(known, time)| event > *known && ns >= time + RESOLUTION_NS);
        if is_new {
            kept.push((event, ns));
        } else if let (true, Some(end)) = (index == last, kept.last_mut()) {
            *end = (event.max(end.0), ns.max(end.1));
        }
    }
    kept
}

/// Of each thread: events, start and end, as the supervisor noted them.
fn spans(recording: &Recording, pid: i32) -> HashMap<StreamId, (u64, u64, u64)> {
    let events: HashMap<StreamId, u64> = recording
        .streams()
        .filter(|stream| stream.info.pid == pid)
        .map(|stream| (stream.info.id, stream.event_count))
        .collect();
    let mut spans = HashMap::new();
    for stream in recording.streams().filter(|stream| stream.info.kind == StreamKind::Supervisor) {
        let Ok(mut reader) = EventReader::new(recording, stream.info.id) else { continue };
        while let Ok(Some(numbered)) = reader.next() {
            if let Ok(event) = numbered.event
                && let Event::Thread { stream, account } = event.decode()
                && let Some(events) = events.get(&stream)
            {
                spans.insert(
                    stream,
                    (*events, account.started_ns, account.ended_ns.max(account.started_ns)),
                );
            }
        }
    }
    spans
}

fn read_clocks(
    recording: &Recording,
    stream: StreamId,
    readings: &mut Vec<Reading>,
) -> retake_recording::Result<()> {
    let mut reader = EventReader::new(recording, stream)?;
    while let Some(numbered) = reader.next()? {
        let Ok(event) = numbered.event else { continue };
        if !matches!(event.number(), CLOCK_GETTIME | GETTIMEOFDAY) {
            continue;
        }
        let Event::Call(call) = event.decode() else { continue };
        let (kind, argument, scale) = match (call.number(), call.argument(0)) {
            (GETTIMEOFDAY, _) => (0, 0, 1000),
            (_, Some(0 | 5)) => (0, 1, 1),
            (_, Some(1 | 6)) => (1, 1, 1),
            (_, Some(4)) => (2, 1, 1),
            (_, Some(7)) => (3, 1, 1),
            (_, Some(11)) => (4, 1, 1),
            _ => continue,
        };
        let Some(item) = call.items_of(argument, ItemDirection::Output).next() else { continue };
        let Some(&[seconds, fraction]) =
            words(item.inline_bytes()).as_deref().and_then(|words| words.first_chunk())
        else {
            continue;
        };
        let ns =
            seconds.saturating_mul(1_000_000_000).saturating_add(fraction.saturating_mul(scale));
        readings.push(Reading { stream, event: numbered.index, kind, ns });
    }
    Ok(())
}

fn words(bytes: &[u8]) -> Option<Vec<u64>> {
    bytes.chunks(8).map(|chunk| chunk.try_into().ok().map(u64::from_le_bytes)).collect()
}

/// What a kind of clock showed when recording began: each reading lies between the beginning and
/// the end of its thread, which leaves little room.
fn base(
    readings: &[Reading],
    spans: &HashMap<StreamId, (u64, u64, u64)>,
    kind: usize,
) -> Option<i128> {
    let own = readings.iter().filter(|reading| reading.kind == kind);
    let bounds = own.filter_map(|reading| {
        let (_, started, ended) = spans.get(&reading.stream)?;
        Some((
            i128::from(reading.ns) - i128::from(*ended),
            i128::from(reading.ns) - i128::from(*started),
        ))
    });
    let (low, high) = bounds.reduce(|one, other| (one.0.max(other.0), one.1.min(other.1)))?;
    // A clock that was set meanwhile says nothing.
    (low <= high + i128::from(RESOLUTION_NS)).then_some((low + high) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(threads: &[(u32, &[Moment])]) -> Clock {
        Clock {
            threads: threads
                .iter()
                .map(|(stream, moments)| (StreamId(*stream), in_order(moments.to_vec())))
                .collect(),
        }
    }

    #[test]
    fn time_passes_evenly_between_readings() {
        let clock = clock(&[(0, &[(0, 1_000_000), (10, 3_000_000), (20, 13_000_000)])]);
        let times =
            [0, 5, 10, 15, 20, 30].map(|events| clock.time(StreamId(0), events).unwrap() / 1000);
        assert_eq!(times, [1000, 2000, 3000, 8000, 13_000, 13_000]);
        assert_eq!(clock.place(2_000_000), Some((StreamId(0), 5)));
        assert_eq!(clock.place(10), None);
        assert_eq!(clock.end(), Some(13_000_000));
        assert_eq!(clock.time(StreamId(7), 0), None);
    }

    #[test]
    fn the_last_thread_to_come_there_counts() {
        let clock =
            clock(&[(0, &[(0, 0), (10, 10_000_000)]), (1, &[(0, 5_000_000), (100, 6_000_000)])]);
        assert_eq!(clock.place(4_000_000), Some((StreamId(0), 4)));
        assert_eq!(clock.place(5_500_000), Some((StreamId(1), 50)));
        assert_eq!(clock.place(8_000_000), Some((StreamId(0), 8)));
    }

    #[test]
    fn readings_say_when_recording_began() {
        let spans = HashMap::from([(StreamId(0), (100, 1000, 9000))]);
        let reading = |event, ns| Reading { stream: StreamId(0), event, kind: 1, ns };
        // The first just after the start, the last just before the end.
        let readings = [reading(1, 501_100), reading(99, 508_900)];
        let found = base(&readings, &spans, 1).unwrap();
        assert!((499_900..=500_100).contains(&found), "{found}");
        assert_eq!(base(&readings, &spans, 0), None);
    }
}
