//! What is written is read back, however it is cut into chunks.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::os::unix::fs::PermissionsExt;

use common::*;
use proptest::prelude::*;
use retake_recording::*;

fn codec() -> impl Strategy<Value = Codec> {
    prop_oneof![Just(Codec::Raw), Just(Codec::Fast), Just(Codec::Dense)]
}

/// Generates a chunk: its stream, its bytes (one repeated value, or noise), its compression, its
/// events.
fn chunk() -> impl Strategy<Value = (u32, Vec<u8>, Codec, ChunkEvents)> {
    (0u32..4, 0usize..40_000, any::<u8>(), any::<bool>(), codec(), any::<(u32, u32)>()).prop_map(
        |(stream, count, value, is_noise, codec, (first, events))| {
            let bytes = if is_noise { noise(count, value.into()) } else { vec![value; count] };
            let events = match bytes.len() as u32 {
                0 => ChunkEvents::default(),
                len if first % 3 == 0 => {
                    let first = first % len;
                    ChunkEvents { first: Some(first), count: 1 + events % (len - first) }
                }
                _ => ChunkEvents::default(),
            };
            (stream, bytes, codec, events)
        },
    )
}

fn expected(chunks: &[(u32, Vec<u8>, Codec, ChunkEvents)]) -> BTreeMap<u32, (Vec<u8>, u64)> {
    let mut streams: BTreeMap<u32, (Vec<u8>, u64)> =
        (0..4).map(|id| (id, Default::default())).collect();
    for (stream, bytes, _, events) in chunks {
        let entry = streams.get_mut(stream).unwrap();
        entry.0.extend_from_slice(bytes);
        entry.1 += u64::from(events.count);
    }
    streams
}

fn check(recording: &Recording, streams: &BTreeMap<u32, (Vec<u8>, u64)>) {
    assert_eq!(recording.streams().count(), streams.len());
    for summary in recording.streams() {
        let (bytes, event_count) = &streams[&summary.info.id.0];
        assert_eq!(summary.bytes, bytes.len() as u64);
        assert_eq!(summary.event_count, *event_count);
        assert_eq!(summary.info, stream_info(summary.info.id.0));
        let mut read = Vec::new();
        recording.stream(summary.info.id).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == *bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn streams_read_back(chunks in prop::collection::vec(chunk(), 0..12), finished: bool) {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("r");
        let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
        (0..4).for_each(|id| writer.declare_stream(&stream_info(id)).unwrap());
        for (stream, bytes, codec, events) in &chunks {
            writer.append(StreamId(*stream), bytes, *events, *codec).unwrap();
        }
        if finished {
            writer.finish(&outcome()).unwrap();
        }
        drop(writer);
        let recording = Recording::open(&directory).unwrap();
        prop_assert_eq!(recording.warnings().is_empty(), finished, "{:?}", recording.warnings());
        let streams = expected(&chunks);
        check(&recording, &streams);

        let packed = folder.path().join("r.retake");
        pack(&recording, &packed, &mut |_| ()).unwrap();
        let recording = Recording::open(&packed).unwrap();
        prop_assert!(recording.warnings().is_empty());
        check(&recording, &streams);

        let unpacked = folder.path().join("u");
        unpack(&recording, &unpacked, None, &mut |_| ()).unwrap();
        let recording = Recording::open(&unpacked).unwrap();
        prop_assert!(recording.check().unwrap().is_empty());
        check(&recording, &streams);
    }
}

#[test]
fn metadata_are_completed() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.declare_stream(&stream_info(0)).unwrap();
    writer
        .append(StreamId(0), b"12345678", ChunkEvents { first: Some(0), count: 1 }, Codec::Raw)
        .unwrap();
    writer.update_metadata(|metadata| metadata.machine.kernel = "6.7".to_owned()).unwrap();
    let counters = [("calls".to_owned(), 5)].into();
    writer
        .finish(&Outcome { duration_ms: 3, counters, ..Outcome::of_exit(Exit::Killed(9)) })
        .unwrap();
    let recording = Recording::open(&directory).unwrap();
    let read = recording.metadata();
    assert_eq!(read.machine.kernel, "6.7");
    assert_eq!(read.recording_id.len(), 16);
    let outcome = read.outcome.as_ref().unwrap();
    assert_eq!(outcome.exit, Exit::Killed(9));
    let counters: Vec<_> = ["calls", "streams", "chunks", "events", "stream_bytes"]
        .map(|name| outcome.counters[name])
        .into();
    assert_eq!(counters, [5, 1, 1, 1, 8]);
    assert!(writer.append(StreamId(0), b"x", ChunkEvents::default(), Codec::Raw).is_err());
}

#[test]
fn only_the_owner_may_look() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    small_recording(&directory);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("files")), 0o700);
    assert_eq!(mode(&directory.join("events")), 0o600);
    assert_eq!(mode(&directory.join("recording.json")), 0o600);
}

#[test]
fn an_existing_directory_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        RecordingWriter::create(folder.path(), &metadata()),
        Err(Error::AlreadyExists { .. })
    ));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn wrong_callers_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let writer = RecordingWriter::create(&folder.path().join("r"), &metadata()).unwrap();
    let append = |bytes: &[u8], first, count| {
        writer.append(StreamId(0), bytes, ChunkEvents { first, count }, Codec::Fast).unwrap_err()
    };
    assert!(matches!(append(b"x", None, 0), Error::UnknownStream { .. }));
    assert!(matches!(append(b"x", Some(0), 2), Error::BadChunkEvents { .. }));
    assert!(matches!(append(b"x", None, 1), Error::BadChunkEvents { .. }));
    assert!(matches!(append(&vec![0; MAX_CHUNK_BYTES + 1], None, 0), Error::ChunkTooLarge { .. }));
    writer.declare_stream(&stream_info(0)).unwrap();
    assert!(matches!(writer.declare_stream(&stream_info(0)), Err(Error::DuplicateStream { .. })));
}

#[test]
fn readers_seek() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.declare_stream(&stream_info(0)).unwrap();
    let all = noise(1000, 3);
    for part in all.chunks(300) {
        writer.append(StreamId(0), part, one_event(part), Codec::Fast).unwrap();
    }
    writer.finish(&outcome()).unwrap();
    let recording = Recording::open(&directory).unwrap();
    let mut reader = recording.stream(StreamId(0)).unwrap();
    assert_eq!(reader.chunk_count(), 4);
    for offset in [0, 1, 299, 300, 301, 899, 900, 999, 1000, 5000] {
        reader.seek_to_offset(offset).unwrap();
        assert_eq!(reader.position(), offset.min(1000));
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, all[offset.min(1000) as usize..]);
        assert_eq!(reader.position(), 1000);
    }
    reader.seek_to_chunk(2).unwrap();
    assert_eq!(reader.position(), 600);
    assert_eq!(reader.fill_buf().unwrap(), &all[600..900]);
    let mut chunk = Vec::new();
    assert_eq!(reader.read_chunk(3, &mut chunk).unwrap().stream_offset, 900);
    assert_eq!(chunk, all[900..]);
    assert_eq!(reader.fill_buf().unwrap(), &all[600..900], "reading a chunk moves nothing");
    assert!(matches!(reader.read_chunk(4, &mut chunk), Err(Error::NoSuchChunk { .. })));
    assert!(reader.seek_to_chunk(4).is_ok() && reader.seek_to_chunk(5).is_err());
    assert!(recording.stream(StreamId(1)).is_err());
}

#[test]
fn threads_append_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    std::thread::scope(|scope| {
        for id in 0..4 {
            let writer = &writer;
            scope.spawn(move || {
                writer.declare_stream(&stream_info(id)).unwrap();
                for part in noise(20_000, id.into()).chunks(333) {
                    writer.append(StreamId(id), part, one_event(part), Codec::Fast).unwrap();
                }
            });
        }
    });
    writer.finish(&outcome()).unwrap();
    let (streams, failed) = read_streams(&Recording::open(&directory).unwrap());
    assert!(!failed);
    (0..4).for_each(|id| assert!(streams[&id] == noise(20_000, id.into())));
}

#[test]
fn a_recording_can_be_read_while_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.declare_stream(&stream_info(0)).unwrap();
    writer.append(StreamId(0), b"so far", ChunkEvents::default(), Codec::Fast).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.warnings(), [Warning::BeingRecorded]);
    assert_eq!(read_streams(&recording).0[&0], b"so far");
    writer.append(StreamId(0), b" and on", ChunkEvents::default(), Codec::Fast).unwrap();
    writer.finish(&outcome()).unwrap();
    assert_eq!(read_streams(&Recording::open(&directory).unwrap()).0[&0], b"so far and on");
}
