//! A recording without an end says up to when it has every event.

mod common;

use std::fs;
use std::path::Path;

use common::*;
use retake_contract::events::TIME_COMPLETE;
use retake_model::{Reached, TimePoint};
use retake_recording::*;

const OWN: StreamId = StreamId(u32::MAX - 1);

fn reached(turn: u64) -> Reached {
    Reached { turn, sections: turn + 1, operations: turn + 2 }
}

fn note(counter: u64, threads: &[(StreamId, Reached)]) -> (Vec<u8>, ChunkEvents) {
    let point = TimePoint { counter, unix_ns: 1, monotonic_ns: 2 };
    let mut bytes: Vec<u8> =
        threads.iter().flat_map(|(stream, reached)| reached.event(*stream)).collect();
    bytes.extend(point.event(TIME_COMPLETE));
    (bytes, ChunkEvents { first: Some(0), count: threads.len() as u32 + 1 })
}

/// Writes a recording without an end that has this many notes, each behind a chunk of a thread.
fn write(directory: &Path, notes: u64) {
    let writer = RecordingWriter::create(directory, &metadata()).unwrap();
    writer.declare_stream(&stream_info(0)).unwrap();
    let own = StreamInfo { kind: StreamKind::Supervisor, parent: None, id: OWN, ..stream_info(0) };
    writer.declare_stream(&own).unwrap();
    for number in 0..notes {
        let data = noise(1000, number);
        writer.append(StreamId(0), &data, one_event(&data), Codec::Raw).unwrap();
        // Threads are noted only when they have come further.
        let threads = [(StreamId(7), reached(number)), (StreamId(8), reached(100))];
        let count = if number == 0 { 2 } else { 1 };
        let (bytes, events) = note(number, &threads[..count]);
        writer.append(OWN, &bytes, events, Codec::Raw).unwrap();
    }
}

fn open(directory: &Path) -> Recording {
    Recording::open(directory).unwrap()
}

#[test]
fn what_is_before_the_last_note_but_one_is_older_than_all_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    write(&directory, 4);
    let recording = open(&directory);
    let end = recording.cut_end().unwrap();
    let own = recording.stream(OWN).unwrap();
    assert_eq!(end.events(StreamId(0)), 3, "before the third note");
    assert_eq!(end.reached(StreamId(7)), reached(3));
    assert_eq!(end.reached(StreamId(8)), reached(100));
    let events = fs::read(directory.join("events")).unwrap();
    let last = own.chunk(3).unwrap().file_offset as usize;
    fs::write(directory.join("events"), &events[..last]).unwrap();
    let end = open(&directory).cut_end().unwrap();
    assert_eq!((end.events(StreamId(0)), end.reached(StreamId(7))), (2, reached(2)));
}

#[test]
fn packing_keeps_what_is_known_of_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let [directory, packed, unpacked] = ["r", "packed", "unpacked"].map(|n| folder.path().join(n));
    write(&directory, 4);
    let recording = open(&directory);
    pack(&recording, &packed, &mut |_| {}).unwrap();
    unpack(&open(&packed), &unpacked, None, &mut |_| {}).unwrap();
    for copy in [packed, unpacked] {
        let copy = open(&copy);
        assert!(copy.is_cut_off() && copy.warnings().is_empty());
        assert_eq!(copy.cut_end(), recording.cut_end());
    }
}

#[test]
fn one_note_tells_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for notes in [0, 1] {
        let directory = folder.path().join(notes.to_string());
        write(&directory, notes);
        assert!(open(&directory).cut_end().is_none(), "{notes}");
    }
}

#[test]
fn nothing_is_known_if_a_part_before_the_end_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    write(&directory, 4);
    let offset = open(&directory).stream(StreamId(0)).unwrap().chunk(1).unwrap().file_offset;
    let mut events = fs::read(directory.join("events")).unwrap();
    // The end is not whole: nothing is lost before it.
    let whole = events.len();
    events.extend([1; 24]);
    fs::write(directory.join("events"), &events).unwrap();
    assert!(open(&directory).cut_end().is_some());
    events[offset as usize + 100] ^= 1;
    fs::write(directory.join("events"), &events[..whole]).unwrap();
    assert!(open(&directory).cut_end().is_none());
}
