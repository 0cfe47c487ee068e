//! The folder of recordings: names, listing, the latest, removal.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::*;
use retake_recording::*;

fn record(recordings: &Path, program: &str, started_unix_ms: u64) -> std::path::PathBuf {
    let metadata = Metadata { started_unix_ms, ..metadata() };
    let writer = create_numbered(recordings, OsStr::new(program), &metadata).unwrap();
    writer.finish(&outcome()).unwrap();
    writer.directory().to_path_buf()
}

fn names(recordings: &Path) -> Vec<String> {
    list(recordings).unwrap().into_iter().map(|listing| listing.name).collect()
}

#[test]
fn recordings_are_named_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let recordings = folder.path();
    assert_eq!(names(&recordings.join("none")), [""; 0]);
    for _ in 0..11 {
        record(recordings, "/usr/bin/cat", 0);
    }
    record(recordings, "/tmp/.x y/../a b\n", 0);
    record(recordings, "/", 0);
    record(recordings, "...", 0);
    fs::create_dir(recordings.join("other")).unwrap();
    fs::write(recordings.join("notes"), "x".repeat(100)).unwrap();
    let expected = [
        "a_b_-1",
        "cat-1",
        "cat-2",
        "cat-3",
        "cat-4",
        "cat-5",
        "cat-6",
        "cat-7",
        "cat-8",
        "cat-9",
        "cat-10",
        "cat-11",
        "program-1",
        "program-2",
    ];
    assert_eq!(names(recordings), expected);
    remove(&recordings.join("cat-3")).unwrap();
    assert!(record(recordings, "cat", 0).ends_with("cat-12"), "a number is not used twice");
    let listing = list(recordings).unwrap();
    assert!(
        listing
            .iter()
            .all(|entry| !entry.is_packed && entry.metadata.as_ref().unwrap().outcome.is_some())
    );
}

#[test]
fn a_damaged_recording_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = record(folder.path(), "cat", 5);
    fs::write(path.join("recording.json"), b"{").unwrap();
    assert_eq!(list(folder.path()).unwrap()[0].metadata.as_ref().unwrap().started_unix_ms, 5);
    fs::write(path.join("events"), b"").unwrap();
    assert!(list(folder.path()).unwrap()[0].metadata.is_err());
    remove(&path).unwrap();
}

#[test]
fn the_latest_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let recordings = folder.path();
    assert_eq!(latest(recordings).unwrap(), None);
    assert!(resolve(recordings, OsStr::new("latest")).is_err());
    let first = record(recordings, "a", 1);
    let second = record(recordings, "a", 3);
    let third = record(recordings, "a", 2);
    assert_eq!(latest(recordings).unwrap().as_ref(), Some(&second), "without a link, by time");
    set_latest(recordings, &first).unwrap();
    set_latest(recordings, &third).unwrap();
    assert_eq!(latest(recordings).unwrap().as_ref(), Some(&third));
    assert_eq!(names(recordings).len(), 3, "the link is not a recording");
    remove(&resolve(recordings, OsStr::new("latest")).unwrap()).unwrap();
    assert_eq!(latest(recordings).unwrap().as_ref(), Some(&second));
    remove(&recordings.join("latest")).unwrap();
    assert!(!second.exists() && first.exists());
    remove(&first).unwrap();
    assert!(!recordings.join("latest").is_symlink());
    assert!(set_latest(recordings, Path::new("none")).is_err());
}

#[test]
fn names_are_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let recordings = folder.path();
    let path = record(recordings, "a", 1);
    let packed = recordings.join("b.retake");
    pack(&Recording::open(&path).unwrap(), &packed, &mut |_| ()).unwrap();
    let find = |name: &str| resolve(recordings, OsStr::new(name)).ok();
    assert_eq!(find("a-1"), Some(path.clone()));
    assert_eq!(find("b"), Some(packed.clone()));
    assert_eq!(find("b.retake"), Some(packed.clone()));
    assert_eq!(find(path.to_str().unwrap()), Some(path));
    assert_eq!(find("none"), None);
    assert_eq!(find(""), None);
    assert!(
        list(recordings).unwrap().iter().any(|entry| entry.is_packed && entry.metadata.is_ok())
    );
    remove(&packed).unwrap();
    assert_eq!(find("b"), None);
}

#[test]
fn only_recordings_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = record(folder.path(), "a", 1);
    fs::write(path.join("mine"), b"").unwrap();
    assert!(matches!(remove(&path), Err(Error::ForeignEntry { .. })));
    assert!(Recording::open(&path).is_ok(), "nothing was removed");
    fs::rename(path.join("mine"), path.join("files/mine")).unwrap();
    assert!(matches!(remove(&path), Err(Error::ForeignEntry { .. })));
    assert!(Recording::open(&path).is_ok(), "nothing was removed");

    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    assert!(matches!(remove(&other), Err(Error::NotARecording { .. })));
    fs::write(other.join("events"), b"my diary").unwrap();
    assert!(matches!(remove(&other), Err(Error::NotARecording { .. })));
    assert!(matches!(remove(&other.join("events")), Err(Error::NotARecording { .. })));
    fs::write(other.join("empty"), b"").unwrap();
    assert!(matches!(remove(&other.join("empty")), Err(Error::NotARecording { .. })));
}

#[test]
fn links_are_not_followed_out_of_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let name = ContentId::of(b"x").to_string();
    fs::write(outside.join(&name), b"x").unwrap();
    let path = record(folder.path(), "a", 1);
    fs::remove_dir(path.join("files")).unwrap();
    symlink(&outside, path.join("files")).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert!(recording.contents().unwrap().is_empty());
    assert!(recording.content_path(ContentId::of(b"x"), &outside).is_err());
    remove(&path).unwrap();
    assert!(outside.join(&name).exists() && !path.exists());
}

#[test]
fn a_recording_being_made_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let writer = create_numbered(folder.path(), OsStr::new("a"), &metadata()).unwrap();
    assert!(matches!(remove(writer.directory()), Err(Error::BeingRecorded { .. })));
    let path = writer.directory().to_path_buf();
    drop(writer);
    remove(&path).unwrap();
    assert!(!path.exists());
}
