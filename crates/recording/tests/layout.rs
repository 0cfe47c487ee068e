//! Files have the layout of docs/FORMAT.md. These tests read the writers' output by its tables
//! alone, without the crate's readers.

mod common;

use std::fs::{self, File};
use std::path::Path;

use common::*;
use retake_recording::*;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const METADATA: u8 = 1;
const STREAM: u8 = 2;
const CHUNK: u8 = 3;
const CONTENT: u8 = 4;
const CONTENT_CHUNK: u8 = 5;
const INDEX: u8 = 6;
const TRAILER: u8 = 7;

fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    bytes[at..at + count].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A frame: its header, its stored bytes, where it stands.
struct Frame {
    at: usize,
    header: Vec<u8>,
    stored: Vec<u8>,
}

impl Frame {
    fn kind(&self) -> u8 {
        self.header[6]
    }

    fn u32(&self, at: usize) -> u32 {
        number(&self.header, at, 4) as u32
    }

    fn offset(&self) -> u64 {
        number(&self.header, 16, 8)
    }

    /// Returns its contents, uncompressed.
    fn payload(&self) -> Vec<u8> {
        let bytes = self.u32(32) as usize;
        let payload = match self.header[7] {
            0 => self.stored.clone(),
            1 => lz4_flex::block::decompress(&self.stored, bytes).unwrap(),
            2 => zstd::bulk::decompress(&self.stored, bytes).unwrap(),
            other => panic!("stored as {other}"),
        };
        assert_eq!(payload.len(), bytes);
        assert!(self.header[7] == 0 || self.stored.len() < bytes);
        payload
    }
}

/// Returns all frames of a file. They must follow each other to its end.
fn frames(file: &Path) -> Vec<Frame> {
    let bytes = fs::read(file).unwrap();
    let mut frames: Vec<Frame> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let header = bytes[at..at + 64].to_vec();
        assert_eq!(&header[..4], b"RTKF");
        assert_eq!(number(&header, 4, 2), 2);
        assert_eq!(
            number(&header, 56, 8),
            xxh3_64_with_seed(&header[..56], at as u64),
            "the header at {at}"
        );
        let stored = bytes[at + 64..at + 64 + number(&header, 36, 4) as usize].to_vec();
        assert_eq!(number(&header, 40, 8), xxh3_64(&stored), "the bytes of the frame at {at}");
        let end = at + 64 + stored.len();
        let next = end.next_multiple_of(8);
        assert!(bytes[end..next].iter().all(|&byte| byte == 0), "zeros up to a multiple of 8");
        if let Some(first) = frames.first() {
            assert_eq!(header[48..56], first.header[48..56], "one id in all frames");
        }
        frames.push(Frame { at, header, stored });
        at = next;
    }
    frames
}

fn of_kind(frames: &[Frame], kind: u8) -> Vec<&Frame> {
    frames.iter().filter(|frame| frame.kind() == kind).collect()
}

/// Returns the metadata as text. The last copy counts.
fn metadata_of(frames: &[Frame]) -> String {
    assert_eq!(frames[0].kind(), METADATA);
    let last = of_kind(frames, METADATA).pop().unwrap();
    assert_eq!(last.header[7], 0, "raw");
    String::from_utf8(last.stored.clone()).unwrap()
}

#[test]
fn frames_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let streams = small_recording(&directory);
    let frames = frames(&directory.join("events"));
    for id in 0..2 {
        let chunks: Vec<&Frame> =
            of_kind(&frames, CHUNK).into_iter().filter(|frame| frame.u32(8) == id).collect();
        let mut read = Vec::new();
        for (sequence, chunk) in chunks.iter().enumerate() {
            assert_eq!((chunk.u32(12), chunk.offset()), (sequence as u32, read.len() as u64));
            // One event starts in each chunk, at its beginning.
            assert_eq!((chunk.u32(24), chunk.u32(28)), (0, 1));
            read.extend(chunk.payload());
        }
        assert!(read == streams[&id]);
        let declared =
            frames.iter().position(|frame| frame.kind() == STREAM && frame.u32(8) == id).unwrap();
        let first =
            frames.iter().position(|frame| frame.kind() == CHUNK && frame.u32(8) == id).unwrap();
        assert!(declared < first);
    }
    let mut stored_as: Vec<u8> =
        of_kind(&frames, CHUNK).iter().map(|frame| frame.header[7]).collect();
    stored_as.sort_unstable();
    assert_eq!(stored_as, [0, 0, 0, 1, 2], "raw, LZ4 and Zstandard");
}

#[test]
fn chunks_without_a_first_event_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.declare_stream(&stream_info(0)).unwrap();
    writer
        .append(StreamId(0), b"no event starts here", ChunkEvents::default(), Codec::Raw)
        .unwrap();
    drop(writer);
    let frames = frames(&directory.join("events"));
    let chunk = of_kind(&frames, CHUNK)[0];
    assert_eq!((chunk.u32(24), chunk.u32(28)), (0xffff_ffff, 0));
}

#[test]
fn each_byte_of_a_stream_is_in_one_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.declare_stream(&stream_info(0)).unwrap();
    for bytes in [100, 8, 300] {
        let bytes = noise(bytes, 1);
        writer.append(StreamId(0), &bytes, one_event(&bytes), Codec::Raw).unwrap();
    }
    writer.finish(&outcome()).unwrap();
    let recording = Recording::open(&directory).unwrap();
    let reader = recording.stream(StreamId(0)).unwrap();
    let chunks = [0, 99, 100, 107, 108, 407, 408].map(|offset| reader.chunk_containing(offset));
    assert_eq!(chunks, [0, 0, 1, 1, 2, 2, 3]);
}

#[test]
fn streams_are_declared_with_kind_parent_and_label() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    small_recording(&directory);
    let frames = frames(&directory.join("events"));
    let streams = of_kind(&frames, STREAM);
    for (id, stream) in streams.iter().enumerate() {
        let bytes = &stream.stored;
        assert_eq!((stream.header[7], stream.u32(8)), (0, id as u32));
        // The kind (a further thread), whether it has a parent, the parent, and the two IDs.
        let words: Vec<u64> = (0..5).map(|word| number(bytes, 4 * word, 4)).collect();
        let id = id as u64;
        assert_eq!(words, [3, u64::from(id > 0), id.saturating_sub(1), 100 + id, 200 + id]);
        assert_eq!(&bytes[20..], format!("thread {id}").as_bytes());
    }
    assert_eq!(streams.len(), 2);
}

#[test]
fn the_index_has_every_frame_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    small_recording(&directory);
    let frames = frames(&directory.join("events"));
    let (trailer, index) = (frames.last().unwrap(), &frames[frames.len() - 2]);
    assert_eq!(
        (trailer.kind(), trailer.stored.len(), trailer.offset()),
        (TRAILER, 0, index.at as u64)
    );
    assert_eq!((index.kind(), index.u32(12), index.header[7]), (INDEX, 0, 0));
    let expected = frames[..frames.len() - 2].iter();
    let expected: Vec<u8> = expected
        .flat_map(|frame| [(frame.at as u64).to_le_bytes().to_vec(), frame.header.clone()].concat())
        .collect();
    assert!(index.stored == expected);
}

#[test]
fn metadata_begin_with_their_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    small_recording(&directory);
    let frames = frames(&directory.join("events"));
    let text = metadata_of(&frames);
    assert_eq!(text, fs::read_to_string(directory.join("recording.json")).unwrap(), "a copy");
    let rest = text.strip_prefix("{\n  \"checksum\": \"").unwrap();
    let (digits, rest) = rest.split_at(16);
    let zeroed = format!("{{\n  \"checksum\": \"0000000000000000{rest}");
    assert_eq!(digits, format!("{:016x}", xxh3_64(zeroed.as_bytes())));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["recording_id"], format!("{:016x}", number(&frames[0].header, 48, 8)));
    assert_eq!(
        (&value["format_version"], &value["outcome"]["exit"]["exited"]),
        (&2.into(), &0.into())
    );
    for field in [
        "retake_version",
        "table_hash",
        "contract_hash",
        "contract_version",
        "contract_revision",
        "runtime_hash",
        "has_runtime",
        "command",
        "arguments",
        "working_directory",
        "environment_count",
        "ticks_per_second",
    ] {
        assert!(!value[field].is_null(), "{field}");
    }
    for field in ["started_unix_ms", "machine", "check_level", "policy", "settings"] {
        assert!(!value[field].is_null(), "{field}");
    }
    let unfinished: serde_json::Value = serde_json::from_slice(&frames[0].stored).unwrap();
    assert!(unfinished["outcome"].is_null(), "until the end there is no outcome");
}

#[test]
fn text_that_is_not_utf_8_is_in_hexadecimal() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let odd = Metadata { command: ByteText(vec![0xff, b'a']), ..metadata() };
    RecordingWriter::create(&directory, &odd).unwrap();
    let text = fs::read(directory.join("recording.json")).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        (&value["command"]["hex"], &value["arguments"][0]),
        (&"ff61".into(), &"example".into())
    );
}

#[test]
fn a_packed_file_has_the_contents_among_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, packed) = (folder.path().join("r"), folder.path().join("r.retake"));
    let store = Store::open(&folder.path().join("store")).unwrap();
    let bytes = [noise(1_500_000, 3), vec![1; 1_500_000]].concat();
    let id = store.add_bytes(&bytes).unwrap();
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.link_content(&store, id).unwrap();
    writer.finish(&outcome()).unwrap();
    drop(writer);
    assert!(directory.join("files").join(id.to_string()).exists());
    pack(&Recording::open(&directory).unwrap(), &packed, &mut |_| ()).unwrap();
    let frames = frames(&packed);
    let declared = of_kind(&frames, CONTENT);
    assert_eq!((declared.len(), declared[0].header[7]), (1, 0));
    assert_eq!(declared[0].stored, [&id.0[..], &(bytes.len() as u64).to_le_bytes()].concat());
    assert_eq!(blake3::hash(&bytes).as_bytes(), &id.0);
    let mut read = Vec::new();
    for (sequence, piece) in of_kind(&frames, CONTENT_CHUNK).iter().enumerate() {
        assert_eq!(
            (piece.u32(8), piece.u32(12), piece.offset()),
            (declared[0].u32(8), sequence as u32, read.len() as u64)
        );
        assert!(piece.u32(32) <= 1 << 20, "at most 1 MiB");
        read.extend(piece.payload());
    }
    assert!(read == bytes);
}

#[test]
fn kept_checkpoints_have_a_header_and_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let made = Metadata {
        table_hash: "table".to_owned(),
        runtime_hash: "runtime".to_owned(),
        ..metadata()
    };
    RecordingWriter::create(&directory, &made).unwrap().finish(&outcome()).unwrap();
    let recording = Recording::open(&directory).unwrap();
    let checkpoints = Checkpoints::of(&recording, None);
    let mut writer = checkpoints.create().unwrap();
    let pieces =
        [(1, 0, 0, b"{}".to_vec()), (4, 0, 0x1000, vec![7; 4096]), (6, 2, 9, noise(100, 5))];
    for (kind, which, value, bytes) in &pieces {
        writer.put(PieceName { kind: *kind, which: *which, value: *value }, bytes).unwrap();
    }
    checkpoints.finish(writer).unwrap();
    let bytes = fs::read(directory.join("checkpoints/1")).unwrap();
    assert_eq!((&bytes[..4], number(&bytes, 4, 2), number(&bytes, 6, 2)), (&b"RTKC"[..], 2, 0));
    assert_eq!(format!("{:016x}", number(&bytes, 8, 8)), recording.metadata().recording_id);
    assert_eq!(&bytes[16..48], blake3::hash(b"table runtime").as_bytes());
    assert_eq!((number(&bytes, 48, 8), number(&bytes, 56, 8)), (3, xxh3_64(&bytes[..56])));
    let mut at = 64;
    for (kind, which, value, expected) in pieces {
        let header = &bytes[at..at + 32];
        let stored = &bytes[at + 32..at + 32 + number(header, 20, 4) as usize];
        assert_eq!(
            (header[0], number(header, 2, 2), number(header, 4, 4), number(header, 8, 8)),
            (kind, 0, u64::from(which), value)
        );
        assert_eq!(number(header, 16, 4), expected.len() as u64);
        let payload = if header[1] == 0 {
            stored.to_vec()
        } else {
            zstd::bulk::decompress(stored, expected.len()).unwrap()
        };
        assert!(payload == expected && matches!(header[1], 0 | 2));
        assert_eq!(
            number(header, 24, 8),
            xxh3_64_with_seed(&[&header[..24], stored].concat(), at as u64)
        );
        at += 32 + stored.len();
    }
    assert_eq!(at, bytes.len());
}

#[test]
fn the_store_has_files_by_hash_and_identities_of_80_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let store = Store::open(&root).unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"content").unwrap();
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(9);
    File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
    // The change time cannot be set, and only files unchanged for two seconds are remembered.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let file = File::open(&path).unwrap();
    let id = store.add_file(&file).unwrap();
    let name = id.to_string();
    assert_eq!(fs::read(root.join(&name[..2]).join(&name)).unwrap(), b"content");
    assert!(root.join("temporary").is_dir() && root.join("lock").is_file());
    let identities = fs::read(root.join("identities")).unwrap();
    let identity = FileIdentity::of(&file).unwrap();
    let words = [
        identity.device,
        identity.inode,
        identity.bytes,
        identity.modified_ns as u64,
        identity.changed_ns as u64,
    ];
    let fields: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain(id.0).collect();
    assert_eq!(identities, [&fields[..], &xxh3_64(&fields).to_le_bytes()].concat());
}

#[test]
fn nothing_that_was_written_is_changed_later() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    let mut before = Vec::new();
    let mut check = || {
        let now = fs::read(directory.join("events")).unwrap();
        assert!(now.len() > before.len() && now.starts_with(&before));
        before = now;
    };
    check();
    writer.declare_stream(&stream_info(0)).unwrap();
    check();
    for seed in 0..5 {
        let bytes = noise(1000, seed);
        writer.append(StreamId(0), &bytes, one_event(&bytes), Codec::Dense).unwrap();
        check();
    }
    writer.update_metadata(|metadata| metadata.environment_count = 7).unwrap();
    check();
    writer.finish(&outcome()).unwrap();
    check();
}
