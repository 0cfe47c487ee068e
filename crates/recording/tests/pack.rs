//! Packing a recording into one file, opening that, and unpacking it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::*;
use retake_recording::*;

struct Example {
    folder: tempfile::TempDir,
    directory: PathBuf,
    store: Store,
    contents: Vec<Vec<u8>>,
}

/// A recording with a long stream, an empty one, and files.
fn example() -> Example {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let store = Store::open(&folder.path().join("store")).unwrap();
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.declare_stream(&stream_info(0)).unwrap();
    writer.declare_stream(&stream_info(1)).unwrap();
    for part in long_stream().chunks(100_000) {
        let events = ChunkEvents { first: Some(8), count: 3 };
        writer.append(StreamId(0), part, events, Codec::Fast).unwrap();
    }
    let contents = vec![Vec::new(), noise(2_500_000, 7), b"text ".repeat(1000)];
    for content in &contents {
        writer.link_content(&store, store.add_bytes(content).unwrap()).unwrap();
    }
    writer.finish(&outcome()).unwrap();
    Example { folder, directory, store, contents }
}

fn long_stream() -> Vec<u8> {
    (0..3_000_000u32).map(|n| (n / 1000 * (n % 7)) as u8).collect()
}

fn packed(example: &Example) -> PathBuf {
    let path = example.folder.path().join("r.retake");
    let recording = Recording::open(&example.directory).unwrap();
    let mut last = None;
    pack(&recording, &path, &mut |progress| last = Some(progress)).unwrap();
    let last = last.unwrap();
    assert_eq!(last.done_bytes, last.total_bytes);
    path
}

fn check(recording: &Recording, example: &Example, cache: &Path) {
    assert_eq!(recording.check().unwrap(), []);
    assert!(read_streams(recording).0[&0] == long_stream());
    assert_eq!(recording.streams().next().unwrap().event_count, 90);
    let first = recording.stream(StreamId(0)).unwrap().chunk(0).unwrap();
    assert_eq!(first.first_event, Some(8));
    assert_eq!(recording.contents().unwrap().len(), 3);
    for content in &example.contents {
        let id = ContentId::of(content);
        assert!(recording.has_content(id));
        assert!(fs::read(recording.content_path(id, cache).unwrap()).unwrap() == *content);
    }
    assert!(!recording.has_content(ContentId::of(b"none")));
    assert!(matches!(
        recording.content_path(ContentId::of(b"none"), cache),
        Err(Error::NoContent { .. })
    ));
}

#[test]
fn a_packed_recording_is_self_contained() {
    let example = example();
    let path = packed(&example);
    assert!(path.metadata().unwrap().len() < 3_000_000);
    fs::rename(&example.directory, example.folder.path().join("elsewhere")).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert!(recording.is_packed());
    let cache = example.folder.path().join("cache");
    check(&recording, &example, &cache);
    check(&recording, &example, &cache);
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 3);
}

#[test]
fn unpacking_gives_the_recording_back() {
    let example = example();
    let original = Recording::open(&example.directory).unwrap().metadata().clone();
    let path = packed(&example);
    for (name, store) in [("plain", None), ("shared", Some(&example.store))] {
        let target = example.folder.path().join(name);
        let recording = Recording::open(&path).unwrap();
        unpack(&recording, &target, store, &mut |_| ()).unwrap();
        let recording = Recording::open(&target).unwrap();
        assert_eq!(*recording.metadata(), original);
        check(&recording, &example, example.folder.path());
    }
    let shared = example.store.path(ContentId::of(&example.contents[1]));
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&shared.metadata().unwrap()), 3);
}

#[test]
fn nothing_existing_is_replaced() {
    let example = example();
    let path = packed(&example);
    let recording = Recording::open(&path).unwrap();
    assert!(matches!(pack(&recording, &path, &mut |_| ()), Err(Error::AlreadyExists { .. })));
    let result = unpack(&recording, &example.directory, None, &mut |_| ());
    assert!(matches!(result, Err(Error::AlreadyExists { .. })));
    assert!(Recording::open(&example.directory).is_ok());
}

#[test]
fn a_wrong_file_is_not_packed_and_not_unpacked() {
    let example = example();
    let path = packed(&example);
    let id = ContentId::of(&example.contents[2]);
    fs::write(example.directory.join("files").join(id.to_string()), b"changed").unwrap();
    let recording = Recording::open(&example.directory).unwrap();
    let other = example.folder.path().join("other.retake");
    assert!(matches!(pack(&recording, &other, &mut |_| ()), Err(Error::BadContent { .. })));
    assert!(!other.exists());
    assert_eq!(recording.check().unwrap().len(), 1);

    // The pieces of this packed file are intact, but do not match the declaration.
    let mut bytes = fs::read(&path).unwrap();
    let declared = (0..bytes.len()).find(|&at| bytes[at..].starts_with(&id.0)).unwrap();
    bytes[declared] ^= 1;
    retake_recording::fuzzing::repair(&mut bytes);
    fs::write(&other, &bytes).unwrap();
    let recording = Recording::open(&other).unwrap();
    let target = example.folder.path().join("target");
    let mut wrong = id;
    wrong.0[0] ^= 1;
    let cache = example.folder.path().join("cache");
    assert!(matches!(
        recording.content_path(wrong, &cache),
        Err(Error::BadContent { .. } | Error::NoContent { .. })
    ));
    assert!(!cache.join(wrong.to_string()).exists());
    assert!(recording.contents().unwrap().iter().all(|(found, _)| *found != id));
    if recording.has_content(wrong) {
        assert!(unpack(&recording, &target, None, &mut |_| ()).is_err());
        assert!(!target.exists());
    }
}

#[test]
fn every_truncation_of_a_packed_recording_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let streams = small_recording(&directory);
    let store = Store::open(&folder.path().join("store")).unwrap();
    let id = store.add_bytes(b"a file of the recording").unwrap();
    fs::hard_link(store.path(id), directory.join("files").join(id.to_string())).unwrap();
    let path = folder.path().join("r.retake");
    pack(&Recording::open(&directory).unwrap(), &path, &mut |_| ()).unwrap();
    let bytes = fs::read(&path).unwrap();
    for length in 64..bytes.len() {
        let Ok(recording) = Recording::from_bytes(bytes[..length].to_vec()) else {
            continue;
        };
        assert!(!recording.warnings().is_empty(), "cut at {length}");
        for (id, read) in read_streams(&recording).0 {
            assert!(streams[&id].starts_with(&read), "cut at {length}");
        }
        for (id, _) in recording.contents().unwrap() {
            let mut copy = Vec::new();
            let result = recording.copy_content(id, &mut copy);
            assert!(result.is_err() || ContentId::of(&copy) == id, "cut at {length}");
        }
    }
}

#[test]
fn a_damaged_recording_is_packed_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let streams = small_recording(&directory);
    let events = fs::read(directory.join("events")).unwrap();
    fs::write(directory.join("events"), &events[..events.len() - 65]).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert!(!recording.warnings().is_empty());
    let path = folder.path().join("r.retake");
    pack(&recording, &path, &mut |_| ()).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert!(recording.warnings().is_empty());
    assert_eq!(read_streams(&recording).0, streams);
}
