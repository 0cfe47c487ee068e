//! Recording to a disk that gets full. The program waits or is ended, as the options say. The
//! recorder obeys INT and TERM at any time.

mod cli_support;

use std::fs;
use std::time::{Duration, Instant};

use cli_support::started::{guardian_of, start_recording, wait_for_output};
use cli_support::{Place, Ran, compile_fault};
use retake_testing::needs;

/// The time in which a recorder must obey a signal, on a busy machine.
const SOON: Duration = Duration::from_secs(4);
/// The time limit of all waits.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a script with a small file system at `disk`, where recordings are made. `$0` is retake.
fn with_small_disk(place: &Place, megabytes: u32, script: &str) -> Ran {
    fs::create_dir(place.work("disk")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size={megabytes}m none disk || {{ echo cannot mount; exit; }}
        RETAKE_DIR=$PWD/disk/retake; export RETAKE_DIR
        {script}"
    );
    let limit = ["-k", "5", "100", "unshare", "-m", "sh", "-c", &script];
    let mut shell = place.command_of("timeout", &limit);
    let output = shell.arg(env!("CARGO_BIN_EXE_retake")).output();
    Ran::of(output.unwrap(), &["full-disk"])
}

#[test]
fn a_full_disk_stops_the_program_until_there_is_space() {
    needs!("root", "mounts");
    let place = Place::new("full-disk");
    // The script prints what the assertions below look for.
    let script = r#"
        program='head -c 8000000 /dev/urandom | cksum'
        "$0" record sh -c 'head -c 1 /dev/zero | cksum > /dev/null' || exit
        cat /dev/zero > disk/filler 2> /dev/null
        truncate -s -2M disk/filler
        "$0" record sh -c "$program" > out 2> errors &
        i=0
        while ! grep -q 'stopped until there is space' errors; do
            i=$((i+1)); [ $i -lt 100 ] || { echo no message; kill $!; exit; }
            sleep 0.1
        done
        "$0" replay > so-far 2> so-far-errors; echo "so far: $?"
        cat so-far-errors
        sleep 0.5
        [ -s out ] && echo was not stopped
        rm disk/filler
        wait $!; echo "recorded: $?"
        "$0" replay > again; echo "replayed: $?"
        cmp out again && [ -s out ] && echo same
        cat errors"#;
    let ran = with_small_disk(&place, 64, script);
    for part in [
        "stopped until there is space",
        "there is space again",
        "recorded: 0",
        "replayed: 0",
        "same",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is not in {ran:?}");
    }
    for part in ["was not stopped", "error: ", "so far: 120", "so far: 125"] {
        assert!(!ran.stdout.contains(part), "{part:?} is in {ran:?}");
    }
}

/// A program that reads more than there is space for, until it is ended.
const ENDLESS: &str = "cat /dev/urandom > /dev/null";

#[test]
fn who_waits_for_space_obeys() {
    needs!("root", "mounts");
    for signal in ["INT", "TERM"] {
        let place = Place::new(&format!("full-{signal}"));
        let script = format!(
            r#""$0" record sh -c "{ENDLESS}" 2> errors &
            i=0
            while ! grep -q 'stopped until there is space' errors; do
                i=$((i+1)); [ $i -lt 200 ] || {{ echo no message; kill -9 $!; exit; }}
                sleep 0.1
            done
            kill -{signal} $!
            date +%s%N; wait $!; echo "recorded: $?"; date +%s%N
            rm -f disk/filler
            "$0" replay > /dev/null 2> so-far; echo "replayed: $?"
            cat errors so-far"#
        );
        let ran = with_small_disk(&place, 4, &script);
        let moments: Vec<u128> = ran.stdout.lines().filter_map(|line| line.parse().ok()).collect();
        assert_eq!(moments.len(), 2, "{ran:?}");
        assert!(moments[1] - moments[0] < SOON.as_nanos(), "{ran:?}");
        assert!(ran.stdout.contains("the program is ended; what was recorded"), "{ran:?}");
        let status = |what: &str| {
            ran.stdout.lines().find_map(|line| line.strip_prefix(what).map(str::to_owned))
        };
        assert!(
            status("recorded: ").is_some_and(|status| status.parse().is_ok_and(|s: u32| s > 128))
        );
        // The disk may have had no space for the status.
        let replayed = status("replayed: ");
        assert!(replayed == status("recorded: ") || replayed.as_deref() == Some("137"), "{ran:?}");
        assert!(!ran.stdout.contains("error: "), "{ran:?}");
        assert_eq!(ran.stdout.matches("no space left").count(), 2, "said once each: {ran:?}");
    }
}

#[test]
fn a_program_may_be_ended_when_the_disk_is_full() {
    needs!("root", "mounts");
    let place = Place::new("full-end");
    let began = Instant::now();
    let script = format!(
        r#""$0" record --on-full end sh -c "{ENDLESS}" 2> errors; echo "recorded: $?"
        "$0" replay > /dev/null 2> so-far; echo "replayed: $?"
        cat errors so-far"#
    );
    let ran = with_small_disk(&place, 4, &script);
    assert!(began.elapsed() < 5 * SOON, "{:?}", began.elapsed());
    for part in ["recorded: 137", "replayed: 137", "the program is ended"] {
        assert!(ran.stdout.contains(part), "{part:?} is not in {ran:?}");
    }
    assert!(!ran.stdout.contains("error: "), "{ran:?}");
}

#[test]
fn the_oldest_may_be_dropped_when_the_disk_is_full() {
    needs!("root", "mounts");
    let place = Place::new("full-drop");
    let script = r#"
        "$0" record --on-full drop-oldest sh -c 'for i in $(seq 40); do
            head -c 500000 /dev/urandom | cksum > /dev/null; done; echo over' 2> errors
        echo "recorded: $?"
        "$0" replay 2> notes; echo "replayed: $?"
        cat errors notes"#;
    let ran = with_small_disk(&place, 16, script);
    for part in ["recorded: 0", "replayed: 0"] {
        assert!(ran.stdout.contains(part), "{part:?} is not in {ran:?}");
    }
    assert_eq!(ran.stdout.matches("over\n").count(), 2, "{ran:?}");
    assert!(!ran.stdout.contains("stopped until"), "{ran:?}");
}

/// Parts of the streams are lost, while later events find space again.
#[test]
fn a_disk_that_was_full_leaves_what_replays() {
    needs!("root", "mounts");
    let place = Place::new("full-then-empty");
    let program = compile_fault(&place, "printers", &[]);
    let script = format!(
        r#""$0" record true
        cat /dev/zero > disk/filler 2> /dev/null
        truncate -s -6M disk/filler
        "$0" record sh -c "trap '' TERM; exec {program}" > out 2> errors &
        i=0
        while ! grep -q 'stopped until there is space' errors; do
            i=$((i+1)); [ $i -lt 200 ] || {{ echo no message; kill -9 $!; exit; }}
            sleep 0.1
        done
        kill -TERM $!
        while ! grep -q 'the program is ended' errors; do sleep 0.02; done
        rm disk/filler
        wait $!; echo "recorded: $?"
        "$0" replay > again 2> notes; echo "replayed: $?"
        head -c $(stat -c %s again) out | cmp - again && [ -s again ] && echo a beginning
        cat notes"#
    );
    let ran = with_small_disk(&place, 64, &script);
    for part in ["recorded: 137", "replayed: 137", "a beginning", "recording was cut off"] {
        assert!(ran.stdout.contains(part), "{part:?} is not in {ran:?}");
    }
}

/// Messages that cannot be written are lost, with no other effect.
#[test]
fn messages_that_cannot_be_written_end_nothing() {
    let place = Place::new("full-messages");
    let script = r#"
        "$0" record -o made sh -c 'echo error >&2; echo $?' 2> /dev/full; echo "recorded: $?"
        "$0" replay made 2> /dev/full; echo "replayed: $?"
        "$0" info ./nothing 2> /dev/full; echo "refused: $?""#;
    let mut shell = place.command_of("sh", &["-c", script]);
    let ran = Ran::of(shell.arg(env!("CARGO_BIN_EXE_retake")).output().unwrap(), &["full"]);
    assert_eq!(ran.stdout, "1\nrecorded: 0\n1\nreplayed: 0\nrefused: 125\n", "{ran:?}");
}

/// An open file would keep the space of dropped events occupied.
#[test]
fn the_guardian_has_no_file_of_the_recording_open() {
    let place = Place::new("full-guardian");
    let printed = place.work("printed");
    let mut recorder = start_recording(&place, &["sh", "-c", "echo begun; sleep 2"], &printed);
    wait_for_output(&printed, 1, LIMIT);
    let folder = format!("/proc/{}/fd", guardian_of(&recorder).as_raw_pid());
    let made = place.work("made");
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let shown = fs::read_link(entry.path()).unwrap_or_default();
        assert!(!shown.starts_with(&made), "{shown:?}");
    }
    assert!(recorder.wait(LIMIT).success());
}
