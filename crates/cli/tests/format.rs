//! Events have the layout in docs/DESIGN.md and docs/FORMAT.md. These tests parse streams by those
//! tables alone.

mod cli_support;

use retake_testing::c::compiler;
use std::io::Read;
use std::time::Duration;

use cli_support::Place;
use retake_model::table::number;
use retake_recording::{Recording, StreamId};

const CALL: u8 = 1;
const EXIT: u8 = 4;
const EXEC: u8 = 6;
const START: u8 = 7;
const TURN: u8 = 8;
const FORCED: u8 = 9;
const THREAD: u8 = 12;
const DROPPED: u8 = 14;
const TIME: u8 = 18;
const REACHED: u8 = 20;
/// The flag of TIME: all events before are in the recording.
const COMPLETE: u8 = 1;
/// The flag for a stamp, which an event of any kind can have.
const STAMPED: u8 = 0x80;
/// The number of the supervisor's stream.
const SUPERVISOR: u32 = u32::MAX - 1;

/// The time limit. Hundreds of programs take less, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);

/// Two threads that compute. Each is stopped between events for the other.
const COMPUTES: &str = r#"
#include <pthread.h>
#include <stdio.h>
static volatile unsigned long sums[2];
static void *sum(void *at)
{
    for (unsigned long i = 0; i < 300000000; i++)
        *(volatile unsigned long *)at += i;
    return 0;
}
int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, sum, (void *)&sums[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("%lu\n", sums[0] + sums[1]);
    return 0;
}"#;

/// Two threads that take turns with a lock for a second and a half.
const WORKS: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *unused)
{
    for (int i = 0; i < 150; i++) {
        pthread_mutex_lock(&lock);
        write(1, ".", 1);
        pthread_mutex_unlock(&lock);
        usleep(10000);
    }
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    work(0);
    return pthread_join(thread, 0);
}"#;

fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    bytes[at..at + count].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A parsed event.
#[derive(Debug)]
struct Event {
    kind: u8,
    flags: u8,
    number: u64,
    value: u64,
    body: Vec<u8>,
    stamp: Option<u64>,
}

impl Event {
    fn word(&self, at: usize) -> u64 {
        number(&self.body, at, 8)
    }
}

/// The events of a stream. They must fill it.
fn events(recording: &Recording, stream: u32) -> Vec<Event> {
    let mut bytes = Vec::new();
    recording.stream(StreamId(stream)).unwrap().read_to_end(&mut bytes).unwrap();
    let (mut events, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let size = number(&bytes, at, 4) as usize;
        assert!(size >= 16 && size.is_multiple_of(8));
        let is_stamped = bytes[at + 5] & STAMPED != 0;
        let end = at + size - if is_stamped { 8 } else { 0 };
        events.push(Event {
            kind: bytes[at + 4],
            flags: bytes[at + 5],
            number: number(&bytes, at + 6, 2),
            value: number(&bytes, at + 8, 8),
            body: bytes[at + 16..end].to_vec(),
            stamp: is_stamped.then(|| number(&bytes, end, 8)),
        });
        at += size;
    }
    events
}

fn streams(recording: &Recording) -> Vec<u32> {
    recording.streams().map(|summary| summary.info.id.0).collect()
}

/// The argument, direction and data of each item of a call.
fn items(event: &Event, arguments: usize) -> Vec<(u8, u8, &[u8])> {
    let (mut items, mut at) = (Vec::new(), 8 * arguments);
    while at < event.body.len() {
        let inline = number(&event.body, at + 4, 4) as usize;
        items.push((event.body[at], event.body[at + 1], &event.body[at + 24..at + 24 + inline]));
        at += 24 + inline.next_multiple_of(8);
    }
    assert_eq!(at, event.body.len(), "items fill the event");
    items
}

#[test]
fn calls_have_their_arguments_and_data() {
    const READ: u64 = number::READ as u64;
    const WRITE: u64 = number::WRITE as u64;
    let place = Place::new("format-calls");
    std::fs::write(place.work("data"), "some data").unwrap();
    place.run_well(&["record", "-o", "made", "cat", "data"]);
    let recording = Recording::open(&place.work("made")).unwrap();
    let events = events(&recording, 0);
    let call = |number, bytes: u64| {
        events
            .iter()
            .find(|event| (event.kind, event.number, event.value) == (CALL, number, bytes))
            .unwrap()
    };
    let read = call(READ, 9);
    assert!(items(read, 3).contains(&(1, 1, b"some data")), "an output of argument 1: {read:?}");
    let write = call(WRITE, 9);
    assert_eq!((write.word(0), write.word(16)), (1, 9), "descriptor and size");
    let written = items(write, 3);
    assert!(written.contains(&(1, 0, b"some data")), "an input of argument 1: {written:?}");
    assert!(written.iter().any(|item| item.1 == 4), "the number of the output: {written:?}");
    let end = events.last().unwrap();
    assert_eq!((end.kind, end.value, end.body.len()), (EXIT, 0, 16));
}

/// The sums of stamps equal the time-stamp counter.
#[test]
fn stamps_are_read_with_the_metadata() {
    let place = Place::new("format-stamps");
    place.run_well(&["record", "-o", "made", "sleep", "0.3"]);
    let recording = Recording::open(&place.work("made")).unwrap();
    let metadata = recording.metadata();
    if metadata.ticks_per_second == 0 {
        eprintln!("skipped: this processor's counter is no clock");
        return;
    }
    let [began, _, began_ns] = metadata.began.unwrap();
    let [ended, _, ended_ns] = metadata.outcome.as_ref().unwrap().ended.unwrap();
    let points: Vec<Event> =
        events(&recording, SUPERVISOR).into_iter().filter(|event| event.kind == TIME).collect();
    assert!(!points.is_empty(), "there is one after 0.2 seconds");
    for point in &points {
        assert!((began..ended).contains(&point.value), "{point:?}");
        assert!((began_ns..ended_ns).contains(&point.word(8)), "{point:?}");
    }
    let mut counter = 0_u64;
    for event in events(&recording, 0) {
        let Some(stamp) = event.stamp else { continue };
        counter = counter.wrapping_add(stamp << 10);
        assert!((began..ended).contains(&(counter + 1024)), "{counter}: {event:?}");
    }
    assert!(counter > 0);
}

#[test]
fn programs_begin_with_an_exec_event() {
    let place = Place::new("format-exec");
    place.run_well(&["record", "-o", "made", "true"]);
    let recording = Recording::open(&place.work("made")).unwrap();
    let events = events(&recording, 0);
    let pid = recording.streams().next().unwrap().info.pid;
    assert_eq!((events[0].kind, events[1].kind), (START, EXEC));
    assert_eq!(number(&events[0].body, 0, 4), u64::from(pid.cast_unsigned()));
    let exec = &events[1];
    let (counter, stack, mappings, areas) =
        (exec.word(0), exec.word(8), exec.word(48), exec.word(56));
    let mut at = 64;
    let (mut executable, mut on_stack, mut stored) = (false, false, 0);
    for _ in 0..mappings {
        let (start, end) = (exec.word(at), exec.word(at + 8));
        let (protection, flags) = (number(&exec.body, at + 16, 4), number(&exec.body, at + 20, 4));
        assert!(start < end && flags <= 3);
        executable |= (start..end).contains(&counter) && protection & 4 != 0;
        on_stack |= (start..end).contains(&stack) && flags & 2 != 0;
        if flags & 1 != 0 {
            let content: String =
                exec.body[at + 32..at + 64].iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(place.files_of("made").contains(&content), "{content}");
            stored += 1;
        }
        at += 64;
    }
    assert!(executable && on_stack && stored > 4);
    for _ in 0..areas {
        at += 16 + (exec.word(at + 8) as usize).next_multiple_of(8);
    }
    assert_eq!(at, exec.body.len(), "mappings and areas fill the event");
}

#[test]
fn threads_that_compute_have_forced_events() {
    let place = Place::new("format-forced");
    std::fs::write(place.work("computes.c"), COMPUTES).unwrap();
    assert!(
        place
            .command_of(&compiler(), &["-O1", "-pthread", "computes.c", "-o", "computes"])
            .status()
            .unwrap()
            .success()
    );
    let printed = place.run_well(&["record", "-o", "made", "./computes"]);
    let recording = Recording::open(&place.work("made")).unwrap();
    let all: Vec<Event> =
        streams(&recording).into_iter().flat_map(|stream| events(&recording, stream)).collect();
    let forced: Vec<&Event> = all.iter().filter(|event| event.kind == FORCED).collect();
    assert!(!forced.is_empty() && all.iter().any(|event| event.kind == TURN), "both compute");
    for event in forced {
        let (window, areas, cells) =
            (event.word(152), event.word(168) as usize, event.word(200) as usize);
        assert!(window <= 32_768 && areas <= 400 && cells <= 1000);
        assert_eq!(event.body.len(), 336 + 8 * areas + 16 * cells);
        assert!(event.word(184) < 0x40, "exception flags");
        let (stack, place) = (event.word(120), event.word(128));
        assert!(stack > 0x7000_0000_0000 && place > 0x1000, "{stack:x} {place:x}");
    }
    assert_eq!(place.run_well(&["replay", "./made"]), printed);
}

#[test]
fn the_recorder_notes_up_to_when_it_has_everything() {
    let place = Place::new("format-complete");
    std::fs::write(place.work("works.c"), WORKS).unwrap();
    let mut compile = place.command_of(&compiler(), &["-pthread", "works.c", "-o", "works"]);
    assert!(compile.status().unwrap().success());
    for policy in ["serial", "sync"] {
        let folder = format!("made-{policy}");
        place.run_well(&["record", "--policy", policy, "-o", &folder, "./works"]);
        let recording = Recording::open(&place.work(&folder)).unwrap();
        if recording.metadata().ticks_per_second == 0 {
            eprintln!("skipped: this processor's counter is no clock");
            return;
        }
        let own = events(&recording, SUPERVISOR);
        let is_note = |event: &&Event| event.kind == TIME && event.flags == COMPLETE;
        let notes = own.iter().filter(is_note).count() as u64;
        let most = recording.metadata().outcome.as_ref().unwrap().duration_ms / 200 + 1;
        assert!((2..=most).contains(&notes), "{policy}: one every 0.2 seconds: {own:?}");
        let reached: Vec<&Event> = own.iter().filter(|event| event.kind == REACHED).collect();
        assert_eq!(!reached.is_empty(), policy == "sync", "{policy}: {own:?}");
        for stream in reached.iter().map(|event| event.value) {
            let how_far: Vec<[u64; 2]> = reached
                .iter()
                .filter(|event| event.value == stream)
                .map(|event| [event.word(0), event.word(16)])
                .collect();
            assert!(how_far.is_sorted_by(|one, next| one[0] <= next[0] && one[1] <= next[1]));
            assert!(how_far.last().unwrap()[1] > 0, "operations of stream {stream}");
        }
        let last = own.iter().rposition(|event| event.kind == REACHED);
        assert!(last.is_none_or(|last| own[last + 1].kind == TIME), "{own:?}");
    }
}

#[test]
fn the_supervisor_notes_threads_and_what_was_dropped() {
    let place = Place::new("format-supervisor");
    let script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); /bin/echo $i; done";
    let ran =
        place.run_within(&["record", "--keep-last", "1M", "-o", "made", "sh", "-c", script], LIMIT);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let recording = Recording::open(&place.work("made")).unwrap();
    let events = events(&recording, SUPERVISOR);
    let dropped = &events[0];
    assert_eq!(dropped.kind, DROPPED);
    let words: Vec<u64> = (0..7).map(|word| dropped.word(8 * word)).collect();
    let [processes, dropped_events, bytes, ended_ns, ranges @ ..] = &words[..] else {
        panic!("{words:?}")
    };
    assert!(
        *processes > 0
            && dropped_events > processes
            && *bytes > 16 * dropped_events
            && *ended_ns > 0,
        "{words:?}"
    );
    assert_eq!(dropped.body.len() as u64, 56 + 16 * ranges.iter().sum::<u64>());
    for range in dropped.body[56..].chunks(16) {
        assert!(number(range, 0, 8) < number(range, 8, 8));
    }
    assert!(events.iter().any(|event| event.kind == TIME), "what tells the time stays");
    let left = streams(&recording);
    // Such a stream is left: the child shared memory with the shell until it executed its program.
    let is_cut = |stream: u64| {
        dropped.body[56..]
            .chunks(16)
            .any(|range| (number(range, 0, 8)..number(range, 8, 8)).contains(&stream))
    };
    assert!(left.iter().any(|&stream| is_cut(u64::from(stream))), "{words:?} {left:?}");
    for thread in events.iter().filter(|event| event.kind == THREAD) {
        assert!(left.contains(&(thread.value as u32)), "no account of a thread that is gone");
        assert_eq!(thread.body.len(), 72);
        assert!(thread.word(0) <= thread.word(8), "it begins before it ends");
    }
}
