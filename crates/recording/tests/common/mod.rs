//! Helpers for the tests of recordings.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use retake_recording::*;

pub fn metadata() -> Metadata {
    Metadata {
        command: "/bin/example".into(),
        arguments: vec!["example".into()],
        ..Metadata::default()
    }
}

pub fn outcome() -> Outcome {
    Outcome { duration_ms: 1, ..Outcome::of_exit(Exit::Exited(0)) }
}

pub fn stream_info(id: u32) -> StreamInfo {
    StreamInfo {
        id: StreamId(id),
        parent: (id > 0).then(|| StreamId(id - 1)),
        pid: 100 + id as i32,
        tid: 200 + id as i32,
        kind: StreamKind::Thread,
        label: format!("thread {id}"),
    }
}

/// Returns the events of a chunk in which only the event at its beginning is known.
pub fn one_event(bytes: &[u8]) -> ChunkEvents {
    if bytes.is_empty() { ChunkEvents::default() } else { ChunkEvents { first: Some(0), count: 1 } }
}

/// Returns bytes that do not compress.
pub fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) + 1;
    let step = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..count).map(step).collect()
}

/// Returns the bytes of every stream up to the first error, and whether there was an error.
pub fn read_streams(recording: &Recording) -> (BTreeMap<u32, Vec<u8>>, bool) {
    let mut streams = BTreeMap::new();
    let mut failed = false;
    for summary in recording.streams() {
        let mut bytes = Vec::new();
        let mut reader = recording.stream(summary.info.id).unwrap();
        failed |= reader.read_to_end(&mut bytes).is_err();
        streams.insert(summary.info.id.0, bytes);
    }
    (streams, failed)
}

/// Writes a small recording with two streams and several chunks of each kind of compression.
/// Returns the streams' bytes.
pub fn small_recording(directory: &Path) -> BTreeMap<u32, Vec<u8>> {
    let writer = RecordingWriter::create(directory, &metadata()).unwrap();
    let mut streams: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for id in 0..2 {
        writer.declare_stream(&stream_info(id)).unwrap();
    }
    let chunks = [
        (0, noise(37, 1), Codec::Raw),
        (1, vec![7; 200], Codec::Fast),
        (0, vec![8; 300], Codec::Dense),
        (1, noise(64, 2), Codec::Fast),
        (0, b"the end".to_vec(), Codec::Fast),
    ];
    for (id, bytes, codec) in chunks {
        writer.append(StreamId(id), &bytes, one_event(&bytes), codec).unwrap();
        streams.entry(id).or_default().extend_from_slice(&bytes);
    }
    writer.finish(&outcome()).unwrap();
    streams
}
