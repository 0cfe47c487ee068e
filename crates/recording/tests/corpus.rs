//! Replays the inputs that fuzzing collected, and small recordings with any one field set to
//! awkward values.

mod common;

use std::fs;
use std::path::Path;

use common::*;
use retake_recording::fuzzing::{exercise, repair};
use retake_recording::*;

#[test]
fn the_corpus_is_harmless() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording");
    let inputs: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty());
    for path in inputs {
        let mut bytes = fs::read(path).unwrap();
        exercise(bytes.clone());
        repair(&mut bytes);
        exercise(bytes);
    }
}

/// A packed recording with two streams and a file.
fn packed_example() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("r");
    small_recording(&directory);
    let id = ContentId::of(b"a file");
    fs::write(directory.join("files").join(id.to_string()), b"a file").unwrap();
    let path = folder.path().join("r.retake");
    pack(&Recording::open(&directory).unwrap(), &path, &mut |_| ()).unwrap();
    fs::read(path).unwrap()
}

/// Sets every four-byte field to extreme values with correct checksums, in headers, index and
/// declarations.
#[test]
fn awkward_fields_are_harmless() {
    let good = packed_example();
    let mut repaired = good.clone();
    repair(&mut repaired);
    assert!(repaired == good, "repairing must not change what is right");
    for at in (0..good.len() - 3).step_by(4) {
        for value in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x0100_0000] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            repair(&mut bad);
            exercise(bad);
        }
    }
}
