//! Rewriting a recording while it is made.

mod common;

use std::fs;
use std::io::Read;
use std::path::Path;

use common::{metadata, noise, one_event, outcome, read_streams, stream_info};
use retake_model::EventKind;
use retake_recording::*;

/// The stream that is replaced.
const OWN: u32 = 9;

/// Returns a writer with four streams of three chunks each, and what the streams hold.
fn writer(directory: &std::path::Path) -> (RecordingWriter, Vec<Vec<u8>>) {
    let writer = RecordingWriter::create(directory, &metadata()).unwrap();
    let mut streams = vec![Vec::new(); 4];
    for id in [0, 1, 2, 3, OWN] {
        writer.declare_stream(&stream_info(id)).unwrap();
    }
    for round in 0..3 {
        for (id, stream) in streams.iter_mut().enumerate() {
            let bytes = if round == 1 { vec![id as u8; 4000] } else { noise(500 + id, round) };
            writer.append(StreamId(id as u32), &bytes, one_event(&bytes), Codec::Fast).unwrap();
            stream.extend(bytes);
        }
        writer.append(StreamId(OWN), b"old", one_event(b"old"), Codec::Fast).unwrap();
    }
    (writer, streams)
}

fn read_one(recording: &Recording, stream: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    recording.stream(StreamId(stream)).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// Drops stream 1, and all but the beginning of stream 2.
fn keep(stream: StreamId) -> Keep {
    match stream.0 {
        1 => Keep::Nothing,
        2 => Keep::Until(Place { bytes: 600, events: 2 }),
        _ => Keep::All,
    }
}

#[test]
fn what_is_kept_reads_back_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let (writer, mut streams) = writer(&directory);
    let before = writer.file_bytes();
    let chunks = [(b"note".to_vec(), one_event(b"note")), (b"more".to_vec(), one_event(b"more"))];
    let info = stream_info(OWN);
    let rewrite = writer.begin_rewrite().unwrap();
    // Other threads append meanwhile: to known streams, to the replaced one, to new ones.
    let late = noise(100, 7);
    writer.declare_stream(&stream_info(4)).unwrap();
    for id in [0, 4, OWN] {
        writer.append(StreamId(id), &late, one_event(&late), Codec::Fast).unwrap();
    }
    rewrite.run(&keep, &Replaced { info: &info, chunks: &chunks }).unwrap();
    assert!(writer.file_bytes() < before);
    assert_eq!(writer.stored_bytes(StreamId(1)), 0);
    for id in [0, OWN] {
        writer.append(StreamId(id), &late, one_event(&late), Codec::Fast).unwrap();
    }
    let unknown = writer.append(StreamId(1), &late, one_event(&late), Codec::Fast).unwrap_err();
    assert!(matches!(unknown, Error::UnknownStream { .. }));
    streams[0].extend([&late[..], &late].concat());
    streams[2].truncate(600);

    let check = |recording: &Recording| {
        let ids: Vec<u32> = recording.streams().map(|stream| stream.info.id.0).collect();
        assert_eq!(ids, [0, 2, 3, 4, OWN]);
        for id in [0, 2, 3] {
            assert_eq!(read_one(recording, id), streams[id as usize], "stream {id}");
        }
        assert_eq!(read_one(recording, 4), late);
        assert_eq!(read_one(recording, OWN), [&b"notemore"[..], &late, &late].concat());
        let events: Vec<u64> = recording.streams().map(|stream| stream.event_count).collect();
        assert_eq!(events, [5, 2, 3, 1, 4]);
    };
    // The recording looks as if the recorder had been killed. Then it is finished.
    let unfinished = Recording::open(&directory).unwrap();
    assert_eq!(unfinished.warnings(), [Warning::BeingRecorded]);
    check(&unfinished);
    assert!(matches!(remove(&directory), Err(Error::BeingRecorded { .. })));
    writer.finish(&outcome()).unwrap();
    let finished = Recording::open(&directory).unwrap();
    assert_eq!(finished.check().unwrap(), []);
    check(&finished);
    let counters = &finished.metadata().outcome.as_ref().unwrap().counters;
    assert_eq!((counters["streams"], counters["events"]), (5, 15));
    assert_eq!(finished.metadata().recording_id, unfinished.metadata().recording_id);
}

#[test]
fn it_can_be_done_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let (writer, streams) = writer(&directory);
    let info = stream_info(OWN);
    for round in 0..5 {
        let chunks = [(vec![round; 10], one_event(&[round; 10]))];
        writer
            .begin_rewrite()
            .unwrap()
            .run(&keep, &Replaced { info: &info, chunks: &chunks })
            .unwrap();
    }
    writer.finish(&outcome()).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.check().unwrap(), []);
    assert_eq!(read_one(&recording, 2), streams[2][..600]);
    assert_eq!(read_one(&recording, OWN), [4; 10]);
}

#[test]
fn one_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let (writer, streams) = writer(&directory);
    // The last chunk of the last stream is damaged on disk.
    let events = directory.join("events");
    let mut bytes = std::fs::read(&events).unwrap();
    let at = bytes.len() - 300;
    bytes[at] ^= 1;
    std::fs::write(&events, &bytes).unwrap();
    let info = stream_info(OWN);
    let error = writer
        .begin_rewrite()
        .unwrap()
        .run(&keep, &Replaced { info: &info, chunks: &[] })
        .unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let names: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.contains(&"events.new".into()), "{names:?}");
    writer.append(StreamId(0), b"on", one_event(b"on"), Codec::Fast).unwrap();
    writer.finish(&outcome()).unwrap();
    let (read, _) = read_streams(&Recording::open(&directory).unwrap());
    assert_eq!(read[&1], streams[1]);
    assert!(read[&0].ends_with(b"on"));
}

#[test]
fn a_half_made_file_is_part_of_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let (writer, _) = writer(&directory);
    std::fs::write(directory.join("events.new"), b"cut off").unwrap();
    drop(writer);
    assert!(Recording::open(&directory).is_ok());
    remove(&directory).unwrap();
}

/// A stream of events of 24 bytes: appends chunks of some of them. Every event holds its number.
fn append_events(writer: &RecordingWriter, stream: u32, first: u64, count: u64) {
    let one = |number: u64| {
        let mut event = 24_u32.to_le_bytes().to_vec();
        event.extend([EventKind::Turn as u8, 0, 0, 0]);
        event.extend(number.to_le_bytes());
        event.extend(number.to_le_bytes());
        event
    };
    let bytes: Vec<u8> = (first..first + count).flat_map(one).collect();
    let events = ChunkEvents { first: Some(0), count: count as u32 };
    writer.append(StreamId(stream), &bytes, events, Codec::Fast).unwrap();
}

fn indexes(recording: &Recording, stream: u32) -> Vec<u64> {
    let mut reader = EventReader::new(recording, StreamId(stream)).unwrap();
    let mut found = Vec::new();
    while let Some(numbered) = reader.next().unwrap() {
        assert_eq!(numbered.event.unwrap().value() as u64, numbered.index);
        found.push(numbered.index);
    }
    found
}

#[test]
fn a_stream_without_its_middle_keeps_its_places() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    for id in [0, 1, OWN] {
        writer.declare_stream(&stream_info(id)).unwrap();
    }
    // Chunks with the events 0 and 1, 2 to 9, 10 to 19, 20 to 29, 30 to 39.
    for id in [0, 1] {
        append_events(&writer, id, 0, 2);
        append_events(&writer, id, 2, 8);
        (1..4).for_each(|round| append_events(&writer, id, 10 * round, 10));
    }
    let place = |events: u64| Place { bytes: 24 * events, events };
    let info = stream_info(OWN);
    let cut = |first: u64, program: u64| {
        let keep = move |stream: StreamId| match stream.0 {
            0 => Keep::From { place: place(first), program },
            _ => Keep::All,
        };
        writer.begin_rewrite().unwrap().run(&keep, &Replaced { info: &info, chunks: &[] }).unwrap();
    };
    let kept = |wanted: &[std::ops::Range<u64>]| {
        let recording = Recording::open(&directory).unwrap();
        let wanted: Vec<u64> = wanted.iter().cloned().flatten().collect();
        assert_eq!(indexes(&recording, 0), wanted);
        assert_eq!(indexes(&recording, 1), (0..40).collect::<Vec<_>>());
        recording
    };
    assert!(!kept(&[0..10, 10..40]).begins_late());
    // The chunk with the events before the program stays, and a chunk is cut where that is needed.
    let before = writer.stored_before(&[(0, place(23))].into());
    assert!(before > 0 && before < writer.stored_bytes(StreamId(0)), "{before}");
    cut(23, 12);
    kept(&[0..2, 10..20, 23..40]);
    // Again and again: what is left out becomes one piece.
    cut(25, 2);
    let recording = kept(&[0..2, 25..40]);
    assert_eq!(recording.late_streams(), [StreamId(0)].into());
    let stream = recording.streams().next().unwrap();
    assert_eq!((stream.bytes, stream.event_count), (24 * 40, 40));
    assert_eq!(stream.left_out, LeftOut { bytes: 24 * 23, events: 23 });
    assert!(recording.begins_late());
    let mut reader = recording.stream(StreamId(0)).unwrap();
    assert_eq!((reader.chunk_count(), reader.first_kept_event()), (4, 25));
    assert!(matches!(reader.read_chunk(1, &mut Vec::new()), Err(Error::LeftOut { .. })));
    reader.seek_to_offset(24 * 30).unwrap();
    assert_eq!(reader.position(), 24 * 30);
    // The last chunk stays, even if it ends before the place.
    cut(40, 2);
    kept(&[0..2, 30..40]);
    append_events(&writer, 0, 40, 1);
    writer.finish(&outcome()).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.check().unwrap(), []);
    let packed = folder.path().join("packed");
    pack(&recording, &packed, &mut |_| {}).unwrap();
    let packed = Recording::open(&packed).unwrap();
    assert_eq!(packed.check().unwrap(), []);
    assert_eq!(indexes(&packed, 0), indexes(&recording, 0));
}

/// The streams that begin late, of a recording with these streams. The stream 3 is cut.
fn late_of(streams: &[StreamInfo], attached: bool) -> Vec<u32> {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let about = Metadata { attached, ..metadata() };
    let writer = RecordingWriter::create(&directory, &about).unwrap();
    for info in streams {
        writer.declare_stream(info).unwrap();
        (0..3).for_each(|round| append_events(&writer, info.id.0, 10 * round, 10));
    }
    let keep = |stream: StreamId| match stream.0 {
        3 => Keep::From { place: Place { bytes: 24 * 20, events: 20 }, program: 2 },
        _ => Keep::All,
    };
    let info = &streams[0];
    assert_eq!(info.kind, StreamKind::Supervisor);
    let chunks = [(vec![7; 10], one_event(&[7; 10]))];
    writer.begin_rewrite().unwrap().run(&keep, &Replaced { info, chunks: &chunks }).unwrap();
    writer.finish(&outcome()).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.ran_before(&streams[1]), attached);
    let mut late: Vec<u32> = recording.late_streams().into_iter().map(|one| one.0).collect();
    late.sort_unstable();
    late
}

#[test]
fn a_process_begins_late_if_what_a_later_thread_of_it_did_is_left_out() {
    let of = |id, parent: Option<u32>, pid, kind| StreamInfo {
        parent: parent.map(StreamId),
        pid,
        kind,
        ..stream_info(id)
    };
    let streams = [
        of(0, None, 9, StreamKind::Supervisor),
        of(1, None, 7, StreamKind::Initial),
        of(2, Some(1), 8, StreamKind::Process),
        of(3, Some(2), 8, StreamKind::Thread),
        of(4, Some(2), 8, StreamKind::Thread),
        // Another process with that number, and one that the supervisor's has.
        of(5, Some(1), 8, StreamKind::Process),
        of(6, Some(1), 9, StreamKind::Process),
    ];
    assert_eq!(late_of(&streams, false), [2, 3]);
    assert_eq!(late_of(&streams, true), [1, 2, 3]);
}

#[test]
fn who_opened_it_earlier_has_the_images_of_that_time() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    [0, OWN].iter().for_each(|&id| writer.declare_stream(&stream_info(id)).unwrap());
    (0..3).for_each(|round| append_events(&writer, 0, 10 * round, 10));
    let keep = |stream: StreamId| match stream.0 {
        0 => Keep::From { place: Place { bytes: 24 * 20, events: 20 }, program: 2 },
        _ => Keep::All,
    };
    let info = stream_info(OWN);
    writer.begin_rewrite().unwrap().run(&keep, &Replaced { info: &info, chunks: &[] }).unwrap();
    let images = directory.join("checkpoints");
    fs::create_dir_all(&images).unwrap();
    fs::write(images.join("1"), b"one").unwrap();
    let earlier = Recording::open(&directory).unwrap();
    assert!(earlier.begins_late());
    fs::remove_file(images.join("1")).unwrap();
    fs::write(images.join("2"), b"two").unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    pack(&earlier, &first, &mut |_| {}).unwrap();
    pack(&Recording::open(&directory).unwrap(), &second, &mut |_| {}).unwrap();
    // The copies have the same number, and images of their own.
    let location = Location::within(&folder.path().join("unpacked"));
    let images_of = |packed: &Path| {
        let images = Checkpoints::of(&Recording::open(packed).unwrap(), Some(&location));
        let paths = images.list().unwrap().into_iter().map(|kept| kept.path);
        paths.map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(images_of(&first), ["one"]);
        assert_eq!(images_of(&second), ["two"]);
    }
}
