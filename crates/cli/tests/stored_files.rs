//! The files of a recording. `info --verify`, `pack` and replay report files that are missing,
//! changed or of another type.

mod cli_support;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cli_support::altered_copy::{runtime_of, with_metadata, with_runtime};
use cli_support::{Place, compile_fault};
use retake_recording::Recording;
use retake_testing::needs;

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

/// The runtime's entry for replay, and the instructions at which it begins.
const ENTRY: usize = 0x50;
const BEGINNING: &[u8] = &[0x48, 0x89, 0xe7, 0x48, 0x83, 0xe4, 0xf0];

/// A runtime that says something on standard error whenever it begins, and is the same otherwise.
fn talking(runtime: &[u8], text: &str) -> Vec<u8> {
    assert_eq!(&runtime[ENTRY..ENTRY + BEGINNING.len()], BEGINNING);
    let mut talking = runtime.to_vec();
    let distance = |from: usize, to: usize| (to as i64 - from as i64) as i32;
    let jump =
        |from: usize, to: usize| [&[0xe9][..], &distance(from + 5, to).to_le_bytes()].concat();
    let added = talking.len().next_multiple_of(16);
    talking.resize(added, 0xcc);
    talking.splice(ENTRY..ENTRY + 5, jump(ENTRY, added));
    talking.extend([0xb8, 1, 0, 0, 0, 0xbf, 2, 0, 0, 0, 0xba]); // write, to standard error
    talking.extend((text.len() as u32).to_le_bytes());
    let rest = [&[0x0f, 0x05][..], BEGINNING].concat();
    let address = talking.len() + 7;
    talking.extend([0x48, 0x8d, 0x35]);
    talking.extend(distance(address, address + rest.len() + 5).to_le_bytes());
    talking.extend(rest);
    talking.extend(jump(talking.len(), ENTRY + BEGINNING.len()));
    talking.extend(text.as_bytes());
    talking
}

#[test]
fn replay_uses_the_runtime_that_the_recording_has() {
    let place = Place::new("runtime-other");
    place.run_well(&["record", "-o", "made", "sh", "-c", "echo hello; /bin/echo again"]);
    let text = talking(&runtime_of(&place.work("made")), "another runtime\n");
    with_runtime(&place.work("made"), &place.work("other"), &text);
    place.run_well(&["info", "--verify", "other"]);
    place.run_well(&["pack", "other", "-o", "packed"]);
    let said = place.run(&["replay", "made"]);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("hello\nagain\n", ""));
    for name in ["other", "packed"] {
        let said = place.run(&["replay", "--check=full", name]);
        assert_eq!((said.status, said.stdout.as_str()), (Some(0), "hello\nagain\n"), "{said:?}");
        // One for each program that is executed.
        assert_eq!(said.stderr, "another runtime\n".repeat(2), "{name}");
    }
}

#[test]
fn all_that_replays_uses_the_runtime_of_the_recording() {
    needs!("gdb");
    let place = Place::new("runtime-ways");
    place.run(&["record", "-o", "made", "sh", "-c", "echo hello; kill -SEGV $$"]);
    let mut text = runtime_of(&place.work("made"));
    text.extend([0xcc; 5000]);
    with_runtime(&place.work("made"), &place.work("other"), &text);
    let gdb = ["--", "-batch", "-ex", "reverse-stepi", "-ex", "print ((int (*)(void))getpid)()"];
    let ways: &[(&[&str], &[&str])] = &[
        (&["replay", "--check=full"], &[]),
        (&["backtrace"], &[]),
        (&["checkpoint", "--at", "crash"], &[]),
        (&["trace", "--from"], &[]),
        (&["debug"], &gdb),
    ];
    for (way, rest) in ways {
        let [made, other] = ["made", "other"].map(|name| {
            let ran = place.run_within(&[*way, &[name][..], *rest].concat(), LIMIT);
            // How long it took follows, if anything.
            let said = ran.stdout.split(", after").next().unwrap().replace(name, "NAME");
            (ran.status, ran.signal, said, ran.stderr)
        });
        assert!(!made.2.is_empty(), "{way:?}: {made:?}");
        assert_eq!((made.0, made.1, &made.2), (other.0, other.1, &other.2), "{way:?}: {other:?}");
    }
}

#[test]
fn a_runtime_that_is_not_what_it_is_called_is_refused() {
    let place = Place::new("runtime-changed");
    place.run_well(&["record", "-o", "made", "true"]);
    let text = talking(&runtime_of(&place.work("made")), "another runtime\n");
    with_runtime(&place.work("made"), &place.work("other"), &text);
    let other = Recording::open(&place.work("other")).unwrap();
    let file = place.work("other/files").join(&other.metadata().runtime_hash);
    for (bytes, told) in [
        ([&text[..text.len() - 1], b"!"].concat(), "its content is"),
        (text[..text.len() / 2].to_vec(), "its content is"),
        (vec![0; 5 << 20], "cannot be used"),
    ] {
        fs::write(&file, bytes).unwrap();
        place.run_badly(&["replay", "other"], 125, &["the runtime in the recording", told, "try"]);
    }
    let short = b"too short".to_vec();
    with_runtime(&place.work("made"), &place.work("short"), &short);
    place.run_badly(&["replay", "short"], 125, &["it has 9 bytes"]);
    fs::remove_file(&file).unwrap();
    place.run_badly(&["replay", "other"], 125, &["needs the runtime", "does not have it", "try"]);
    place.run_badly(&["pack", "other", "-o", "packed"], 125, &["error: "]);
    let verified = place.run(&["info", "--verify", "other"]);
    assert!(verified.stdout.contains("a file that replay needs is missing"), "{verified:?}");
    assert!(verified.stdout.contains("not here"), "{verified:?}");
}

#[test]
fn recordings_share_a_runtime_that_lives_as_long_as_they_do() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new("runtime-shared");
    // All find an empty store at the same time.
    let recorders: Vec<_> =
        (0..4).map(|_| place.command(&["record", "true"]).spawn().unwrap()).collect();
    for mut recorder in recorders {
        assert!(recorder.wait().unwrap().success());
    }
    let names = ["true-1", "true-2", "true-3", "true-4"];
    let first = Recording::open(&place.recording(names[0])).unwrap();
    let hash = first.metadata().runtime_hash.clone();
    let stored = place.recording("../store").join(&hash[..2]).join(&hash);
    for name in names {
        let own = fs::metadata(place.recording(name).join("files").join(&hash)).unwrap();
        assert_eq!(own.ino(), fs::metadata(&stored).unwrap().ino());
    }
    place.run_well(&["rm", "true-1", "true-2", "true-3"]);
    place.run_well(&["replay", "true-4"]);
    assert_eq!(fs::metadata(&stored).unwrap().nlink(), 2);
    place.run_well(&["rm", "true-4"]);
    assert!(!stored.exists());
}

/// Recordings that earlier builds made, packed, each with the output of its program.
const KEPT: &[(&str, &str)] = &[("format-2.retake", "kept 70b89833\n")];

#[test]
fn recordings_of_earlier_builds_can_be_replayed() {
    let place = Place::new("kept-recordings");
    for (name, printed) in KEPT {
        let kept = cli_support::source_file(&format!("recordings/{name}"));
        let kept = kept.to_str().unwrap();
        place.run_well(&["info", "--verify", kept]);
        let replayed = place.run(&["replay", "--check=full", kept]);
        assert_eq!(
            (replayed.status, replayed.stdout.as_str()),
            (Some(3), *printed),
            "{replayed:?}"
        );
        assert_eq!(replayed.stderr, "");
        let traced = place.run(&["trace", "--from", kept]);
        assert!(traced.stdout.contains("getrandom("), "{traced:?}");
    }
}

/// Makes the recording for [`KEPT`] of today's format. It needs a processor with no more than SSE,
/// and its runtime differs from this build's.
#[test]
#[ignore = "writes a recording to be kept, when there is a new format"]
fn a_recording_is_made_to_be_kept() {
    let place = Place::new("kept-recordings-new");
    // The recording has the path, and all of the environment.
    let folder = std::path::Path::new("/tmp/kept");
    fs::create_dir_all(folder).unwrap();
    let options = ["-O1", "-static", "-nostdlib", "-ffreestanding", "-Wl,--build-id=none", "-s"];
    cli_support::compile_program("recordings/kept", &options, &folder.join("kept"));
    let made = place.work("made");
    let arguments = ["record", "-o", made.to_str().unwrap(), "./kept"];
    let ran = place.run_command(&arguments, LIMIT, |command| {
        command.current_dir(folder).env_clear().env("RETAKE_DIR", folder.join("store"));
    });
    fs::remove_dir_all(folder).unwrap();
    with_metadata(&made, &place.work("kept-1"), |metadata| {
        let machine = &mut metadata.machine;
        (machine.kernel, machine.cpu_model) = ("6.1.0".to_owned(), "any".to_owned());
        machine.features_needed.clear();
        // No leaf about registers that other processors do not have.
        machine.processor.cpuid.retain(|answer| answer.0[0] == 0);
        machine.processor.extended_features = 3;
        machine.processor.extended_bytes = 576;
        machine.processor.traps_cpuid = false;
    });
    let mut text = runtime_of(&made);
    text.extend([0xcc; 16]);
    with_runtime(&place.work("kept-1"), &place.work("kept-2"), &text);
    let kept = std::env::var("RETAKE_KEPT").expect("where to write it");
    place.run_well(&["pack", "kept-2", "-o", &kept]);
    println!("it printed {:?}", ran.stdout);
}
