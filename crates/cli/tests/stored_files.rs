//! The files of a recording. `info --verify`, `pack` and replay report files that are missing,
//! changed or of another type.

mod cli_support;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cli_support::{Place, compile_fault};

const LIMIT: Duration = Duration::from_secs(20);

/// Makes a recording in the folder `made`. Also returns its largest file, which is the C library.
fn recorded(name: &str) -> (Place, PathBuf) {
    let place = Place::new(name);
    place.run_well(&["record", "-o", "made", "echo", "hello"]);
    let files = fs::read_dir(place.work("made/files")).unwrap().flatten();
    let largest = files.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap();
    // The file is a link to the store's. A copy takes its place, so that the store keeps its own.
    let copy = place.work("copy");
    fs::copy(largest.path(), &copy).unwrap();
    fs::remove_file(largest.path()).unwrap();
    fs::rename(&copy, largest.path()).unwrap();
    (place, largest.path())
}

/// Checks that `info --verify` reports `because`, that `pack` refuses the recording, and that
/// replay fails.
fn is_noticed(place: &Place, because: &str) {
    let verified = place.run_within(&["info", "--verify", "made"], LIMIT);
    assert_eq!(verified.status, Some(125), "{verified:?}");
    let told = verified.stdout + &verified.stderr;
    assert!(told.contains(because), "{told}");
    let packed = place.run_within(&["pack", "made", "-o", "packed"], LIMIT);
    assert_eq!(packed.status, Some(125), "{packed:?}");
    assert!(!place.work("packed").exists());
    let replayed = place.run_within(&["replay", "made"], LIMIT);
    assert!(matches!(replayed.status, Some(120 | 125)), "{replayed:?}");
    assert!(replayed.stderr.contains("error: "), "{replayed:?}");
}

#[test]
fn whole_ones_are_right() {
    let (place, _) = recorded("files-whole");
    place.run_well(&["info", "--verify", "made"]);
    assert_eq!(place.run_within(&["replay", "made"], LIMIT).stdout, "hello\n");
    place.run_well(&["pack", "made", "-o", "packed"]);
}

#[test]
fn a_missing_one_is_noticed() {
    let (place, file) = recorded("files-missing");
    fs::remove_file(file).unwrap();
    is_noticed(&place, "missing");
}

#[test]
fn a_changed_one_is_noticed() {
    let (place, file) = recorded("files-changed");
    let mut bytes = fs::read(&file).unwrap();
    // Nothing uses the last byte.
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, bytes).unwrap();
    is_noticed(&place, "damaged");
}

#[test]
fn a_short_one_is_noticed() {
    let (place, file) = recorded("files-short");
    fs::File::options().write(true).open(file).unwrap().set_len(100).unwrap();
    is_noticed(&place, "damaged");
}

#[test]
fn a_pipe_in_place_of_one_holds_nobody_up() {
    let (place, file) = recorded("files-pipe");
    fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    is_noticed(&place, "missing");
}

#[test]
fn a_link_in_place_of_one_is_not_followed() {
    let (place, file) = recorded("files-link");
    let elsewhere = place.work("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    is_noticed(&place, "missing");
}

/// The file has a size of four terabytes.
#[test]
fn a_sparse_file_is_recorded_in_no_time() {
    let place = Place::new("sparse");
    let program = compile_fault(&place, "sparse", &[]);
    let start = Instant::now();
    let recorded = place.run_within(&["record", "-o", "made", &program], LIMIT);
    let took = start.elapsed();
    assert_eq!((recorded.status, recorded.stdout.as_str()), (Some(0), "data 0 more 0\n"));
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    place.run_well(&["pack", "-o", "packed.retake", "made"]);
    assert!(fs::metadata(place.work("packed.retake")).unwrap().len() < 8 << 20);
    for name in ["made", "packed.retake"] {
        let replayed = place.run_within(&["replay", "--check=full", name], LIMIT);
        assert_eq!(
            (replayed.status, &replayed.stdout),
            (Some(0), &recorded.stdout),
            "{replayed:?}"
        );
    }
}

/// Both files are in the same bucket of the runtime's list of files.
#[test]
fn what_replay_has_a_copy_of_is_not_stored_again() {
    let place = Place::new("mapped-again");
    let program = compile_fault(&place, "mapped_again", &[]);
    let stored = |times: &str| {
        let recorded = place.run_within(&["record", "-o", times, &program, times], LIMIT);
        assert_eq!(recorded.status, Some(0), "{recorded:?}");
        let replayed = place.run_within(&["replay", "--check=full", times], LIMIT);
        assert_eq!((replayed.status, &replayed.stdout), (Some(0), &recorded.stdout));
        fs::read_dir(place.work(&format!("{times}/files"))).unwrap().count()
    };
    assert_eq!(stored("1"), stored("3"));
}
