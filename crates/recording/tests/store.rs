//! The store holds the same content once, whoever adds it, and nothing under a wrong name.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use common::*;
use retake_recording::*;

const NEVER: Duration = Duration::from_secs(1 << 40);

fn content_of(store: &Store, id: ContentId) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.open_content(id).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// Returns all files in the store's two-digit folders.
fn stored_files(root: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir() && path.file_name().unwrap().len() == 2);
    folders
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .collect()
}

#[test]
fn files_and_bytes_are_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    for bytes in [Vec::new(), noise(10, 1), noise(3_000_000, 2)] {
        let path = folder.path().join("file");
        fs::write(&path, &bytes).unwrap();
        let id = store.add_file(&File::open(&path).unwrap()).unwrap();
        assert_eq!(id, ContentId::of(&bytes));
        assert_eq!(store.add_bytes(&bytes).unwrap(), id);
        assert!(content_of(&store, id) == bytes);
        let metadata = store.path(id).metadata().unwrap();
        assert_eq!((metadata.permissions().mode() & 0o7777, metadata.nlink()), (0o600, 1));
    }
    assert_eq!(stored_files(store.root()).len(), 3);
    assert_eq!(fs::read_dir(store.root().join("temporary")).unwrap().count(), 0);
    assert!(matches!(store.open_content(ContentId::of(b"none")), Err(Error::NoContent { .. })));
}

#[test]
fn adding_leaves_the_descriptor_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"0123456789").unwrap();
    let mut file = File::open(&path).unwrap();
    file.read_exact(&mut [0; 4]).unwrap();
    assert_eq!(store.add_file(&file).unwrap(), ContentId::of(b"0123456789"));
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "456789");
}

#[test]
fn a_known_file_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    // A file that changed long ago, as system files did.
    let path = std::env::current_exe().unwrap();
    let file = File::open(&path).unwrap();
    let identity = FileIdentity::of(&file).unwrap();
    let settled = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos()
        as i64
        - 3_000_000_000;
    if identity.changed_ns > settled {
        std::thread::sleep(Duration::from_secs(3));
    }
    let store = Store::open(&root).unwrap();
    assert_eq!(store.lookup(&identity), None);
    let id = store.add_file(&file).unwrap();
    assert_eq!(store.lookup(&identity), Some(id));
    drop(store);
    let store = Store::open(&root).unwrap();
    assert_eq!(store.lookup(&identity), Some(id), "remembered across processes");
    assert_eq!(
        store.lookup(&FileIdentity { modified_ns: identity.modified_ns + 1, ..identity }),
        None
    );
    fs::remove_file(store.path(id)).unwrap();
    assert_eq!(store.lookup(&identity), None, "a memory without the content is of no use");
    assert_eq!(store.add_file(&file).unwrap(), id);
}

#[test]
fn a_file_just_changed_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let path = folder.path().join("file");
    for bytes in [b"first".as_slice(), b"other"] {
        fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(store.add_file(&file).unwrap(), ContentId::of(bytes));
        assert_eq!(store.lookup(&FileIdentity::of(&file).unwrap()), None);
    }
}

#[test]
fn a_stored_file_without_its_bytes_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let bytes = noise(5000, 4);
    let id = store.add_bytes(&bytes).unwrap();
    // A power loss may leave the file like this.
    fs::write(store.path(id), b"").unwrap();
    let path = folder.path().join("file");
    fs::write(&path, &bytes).unwrap();
    assert_eq!(store.add_file(&File::open(&path).unwrap()).unwrap(), id);
    assert!(content_of(&store, id) == bytes);
}

#[test]
fn a_file_that_changes_is_never_stored_under_a_wrong_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![0; 4 << 20]).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::os::unix::fs::FileExt;
            let file = File::options().write(true).open(&path).unwrap();
            let mut value = 0u8;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                value = value.wrapping_add(1);
                (0..4).for_each(|at| file.write_all_at(&[value; 100], at << 20).unwrap());
            }
        });
        for _ in 0..3 {
            match store.add_file(&File::open(&path).unwrap()) {
                Ok(id) => assert_eq!(ContentId::of(&content_of(&store, id)), id),
                Err(error) => assert!(matches!(error, Error::FileChanging { .. }), "{error}"),
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for path in stored_files(store.root()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(ContentId::of(&fs::read(&path).unwrap()).to_string(), name);
    }
}

const CHILD_FOLDER: &str = "RETAKE_TEST_STORE_FOLDER";

#[test]
#[ignore = "no test by itself, but the work of one process of the next test"]
fn child_adds_files() {
    let folder = PathBuf::from(std::env::var_os(CHILD_FOLDER).expect("the next test sets it"));
    for _ in 0..3 {
        let store = Store::open(&folder.join("store")).unwrap();
        for seed in 0..8 {
            let path = folder.join(format!("file{seed}"));
            assert_eq!(
                store.add_file(&File::open(path).unwrap()).unwrap(),
                ContentId::of(&noise(500_000, seed))
            );
            store.put_named_cache("image", &seed.to_string(), &noise(1000, seed)).unwrap();
        }
    }
}

#[test]
fn processes_add_the_same_files_at_once() {
    let folder = tempfile::tempdir().unwrap();
    (0..8).for_each(|seed| {
        fs::write(folder.path().join(format!("file{seed}")), noise(500_000, seed)).unwrap()
    });
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "child_adds_files"]).env(CHILD_FOLDER, folder.path());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..3).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let root = folder.path().join("store");
    assert_eq!(stored_files(&root).len(), 8);
    assert_eq!(fs::read_dir(root.join("temporary")).unwrap().count(), 0);
    let store = Store::open(&root).unwrap();
    (0..8).for_each(|seed| {
        assert!(content_of(&store, ContentId::of(&noise(500_000, seed))) == noise(500_000, seed))
    });
}

/// Collects as soon as no process has the store open: a process started by another test has all our
/// files open until it executes its program.
fn collect(root: &Path, unused_for: Duration) -> CollectionReport {
    let begun = Instant::now();
    loop {
        match Store::collect(root, unused_for) {
            Err(Error::StoreBusy { .. }) if begun.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(5))
            }
            report => return report.unwrap(),
        }
    }
}

#[test]
fn recordings_and_the_store_outlive_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let store = Store::open(&root).unwrap();
    let used = store.add_bytes(b"used").unwrap();
    let unused = store.add_bytes(b"unused").unwrap();
    let directory = folder.path().join("r");
    let writer = RecordingWriter::create(&directory, &metadata()).unwrap();
    writer.link_content(&store, used).unwrap();
    writer.link_content(&store, used).unwrap();
    assert!(matches!(
        writer.link_content(&store, ContentId::of(b"none")),
        Err(Error::NoContent { .. })
    ));
    assert_eq!(store.path(used).metadata().unwrap().nlink(), 2);

    assert!(
        matches!(Store::collect(&root, NEVER), Err(Error::StoreBusy { .. })),
        "the store is open"
    );
    drop(store);
    let report = collect(&root, NEVER);
    assert_eq!((report.removed_count, report.removed_bytes, report.kept_count), (1, 6, 1));
    let store = Store::open(&root).unwrap();
    assert!(store.contains(used) && !store.contains(unused));

    fs::remove_file(store.path(used)).unwrap();
    writer.finish(&outcome()).unwrap();
    drop(writer);
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.contents().unwrap(), [(used, 4)]);
    let path = recording.content_path(used, folder.path()).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"used");
    assert!(matches!(recording.content_path(unused, folder.path()), Err(Error::NoContent { .. })));
}

#[test]
fn derived_files_are_kept_while_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let store = Store::open(&root).unwrap();
    let read = |key: &str| {
        let mut bytes = Vec::new();
        store.named_cache("image", key).unwrap()?.read_to_end(&mut bytes).unwrap();
        Some(bytes)
    };
    assert_eq!(read("../../key"), None);
    let mut file = store.put_named_cache("image", "../../key", b"one").unwrap();
    let mut bytes = String::new();
    file.read_to_string(&mut bytes).unwrap();
    assert_eq!(bytes, "one");
    store.put_named_cache("image", "../../key", b"two").unwrap();
    assert_eq!(read("../../key").unwrap(), b"two");
    store.put_named_cache("image", "old", b"old").unwrap();
    store.put_named_cache("image", "gone", b"gone").unwrap();
    store.remove_named_cache("image", "gone").unwrap();
    store.remove_named_cache("image", "gone").unwrap();
    assert_eq!(read("gone"), None);
    for kind in ["", "..", "a/b", "A", &"a".repeat(33)] {
        assert!(matches!(store.named_cache(kind, "key"), Err(Error::BadName { .. })), "{kind}");
    }
    let old = store.named_cache("image", "old").unwrap().unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
    drop(store);
    let report = collect(&root, Duration::from_secs(50));
    assert_eq!((report.removed_count, report.kept_count), (1, 1));
    let store = Store::open(&root).unwrap();
    assert!(store.named_cache("image", "old").unwrap().is_none());
}

#[test]
fn a_collection_leaves_what_is_not_ours() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let store = Store::open(&root).unwrap();
    store.add_bytes(b"x").unwrap();
    drop(store);
    fs::create_dir(root.join("my")).unwrap();
    fs::create_dir_all(root.join("ab")).unwrap();
    fs::write(root.join("my/notes"), b"").unwrap();
    fs::write(root.join("ab/notes"), b"").unwrap();
    fs::write(root.join("temporary/.new-1-1"), b"left over").unwrap();
    collect(&root, NEVER);
    assert!(root.join("my/notes").exists() && root.join("ab/notes").exists());
    assert!(!root.join("temporary/.new-1-1").exists());
    assert!(stored_files(&root).iter().all(|path| path.ends_with("notes")));
    assert_eq!(
        Store::collect(&folder.path().join("none"), NEVER).unwrap(),
        CollectionReport::default()
    );
}

/// Stores a file and expands it again. Returns its data and its size then, and how many bytes were
/// stored.
fn stored_and_expanded(file: &File) -> (Vec<u8>, u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let stored = File::open(store.path(store.add_file(file).unwrap())).unwrap();
    let expanded = File::create_new(folder.path().join("expanded")).unwrap();
    assert!(sparse::expand(&stored, &expanded).unwrap());
    let bytes = expanded.metadata().unwrap().len();
    assert_eq!(sparse::expanded_size(&stored).unwrap(), Some(bytes));
    let mut start = vec![0; 1 << 16];
    File::open(folder.path().join("expanded")).unwrap().read_exact_at(&mut start, 0).unwrap();
    (start, bytes, stored.metadata().unwrap().len())
}

#[test]
fn holes_are_not_stored() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 32).unwrap();
    file.write_all_at(b"start", 0).unwrap();
    file.write_all_at(b"end", (1 << 32) - 3).unwrap();
    let (start, bytes, stored) = stored_and_expanded(&file);
    assert!(start.starts_with(b"start\0") && stored < 1 << 20);
    assert_eq!(bytes, 1 << 32);
}

#[test]
fn a_file_that_looks_like_a_sparse_one_is_itself() {
    let mut file = tempfile::tempfile().unwrap();
    let bytes = [b"retake sparse 1\n".as_slice(), &noise(70_000, 3)].concat();
    file.write_all(&bytes).unwrap();
    let (start, size, _) = stored_and_expanded(&file);
    assert_eq!((start.as_slice(), size), (&bytes[..1 << 16], bytes.len() as u64));
}

#[test]
fn a_damaged_sparse_file_is_an_error() {
    let head = |bytes: u64, extents: &[(u64, u64)]| {
        let words = extents.iter().flat_map(|(offset, count)| [*offset, *count]);
        let words: Vec<u64> = [bytes, extents.len() as u64].into_iter().chain(words).collect();
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        [b"retake sparse 1\n".to_vec(), words.collect()].concat()
    };
    let whole = [head(100, &[(3, 2)]), b"ab".to_vec()].concat();
    let damaged = [
        whole[..whole.len() - 1].to_vec(),
        whole[..40].to_vec(),
        head(100, &[(99, 2)]),
        head(100, &[(u64::MAX, 2)]),
        head(100, &[(3, 0)]),
        [head(100, &[(3, 2), (4, 2)]), b"abcd".to_vec()].concat(),
        [b"retake sparse 1\n".as_slice(), &[0xff; 16]].concat(),
    ];
    for (number, bytes) in damaged.iter().enumerate() {
        let (mut stored, expanded) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        stored.write_all(bytes).unwrap();
        assert!(sparse::expand(&stored, &expanded).is_err(), "{number}");
    }
    let (mut stored, expanded) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    stored.write_all(b"retake").unwrap();
    assert!(!sparse::expand(&stored, &expanded).unwrap());
}
