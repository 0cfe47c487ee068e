//! Measures how fast one thread writes and reads a recording, in processor time, since the machine
//! may have other work. Runs only on demand: `cargo test --release -p retake-recording --test rates
//! -- --ignored --nocapture`.

mod common;

use common::{metadata, noise, outcome, stream_info};
use retake_recording::*;

/// The size of what the drain takes from a ring at once.
const PIECE_BYTES: usize = 512 << 10;
const PIECES: usize = 400;

/// A piece of a stream: its bytes, and their number of events.
struct Piece {
    bytes: Vec<u8>,
    events: u32,
}

/// Events that differ only in their result.
fn small_calls() -> Piece {
    let events = (PIECE_BYTES / 16) as u32;
    let event = |at: u32| {
        [16, 0, 0, 0, 1, 0, 110, 0].into_iter().chain(u64::from(4711 + at % 2).to_le_bytes())
    };
    Piece { bytes: (0..events).flat_map(event).collect(), events }
}

/// Calls with arguments and one structure each, like `stat`.
fn calls_with_data() -> Piece {
    let mut bytes = Vec::new();
    let mut events = 0_u32;
    while bytes.len() + 256 <= PIECE_BYTES {
        bytes.extend([0, 1, 0, 0, 1, 0, 4, 0]);
        bytes.extend([0; 8]);
        for word in 0..16_u64 {
            bytes.extend((0x7f12_3456_0000 + word * 64).to_le_bytes());
        }
        let file = noise(24, u64::from(events));
        bytes.extend(file);
        bytes.extend([0; 88]);
        events += 1;
    }
    Piece { bytes, events }
}

/// The data of a `read` of source code.
fn text() -> Piece {
    let words = [
        "static ",
        "int ",
        "return ",
        "value",
        " = ",
        "context->",
        "if (",
        ");\n",
        "\t",
        "struct ",
        "0",
        "};\n",
        "offset",
        "/* ",
        " */",
    ];
    let choices = noise(PIECE_BYTES, 5);
    let mut bytes: Vec<u8> = choices
        .iter()
        .flat_map(|choice| words[usize::from(*choice) % words.len()].bytes())
        .collect();
    bytes.truncate(PIECE_BYTES);
    Piece { bytes, events: 4 }
}

fn incompressible() -> Piece {
    Piece { bytes: noise(PIECE_BYTES, 9), events: 4 }
}

/// Returns how long this thread has run.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

#[test]
#[ignore = "measures"]
fn writing_and_reading() {
    let cases = [
        ("small calls", small_calls(), Codec::Small),
        ("small calls", small_calls(), Codec::Fast),
        ("calls with data", calls_with_data(), Codec::Small),
        ("calls with data", calls_with_data(), Codec::Fast),
        ("text", text(), Codec::Fast),
        ("noise", incompressible(), Codec::Fast),
        ("noise", incompressible(), Codec::Raw),
    ];
    for (name, piece, codec) in cases {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("r");
        let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
        writer.declare_stream(&stream_info(0)).unwrap();
        let started = processor_seconds();
        for _ in 0..PIECES {
            writer
                .append(
                    StreamId(0),
                    &piece.bytes,
                    ChunkEvents { first: Some(0), count: piece.events },
                    codec,
                )
                .unwrap();
        }
        let seconds = processor_seconds() - started;
        let raw = (piece.bytes.len() * PIECES) as f64;
        let ratio = raw / writer.file_bytes() as f64;
        writer.finish(&outcome()).unwrap();
        let recording = Recording::open(&directory).unwrap();
        let started = processor_seconds();
        let mut reader = recording.stream(StreamId(0)).unwrap();
        let mut chunk = Vec::new();
        (0..reader.chunk_count()).for_each(|index| {
            reader.read_chunk(index, &mut chunk).unwrap();
        });
        let read = raw / (processor_seconds() - started) / 1e6;
        let (written, events) =
            (raw / seconds / 1e6, f64::from(piece.events) * PIECES as f64 / seconds / 1e6);
        println!(
            "{name:16} {codec:?}: {written:6.0} MB/s, {events:6.2} M events/s, {ratio:6.1} times \
            smaller; read at {read:6.0} MB/s"
        );
    }
}
