//! Copies of recordings as other builds of retake, or attackers, could have made them.

use std::fs;
use std::io::Read;
use std::path::Path;

use retake_recording::{ChunkEvents, Codec, ContentId, Metadata, Recording, RecordingWriter};

/// Returns the runtime of a recording's folder.
pub fn runtime_of(recording: &Path) -> Vec<u8> {
    let hash = Recording::open(recording).unwrap().metadata().runtime_hash.clone();
    fs::read(recording.join("files").join(hash)).unwrap()
}

/// Writes a copy of a recording's folder with other metadata.
pub fn with_metadata(from: &Path, to: &Path, change: impl FnOnce(&mut Metadata)) {
    let recording = Recording::open(from).unwrap();
    let mut metadata = recording.metadata().clone();
    change(&mut metadata);
    let writer = RecordingWriter::create(to, &metadata).unwrap();
    for stream in recording.streams() {
        writer.declare_stream(&stream.info).unwrap();
        let mut bytes = Vec::new();
        recording.stream(stream.info.id).unwrap().read_to_end(&mut bytes).unwrap();
        let events = ChunkEvents { first: Some(0), count: stream.event_count as u32 };
        writer.append(stream.info.id, &bytes, events, Codec::Small).unwrap();
    }
    for file in fs::read_dir(from.join("files")).unwrap() {
        let file = file.unwrap();
        fs::hard_link(file.path(), to.join("files").join(file.file_name())).unwrap();
    }
    writer.finish(metadata.outcome.as_ref().unwrap()).unwrap();
}

/// Writes a copy of a recording's folder with another runtime, and with its right hash.
pub fn with_runtime(from: &Path, to: &Path, text: &[u8]) {
    let hash = ContentId::of(text).to_string();
    let own = Recording::open(from).unwrap().metadata().runtime_hash.clone();
    with_metadata(from, to, |metadata| metadata.runtime_hash.clone_from(&hash));
    let files = to.join("files");
    fs::remove_file(files.join(own)).unwrap();
    fs::write(files.join(hash), text).unwrap();
}
