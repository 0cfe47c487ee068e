//! A damaged recording delivers what is undamaged, reports what is not, and never delivers anything
//! wrong.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::*;
use retake_recording::*;

/// Makes a small recording. Returns its directory, the bytes of its events file, and the bytes of
/// its streams.
fn example(folder: &Path) -> (std::path::PathBuf, Vec<u8>, BTreeMap<u32, Vec<u8>>) {
    let directory = folder.join("r");
    let streams = small_recording(&directory);
    let events = fs::read(directory.join("events")).unwrap();
    (directory, events, streams)
}

/// Checks that every stream read is a prefix of what was written. Returns whether everything is
/// there.
fn check_prefixes(recording: &Recording, streams: &BTreeMap<u32, Vec<u8>>, what: &str) -> bool {
    let (read, failed) = read_streams(recording);
    for (id, bytes) in &read {
        assert!(streams[id].starts_with(bytes), "{what}: stream {id} is wrong");
    }
    let complete = read == *streams;
    assert!(!(failed && complete), "{what}: an error though all is there");
    let told = failed || !recording.warnings().is_empty();
    assert!(complete || told, "{what}: something is missing without a word");
    complete
}

#[test]
fn every_truncation_leaves_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, events, streams) = example(folder.path());
    let mut readable_bytes = 0;
    for length in 0..events.len() {
        fs::write(directory.join("events"), &events[..length]).unwrap();
        let what = format!("cut at {length}");
        match Recording::open(&directory) {
            Ok(recording) => {
                assert!(!recording.warnings().is_empty(), "{what}");
                check_prefixes(&recording, &streams, &what);
                let bytes: u64 = recording.streams().map(|stream| stream.bytes).sum();
                assert!(bytes >= readable_bytes, "{what}: less than of a shorter file");
                readable_bytes = bytes;
            }
            Err(error) => assert!(length < 64, "{what}: {error}"),
        }
    }
    assert_eq!(readable_bytes, streams.values().map(|bytes| bytes.len() as u64).sum::<u64>());
}

#[test]
fn every_flipped_byte_is_harmless_or_told() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, events, streams) = example(folder.path());
    let original = Recording::open(&directory).unwrap().metadata().clone();
    for at in 0..events.len() {
        for mask in [1 << (at % 8), 0xff] {
            let mut bad = events.clone();
            bad[at] ^= mask;
            fs::write(directory.join("events"), &bad).unwrap();
            let what = format!("byte {at} ^ {mask:#x}");
            match Recording::open(&directory) {
                Ok(recording) => {
                    check_prefixes(&recording, &streams, &what);
                    let metadata = recording.metadata();
                    assert_eq!(metadata.command, original.command, "{what}");
                    assert_eq!(metadata.recording_id, original.recording_id, "{what}");
                    assert!(
                        !recording.check().unwrap().is_empty(),
                        "{what}: a check does not see it"
                    );
                }
                Err(_) => {
                    assert!(at < 64, "{what}: only the beginning decides whether it is a recording")
                }
            }
        }
    }
}

#[test]
fn every_flipped_byte_of_an_unfinished_recording_is_harmless_or_told() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, events, streams) = example(folder.path());
    let unfinished = &events[..events.len() - 64];
    for at in 0..unfinished.len() {
        let mut bad = unfinished.to_vec();
        bad[at] ^= 0x10;
        fs::write(directory.join("events"), &bad).unwrap();
        let what = format!("byte {at}");
        if let Ok(recording) = Recording::open(&directory) {
            check_prefixes(&recording, &streams, &what);
        }
    }
}

#[test]
fn a_hole_ends_one_stream_and_leaves_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, events, streams) = example(folder.path());
    // The first chunk of stream 0 is uncompressed.
    let needle = &streams[&0][..37];
    let at = events.windows(37).position(|window| window == needle).unwrap();
    let mut bad = events[..events.len() - 64].to_vec();
    bad[at + 5] ^= 1;
    fs::write(directory.join("events"), &bad).unwrap();
    let recording = Recording::open(&directory).unwrap();
    let (read, failed) = read_streams(&recording);
    assert!(!failed && read[&0].is_empty() && read[&1] == streams[&1]);
    let told = recording.warnings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(told.contains("chunk 0 of stream 0") && told.contains("chunk 1 of stream 0"), "{told}");

    // With an index, damage shows only when the chunk is read, or in a check.
    let mut bad = events.clone();
    bad[at + 5] ^= 1;
    fs::write(directory.join("events"), &bad).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert!(recording.warnings().is_empty());
    let error = recording.stream(StreamId(0)).unwrap().read_chunk(0, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("chunk 0 of stream 0"), "{error}");
    assert_eq!(recording.check().unwrap().len(), 1);
}

#[test]
fn a_frame_inside_a_chunk_is_not_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.declare_stream(&stream_info(0)).unwrap();
    writer.append(StreamId(0), b"secret", ChunkEvents::default(), Codec::Raw).unwrap();
    // The program reads its own recording, so the recording contains its own bytes.
    let own = fs::read(directory.join("events")).unwrap();
    writer.append(StreamId(0), &own, ChunkEvents::default(), Codec::Raw).unwrap();
    drop(writer);
    let mut events = fs::read(directory.join("events")).unwrap();
    let second = own.len();
    events[second] ^= 1;
    fs::write(directory.join("events"), &events).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(read_streams(&recording).0[&0], b"secret");
    let expected = (second as u64, (events.len() - second) as u64);
    let lost = recording.warnings().iter().any(|warning| {
        matches!(warning, Warning::LostBytes { file_offset, bytes, .. }
            if (*file_offset, *bytes) == expected)
    });
    assert!(lost, "{:?}", recording.warnings());
}

#[test]
fn damaged_metadata_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, events, _) = example(folder.path());
    let json = fs::read(directory.join("recording.json")).unwrap();
    let copies: Vec<usize> = (0..events.len() - 20)
        .filter(|&at| events[at..].starts_with(b"\"/bin/example\""))
        .collect();
    assert_eq!(copies.len(), 2);
    let mut bad = events.clone();
    bad[copies[1] + 3] ^= 1;
    fs::write(directory.join("events"), &bad).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert!(matches!(recording.warnings(), [Warning::OldMetadata { .. }]));
    assert_eq!(
        recording.metadata().outcome,
        None,
        "the first copy is from the beginning of the recording"
    );
    bad[copies[0] + 3] ^= 1;
    fs::write(directory.join("events"), &bad).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert!(recording.metadata().outcome.is_some(), "recording.json is complete");
    fs::write(directory.join("recording.json"), &json[..json.len() - 1]).unwrap();
    assert!(matches!(Recording::open(&directory), Err(Error::BadMetadata { .. })));
}

#[test]
fn another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, mut events, _) = example(folder.path());
    events[4] = 99;
    fs::write(directory.join("events"), &events).unwrap();
    let error = Recording::open(&directory).unwrap_err();
    assert!(matches!(
        error,
        Error::UnsupportedVersion { found: 99, supported: FORMAT_VERSION, .. }
    ));
    assert!(error.to_string().contains("format 99"), "{error}");
}

#[test]
fn what_is_no_recording_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "x".repeat(1000)).unwrap();
    assert!(matches!(Recording::open(&text), Err(Error::NotARecording { .. })));
    assert!(matches!(Recording::open(folder.path()), Err(Error::NotARecording { .. })));
    assert!(matches!(Recording::open(&folder.path().join("none")), Err(Error::Io { .. })));
    assert!(matches!(Recording::open(Path::new("/dev/zero")), Err(Error::NotARecording { .. })));
    let directory = folder.path().join("d");
    fs::create_dir(&directory).unwrap();
    let made = std::process::Command::new("mkfifo").arg(directory.join("events")).status().unwrap();
    assert!(made.success());
    assert!(matches!(Recording::open(&directory), Err(Error::NotARecording { .. })));
    fs::remove_file(directory.join("events")).unwrap();
    std::os::unix::fs::symlink(&text, directory.join("events")).unwrap();
    assert!(Recording::open(&directory).is_err());
}
