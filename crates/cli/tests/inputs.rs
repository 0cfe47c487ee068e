//! Large reads of large files. The log has references to a stored copy in place of the bytes, so
//! that later changes of the files do not affect replay.

mod cli_support;

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use cli_support::started::{Started, wait_until};
use cli_support::{Place, compile_program};
use retake_model::ItemDirection;
use retake_model::table::number;
use retake_recording::{EventReader, Recording};
use retake_testing::needs;

const LIMIT: Duration = Duration::from_secs(60);
const BYTES: usize = 8 << 20;
const READ: &str = "import hashlib, os, sys\n\
    file = os.open('large', os.O_RDONLY)\n\
    sum = hashlib.blake2b()\n\
    while piece := os.read(file, 1 << 16): sum.update(piece)\n\
    print(sum.hexdigest())";

/// Bytes that cannot be compressed.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..count / 8).flat_map(|_| next()).collect()
}

/// Records in `made` a program that reads the file `large`. Also returns its output.
fn recorded(name: &str) -> (Place, String) {
    let place = Place::new(name);
    fs::write(place.work("large"), noise(BYTES)).unwrap();
    let printed = place.run_well(&["record", "-o", "made", "python3", "-c", READ]);
    (place, printed)
}

/// The bytes that the calls of a recording read by reference, and those that are in its log.
fn read_bytes(made: &Path) -> (u64, u64) {
    let recording = Recording::open(made).unwrap();
    let (mut referred, mut logged) = (0, 0);
    for stream in recording.streams() {
        let mut reader = EventReader::new(&recording, stream.info.id).unwrap();
        while let Some(numbered) = reader.next().unwrap() {
            let Some(call) = numbered.event.unwrap().as_call() else { continue };
            if !matches!(call.number(), number::READ | number::PREAD64 | number::PREADV) {
                continue;
            }
            for item in call.items() {
                match item.direction() {
                    ItemDirection::Reference => referred += u64::from(item.total_bytes()),
                    ItemDirection::Output => logged += u64::from(item.total_bytes()),
                    _ => {}
                }
            }
        }
    }
    (referred, logged)
}

/// The path of the stored copy in the recording.
fn stored(place: &Place) -> std::path::PathBuf {
    let files = fs::read_dir(place.work("made/files")).unwrap().flatten();
    files
        .map(|entry| entry.path())
        .find(|path| fs::metadata(path).unwrap().len() == BYTES as u64)
        .expect("a copy of the file")
}

#[test]
fn the_log_refers_to_a_stored_copy() {
    needs!("python3", "leases");
    let (place, printed) = recorded("inputs-refer");
    let (referred, _) = read_bytes(&place.work("made"));
    assert!(referred > BYTES as u64 * 98 / 100, "{referred} of {BYTES} bytes by reference");
    assert!(fs::metadata(place.work("made/events")).unwrap().len() < 1 << 20);
    // The file may change or vanish.
    fs::write(place.work("large"), "something else").unwrap();
    assert_eq!(place.run_within(&["replay", "--check=full", "made"], LIMIT).stdout, printed);
    fs::remove_file(place.work("large")).unwrap();
    assert_eq!(place.run_within(&["replay", "made"], LIMIT).stdout, printed);
    place.run_well(&["info", "--verify", "made"]);
}

#[test]
fn a_packed_recording_has_what_was_read() {
    needs!("python3", "leases");
    let (place, printed) = recorded("inputs-pack");
    place.run_well(&["pack", "made", "-o", "packed"]);
    fs::remove_file(place.work("large")).unwrap();
    fs::remove_dir_all(place.work("made")).unwrap();
    place.run_well(&["info", "--verify", "./packed"]);
    assert_eq!(place.run_within(&["replay", "./packed"], LIMIT).stdout, printed);
    shows_data(&place, "./packed");
    place.run_well(&["unpack", "./packed", "-o", "again"]);
    assert_eq!(place.run_within(&["replay", "./again"], LIMIT).stdout, printed);
}

/// `dump` shows referenced data as if they were in the log. JSON has all of them.
fn shows_data(place: &Place, recording: &str) {
    let lines = place.run_well(&["dump", recording, "--call", "read", "--json"]);
    let read: usize = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["result"] == 1 << 16)
        .map(|event| {
            let data = &event["arguments"][1]["outputs"][0];
            assert_eq!(data["total_bytes"], 1 << 16, "{data}");
            assert!(data["bytes"].is_string() || data["bytes"].is_object(), "{data}");
            data["bytes"].to_string().len() >> 16
        })
        .sum();
    assert!(read >= BYTES >> 16, "{read} whole pieces");
    let text = place.run_well(&["dump", recording, "--call", "read"]);
    let shown = text.lines().filter(|line| line.contains("\"..., 65536) = 65536")).count();
    assert!(shown >= BYTES >> 16, "{shown} lines with data");
}

#[test]
fn dump_shows_what_was_read() {
    needs!("python3", "leases");
    let (place, _) = recorded("inputs-dump");
    shows_data(&place, "made");
}

#[test]
fn a_trace_of_a_recording_has_what_was_read() {
    needs!("python3", "leases");
    let (place, _) = recorded("inputs-trace");
    place.run_well(&["trace", "--from", "made", "-o", "traced.ds"]);
    // Noise cannot be compressed, so the trace is at least as large as the data.
    assert!(fs::metadata(place.work("traced.ds")).unwrap().len() > BYTES as u64);
}

#[test]
fn a_missing_copy_is_noticed() {
    needs!("python3", "leases");
    let (place, _) = recorded("inputs-missing");
    fs::remove_file(stored(&place)).unwrap();
    place.run_badly(&["replay", "made"], 120, &["mapping"]);
    let verified = place.run_within(&["info", "--verify", "made"], LIMIT);
    assert_eq!(verified.status, Some(125), "{verified:?}");
}

/// The copy ends early. Replay must not invent the missing data.
#[test]
fn a_short_copy_is_noticed() {
    needs!("python3", "leases");
    let (place, _) = recorded("inputs-short");
    let copy = stored(&place);
    fs::remove_file(&copy).unwrap();
    fs::write(&copy, noise(BYTES / 2)).unwrap();
    let replayed = place.run_within(&["replay", "made"], LIMIT);
    assert_eq!(replayed.status, Some(120), "{replayed:?}");
    let verified = place.run_within(&["info", "--verify", "made"], LIMIT);
    assert_eq!(verified.status, Some(125), "{verified:?}");
    let told = verified.stdout + &verified.stderr;
    assert!(told.contains("a program read"), "{told}");
    place.run_well(&["dump", "made", "--call", "read", "--json"]);
}

/// A second recording of the same file uses the copy in the store.
#[test]
fn a_file_is_stored_once() {
    needs!("python3", "leases");
    let (place, printed) = recorded("inputs-once");
    assert_eq!(place.run_well(&["record", "-o", "again", "python3", "-c", READ]), printed);
    let inode = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().ino()
    };
    let copy = stored(&place);
    let again = place.work("again/files").join(copy.file_name().unwrap());
    assert_eq!(inode(&copy), inode(&again));
    assert!(read_bytes(&place.work("again")).0 > BYTES as u64 * 98 / 100);
}

/// A process that wants to write waits only until the recorder learns of it.
#[test]
fn writers_outside_get_in() {
    needs!("python3", "leases");
    let place = Place::new("inputs-writers");
    fs::write(place.work("large"), noise(BYTES)).unwrap();
    let script = "import os, time\n\
        file = os.open('large', os.O_RDONLY)\n\
        [os.pread(file, 1 << 16, n << 16) for n in range(100)]\n\
        open('ready', 'w').close()\n\
        while not os.path.exists('written'): os.pread(file, 1 << 16, 0); time.sleep(0.001)\n\
        print(os.pread(file, 1 << 16, 0)[:5])";
    let arguments = ["record", "-o", "made", "python3", "-c", script];
    let mut recorder = Started::new(place.command(&arguments).stdout(Stdio::null()));
    wait_until("the program to have read", LIMIT, || place.work("ready").exists());
    let ask = || {
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(place.work("large"))
    };
    let refused = ask().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock, "{refused}");
    wait_until("the lease to be given up", LIMIT, || ask().is_ok());
    // Without the recorder's consent, the kernel would delay the open for 45 s.
    let begun = std::time::Instant::now();
    fs::write(place.work("large"), [&b"fresh"[..], &noise(BYTES)[..]].concat()).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    fs::write(place.work("written"), "").unwrap();
    assert!(recorder.wait(LIMIT).success());
    assert_eq!(place.run_within(&["replay", "made"], LIMIT).stdout, "b'fresh'\n");
    assert!(read_bytes(&place.work("made")).0 > 0);
}

/// The program prints whether it gets a write lease on the file that it reads.
#[test]
fn a_file_that_is_held_has_no_write_lease() {
    needs!("python3", "leases");
    let place = Place::new("inputs-lease");
    fs::write(place.work("large"), noise(BYTES)).unwrap();
    let script = "import fcntl, os\n\
        file = os.open('large', os.O_RDONLY)\n\
        [os.pread(file, 1 << 16, n << 16) for n in range(100)]\n\
        try: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK); print('granted')\n\
        except BlockingIOError: print('refused')";
    let printed = place.run_well(&["record", "-o", "made", "python3", "-c", script]);
    assert_eq!(printed, "refused\n");
    assert_eq!(place.run_within(&["replay", "made"], LIMIT).stdout, "refused\n");
}

/// There is no lease while another process has the file open for writing.
#[test]
fn without_a_lease_the_log_has_the_bytes() {
    needs!("python3", "leases");
    let place = Place::new("inputs-without");
    fs::write(place.work("large"), noise(BYTES)).unwrap();
    let writer = fs::OpenOptions::new().append(true).open(place.work("large")).unwrap();
    let printed = place.run_well(&["record", "-o", "made", "python3", "-c", READ]);
    drop(writer);
    let (referred, logged) = read_bytes(&place.work("made"));
    assert!(referred == 0 && logged > BYTES as u64, "{referred} and {logged}");
    assert_eq!(place.run_within(&["replay", "made"], LIMIT).stdout, printed);
}

/// Records `rounds` rounds of a program that reads files, and replays it. Processes in the
/// recording and outside change the files meanwhile.
fn race(rounds: &str, seed: u64) {
    let place = Place::new(&format!("inputs-race-{seed}"));
    let program = place.work("races");
    compile_program("inputs/races", &["-O1"], &program);
    let program = program.to_str().unwrap();
    let _stranger = Started::new(&mut place.command_of(program, &["write"]));
    let seed = seed.to_string();
    let arguments = ["record", "-o", "made", "--check=full", program, "read", rounds, &seed];
    let ran = place.run_within(&arguments, LIMIT);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let (referred, logged) = read_bytes(&place.work("made"));
    assert!(referred > 0 && logged > 0, "{referred} bytes by reference, {logged} in the log");
    let replayed = place.run_within(&["replay", "--check=full", "made"], LIMIT);
    assert_eq!((replayed.stderr.as_str(), replayed.stdout), ("", ran.stdout));
}

/// `RETAKE_RACES=10000` runs that many rounds.
#[test]
fn files_that_change_while_they_are_read() {
    needs!("python3", "leases");
    let rounds: u64 =
        std::env::var("RETAKE_RACES").ok().and_then(|count| count.parse().ok()).unwrap_or(200);
    (0..rounds.div_ceil(100)).for_each(|seed| race("100", seed + 1));
}
