//! What a program inherits from the process that started its recorder: closed descriptors, limits,
//! prohibitions. Also unusual places to start from.

mod cli_support;

use std::time::Duration;

use cli_support::{Place, Ran, compile_fault};
use retake_testing::needs;

const LIMIT: Duration = Duration::from_secs(30);

/// Runs a shell script. `$0` is retake.
fn shell(place: &Place, script: &str) -> Ran {
    let output = place.command_of("sh", &["-c", script]).arg(env!("CARGO_BIN_EXE_retake")).output();
    Ran::of(output.unwrap(), &["sh"])
}

/// A script that writes the program's open descriptors to `seen`, without the one that it uses
/// itself.
const OPEN: &str = "import os
print([n for n in range(10) if os.path.exists(f'/proc/self/fd/{n}')], file=open('seen', 'w'))";

#[test]
fn standard_descriptors_that_are_closed_are_closed_for_the_program() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let place = Place::new("closed");
        let native = shell(&place, &format!("python3 -c \"{OPEN}\" {closed}; cat seen; rm seen"));
        let script = format!(
            "\"$0\" record -- python3 -c \"{OPEN}\" {closed}; cat seen; rm seen; \"$0\" replay"
        );
        let recorded = shell(&place, &script);
        assert_eq!(recorded.status, Some(0), "{closed}: {recorded:?}");
        assert_eq!(recorded.stdout, native.stdout, "{closed}");
    }
}

#[test]
fn writing_to_a_closed_output_fails_as_it_does() {
    let place = Place::new("closed-write");
    let script = "\"$0\" record -o made sh -c 'echo x || echo failed >&2' >&-; \"$0\" replay made";
    let ran = shell(&place, script);
    assert_eq!(ran.stderr.matches("failed\n").count(), 2, "{ran:?}");
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn limits_are_the_programs() {
    let place = Place::new("limits-handed-on");
    for (limit, value) in [("n", "64"), ("v", "400000"), ("s", "4096"), ("f", "100000"), ("c", "0")]
    {
        let script = format!("ulimit -{limit} {value}; \"$0\" record sh -c 'ulimit -{limit}'");
        let ran = shell(&place, &script);
        assert_eq!((ran.status, ran.stdout.trim()), (Some(0), value), "-{limit}: {ran:?}");
        assert_eq!(place.run_within(&["replay"], LIMIT).stdout.trim(), value);
    }
}

#[test]
fn limits_that_leave_too_little_are_named() {
    let place = Place::new("limits-too-low");
    for (limit, little, enough) in [("n", 31, 32), ("v", 60_000, 98_304)] {
        let record =
            |value: u32| shell(&place, &format!("ulimit -{limit} {value}; \"$0\" record true"));
        let ran = record(little);
        assert_eq!(ran.status, Some(125), "{ran:?}");
        assert!(ran.stderr.contains(&format!("ulimit -{limit} {enough}, or more")), "{ran:?}");
        // The advised limit is enough.
        let ran = record(enough);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
}

#[test]
fn memory_that_was_written_may_never_become_executable() {
    let place = Place::new("mdwe");
    let program = compile_fault(&place, "no_exec_gain", &[]);
    let recorded = place.run_within(&["record", &program], LIMIT);
    assert_eq!(recorded.status, Some(0), "{recorded:?}");
    assert_eq!(recorded.stdout.matches("mprotect 13").count(), 3, "{recorded:?}");
    let replayed = place.run_within(&["replay"], LIMIT);
    assert_eq!((replayed.status, replayed.stdout), (Some(0), recorded.stdout));
}

#[test]
fn interpreters_run_where_nothing_becomes_executable() {
    let place = Place::new("mdwe-python");
    let script = "import ctypes, subprocess, sys
if len(sys.argv) < 2:
    assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0
    sys.exit(subprocess.call([sys.executable, sys.argv[0], 'again']))
import hashlib, ssl, time
print(time.time(), hashlib.sha256(b'x').hexdigest())
";
    std::fs::write(place.work("script.py"), script).unwrap();
    let recorded = place.run_within(&["record", "python3", "script.py"], LIMIT);
    assert_eq!(recorded.status, Some(0), "{recorded:?}");
    let replayed = place.run_within(&["replay"], LIMIT);
    assert_eq!((replayed.status, replayed.stdout), (Some(0), recorded.stdout));
}

#[test]
fn a_recorder_that_is_recorded_says_so() {
    let place = Place::new("nested");
    place.run_well(&["record", "-o", "inner", "echo", "hello"]);
    let retake = env!("CARGO_BIN_EXE_retake");
    for command in [&["record", "true"][..], &["replay", "inner"]] {
        let ran = place.run_within(&[&["record", "--", retake], command].concat(), LIMIT);
        assert_eq!(ran.status, Some(125), "{ran:?}");
        assert!(ran.stderr.contains("itself being recorded"), "{command:?}: {ran:?}");
    }
}

#[test]
fn a_program_that_somebody_else_traces_is_told_by_the_tracers_name() {
    needs!("strace");
    let place = Place::new("traced");
    let ran = shell(&place, "strace -f -o /dev/null \"$0\" record true");
    assert_eq!(ran.status, Some(125), "{ran:?}");
    assert!(ran.stderr.contains("strace (process "), "{ran:?}");
}

#[test]
fn a_store_may_lie_where_nothing_can_be_executed() {
    needs!("mounts", "unshare", "gcc");
    let place = Place::new("noexec");
    let program = compile_fault(&place, "executable_file", &[]);
    let script = format!(
        "mkdir -p apart && mount -t tmpfs -o noexec none apart && cd apart &&
         export TMPDIR=\"$PWD\" RETAKE_DIR=\"$PWD\" &&
         \"$0\" record -o made {program} && \"$0\" replay made && \"$0\" pack made &&
         \"$0\" replay made.retake && \"$0\" backtrace made >/dev/null"
    );
    let output = place
        .command_of("unshare", &["-m", "sh", "-c", &script])
        .arg(env!("CARGO_BIN_EXE_retake"))
        .output()
        .unwrap();
    let ran = Ran::of(output, &["unshare"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.matches("executed 42\n").count(), 3, "{ran:?}");
}

/// Each file system numbers its files anew, so these two files have the same inode number.
#[test]
fn a_file_is_not_taken_for_the_output_because_of_its_number() {
    needs!("mounts", "unshare");
    let place = Place::new("same-number");
    let script = "mkdir -p one other && for folder in one other; do
             mount -t tmpfs -o inode64 none $folder && : > $folder/file || exit 3
         done
         test $(stat -c %i one/file) = $(stat -c %i other/file) || exit 4
         \"$0\" record -o made sh -c 'echo written > other/file; echo printed' > one/file &&
         cat one/file && \"$0\" replay made";
    let output = place
        .command_of("unshare", &["-m", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_retake"))
        .output()
        .unwrap();
    let ran = Ran::of(output, &["unshare"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "printed\nprinted\n"), "{ran:?}");
}
