//! Tests the writer on a storage that fails: full disks, torn writes, writes in small pieces.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::metadata::Exit;
use crate::recording::Recording;
use crate::stream_info::StreamKind;

/// An in-memory disk with a limited number of bytes.
#[derive(Debug, Default)]
struct Disk {
    bytes: Vec<u8>,
    capacity: usize,
    /// The most bytes that one write accepts.
    piece_bytes: usize,
    /// Whether truncating the file fails, too.
    cannot_truncate: bool,
}

#[derive(Clone)]
struct FakeStorage(Arc<Mutex<Disk>>);

impl FakeStorage {
    fn new(capacity: usize, piece_bytes: usize, cannot_truncate: bool) -> Self {
        Self(Arc::new(Mutex::new(Disk {
            bytes: Vec::new(),
            capacity,
            piece_bytes,
            cannot_truncate,
        })))
    }

    fn recording(&self) -> Recording {
        Recording::from_bytes(self.0.lock().unwrap().bytes.clone()).unwrap()
    }
}

impl Storage for FakeStorage {
    fn write_at(&mut self, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut disk = self.0.lock().unwrap();
        let offset = offset as usize;
        let room = disk.capacity.saturating_sub(offset).min(disk.piece_bytes);
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let all: Vec<u8> =
            slices.iter().flat_map(|slice| slice.iter().copied()).take(room).collect();
        if disk.bytes.len() < offset + all.len() {
            disk.bytes.resize(offset + all.len(), 0);
        }
        disk.bytes[offset..offset + all.len()].copy_from_slice(&all);
        Ok(all.len())
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        if disk.cannot_truncate {
            return Err(io::ErrorKind::Other.into());
        }
        disk.bytes.truncate(bytes as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const STREAM: StreamId = StreamId(1);

fn start(directory: &Path, storage: &FakeStorage) -> RecordingWriter {
    let writer =
        RecordingWriter::start(directory, Box::new(storage.clone()), &Metadata::default(), None)
            .unwrap();
    let kind = StreamKind::Initial;
    let info = StreamInfo { id: STREAM, parent: None, pid: 1, tid: 1, kind, label: String::new() };
    writer.declare_stream(&info).unwrap();
    writer
}

fn outcome() -> Outcome {
    Outcome::of_exit(Exit::Exited(0))
}

fn read_all(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut recording.stream(STREAM).unwrap(), &mut bytes).unwrap();
    bytes
}

/// Gives the disk `more` bytes of room whenever `action` finds it full. Everything written before
/// must be readable then.
fn retry(
    storage: &FakeStorage,
    more: usize,
    written: &[u8],
    mut action: impl FnMut() -> Result<()>,
) -> usize {
    let mut failure_count = 0;
    while let Err(error) = action() {
        assert!(error.is_no_space(), "{error}");
        assert_eq!(read_all(&storage.recording()), written, "what was written before is readable");
        storage.0.lock().unwrap().capacity += more;
        failure_count += 1;
    }
    failure_count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_full_disk_loses_and_repeats_nothing(
        sizes in prop::collection::vec(1usize..400, 1..20),
        more in 1usize..300,
        piece_bytes in prop_oneof![1usize..100, Just(1 << 20)],
        cannot_truncate: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let storage = FakeStorage::new(usize::MAX, piece_bytes, cannot_truncate);
        let writer = start(folder.path(), &storage);
        storage.0.lock().unwrap().capacity = writer.file_bytes() as usize;
        let mut written = Vec::new();
        let mut failure_count = 0;
        for (number, size) in sizes.iter().enumerate() {
            let bytes = vec![number as u8; *size];
            let events = ChunkEvents { first: Some(0), count: 1 };
            failure_count += retry(&storage, more, &written, || writer.append(STREAM, &bytes,
                events, Codec::Fast));
            written.extend_from_slice(&bytes);
        }
        failure_count += retry(&storage, more, &written, || writer.finish(&outcome()));
        prop_assert!(failure_count > 0);
        let recording = storage.recording();
        prop_assert!(recording.warnings().is_empty(), "{:?}", recording.warnings());
        prop_assert_eq!(read_all(&recording), written);
        let summary = recording.streams().next().unwrap();
        prop_assert_eq!(summary.event_count, sizes.len() as u64);
    }
}

#[test]
fn recording_goes_on_after_a_failed_ending() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FakeStorage::new(usize::MAX, usize::MAX, true);
    let writer = start(folder.path(), &storage);
    storage.0.lock().unwrap().capacity = writer.file_bytes() as usize + 700;
    assert!(writer.finish(&outcome()).unwrap_err().is_no_space());
    storage.0.lock().unwrap().capacity = usize::MAX;
    writer.append(STREAM, &[3; 2000], ChunkEvents::default(), Codec::Raw).unwrap();
    writer.finish(&outcome()).unwrap();
    let recording = storage.recording();
    assert!(recording.warnings().is_empty(), "{:?}", recording.warnings());
    assert_eq!(read_all(&recording), [3; 2000]);
}

#[test]
fn other_errors_name_the_file() {
    struct Broken;
    impl Storage for Broken {
        fn write_at(&mut self, _: u64, _: &[IoSlice<'_>]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
        fn truncate(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let result =
        RecordingWriter::start(folder.path(), Box::new(Broken), &Metadata::default(), None);
    let error = result.unwrap_err();
    assert!(!error.is_no_space() && error.to_string().contains("events"), "{error}");
}

#[test]
fn nothing_comes_after_events_that_were_lost() {
    /// A file with a size limit of 1000 bytes.
    struct Limited(FakeStorage);
    impl Storage for Limited {
        fn write_at(&mut self, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
            if offset as usize + bytes > 1000 {
                Err(io::ErrorKind::FileTooLarge.into())
            } else {
                self.0.write_at(offset, slices)
            }
        }
        fn truncate(&mut self, bytes: u64) -> io::Result<()> {
            self.0.truncate(bytes)
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = FakeStorage::new(10_000, usize::MAX, false);
    let writer = RecordingWriter::start(
        folder.path(),
        Box::new(Limited(disk.clone())),
        &Metadata::default(),
        None,
    )
    .unwrap();
    let info = StreamInfo {
        id: STREAM,
        parent: None,
        pid: 1,
        tid: 1,
        kind: StreamKind::Initial,
        label: String::new(),
    };
    writer.declare_stream(&info).unwrap();
    let append = |bytes: &[u8]| {
        writer.append(STREAM, bytes, ChunkEvents { first: Some(0), count: 1 }, Codec::Raw)
    };
    append(&[1; 16]).unwrap();
    assert!(append(&[2; 2000]).unwrap_err().to_string().contains("ulimit -f"));
    assert!(matches!(append(&[3; 16]), Err(Error::Cut { .. })), "though there is room for it");
    assert_eq!(read_all(&disk.recording()), [1; 16]);
}
