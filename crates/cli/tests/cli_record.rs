//! `retake record` and `retake replay` as a user meets them: statuses, output, names, refusals.

mod cli_support;

use retake_testing::c::compiler;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use cli_support::{Place, Ran};
use retake_recording::{Metadata, RecordingWriter};

/// The time limit for commands that examine much at first.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn both_end_as_the_program_ends() {
    let place = Place::new("statuses");
    let cases: [(&[&str], Option<i32>, Option<i32>); 5] = [
        (&["true"], Some(0), None),
        (&["false"], Some(1), None),
        (&["sh", "-c", "exit 42"], Some(42), None),
        (&["sh", "-c", "kill -SEGV $$"], None, Some(11)),
        (&["sh", "-c", "kill -KILL $$"], None, Some(9)),
    ];
    for (program, status, signal) in cases {
        let record: Vec<&str> = ["record"].iter().chain(program).copied().collect();
        for arguments in [&record[..], &["replay"]] {
            let ran = place.run(arguments);
            assert_eq!((ran.status, ran.signal), (status, signal), "{ran:?}");
            assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""), "{ran:?}");
        }
    }
    assert_eq!(place.scratch(), [""; 0]);
}

/// A recording has only the files that its own run mapped, whatever the previous run mapped.
#[test]
fn files_are_expected_but_not_kept_in_vain() {
    let (place, fresh) = (Place::new("foresight"), Place::new("foresight-fresh"));
    let record = |place: &Place, name: &str, script: &str| {
        let ran = place.run(&["record", "-o", name, "sh", "-c", script]);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        place.files_of(name)
    };
    let expected = || {
        let folder = fs::read_dir(place.work("../retake/store/cache/foresight")).unwrap();
        let files: Vec<_> =
            folder.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
        assert_eq!(files.len(), 1, "one program was recorded");
        files[0]
            .split('\0')
            .map(|path| path.rsplit('/').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let images = || fs::read_dir(place.work("../retake/store/cache/images")).unwrap().count();
    let both = record(&place, "both", "ls / > /dev/null; true");
    let made = images();
    assert!(expected().contains(&"ls".to_owned()), "{:?}", expected());
    for name in ["one", "again"] {
        let one = record(&place, name, "true");
        assert_eq!(one, record(&fresh, name, "true"));
        assert!(one.len() < both.len() && one.iter().all(|file| both.contains(file)));
        assert!(!expected().contains(&"ls".to_owned()), "{:?}", expected());
        assert_eq!(place.run(&["replay", name, "--check=full"]).status, Some(0));
    }
    assert_eq!(images(), made, "what was expected is patched as it was the last time");
    assert_eq!(place.run(&["replay", "both", "--check=full"]).status, Some(0));
}

/// Sanitizers reserve terabytes at fixed addresses, and refuse to run if anything else is there.
#[test]
fn programs_built_with_sanitizers_record_and_replay() {
    let place = Place::new("sanitizers");
    let source = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        static void *work(void *shared) { return __atomic_add_fetch((int *)shared, 1, 0) ? shared : 0; }
        int main(void) {
            int *shared = calloc(1, sizeof *shared);
            pthread_t thread;
            pthread_create(&thread, 0, work, shared);
            pthread_join(thread, 0);
            printf("%d\n", *shared);
            free(shared);
            return 0;
        }"#;
    fs::write(place.work("threads.c"), source).unwrap();
    for sanitizer in ["thread", "address,undefined"] {
        let flag = format!("-fsanitize={sanitizer}");
        let built = place
            .command_of(&compiler(), &["-g", "-pthread", &flag, "threads.c", "-o", "threads"])
            .status()
            .unwrap();
        assert!(built.success(), "{flag}");
        for arguments in [&["record", "--check=full", "./threads"][..], &["replay", "--check=full"]]
        {
            let ran = place.run_command(arguments, LONG, |command| {
                command.env("ASAN_OPTIONS", "detect_leaks=0");
            });
            assert_eq!(
                (ran.status, ran.stdout.as_str(), ran.stderr.as_str()),
                (Some(0), "1\n", ""),
                "{ran:?}"
            );
        }
    }
}

#[test]
fn what_cannot_run_ends_as_in_a_shell_and_leaves_nothing() {
    let place = Place::new("not-found");
    fs::write(place.work("data"), "\0\0\0").unwrap();
    fs::write(place.work("bad"), "\0\0\0").unwrap();
    fs::set_permissions(place.work("bad"), Permissions::from_mode(0o755)).unwrap();
    place.run_badly(&["record", "no-such-program"], 127, &["no-such-program"]);
    place.run_badly(&["record", "./no-such-program"], 127, &["./no-such-program"]);
    place.run_badly(&["record", "./data"], 126, &["./data", "Permission denied"]);
    place.run_badly(&["record", "."], 126, &[]);
    // The kernel refuses to execute this file only when everything is prepared.
    place.run_badly(&["record", "./bad"], 126, &["./bad"]);
    let left: Vec<String> = place.recordings();
    assert!(left.iter().all(|name| name == "latest"), "{left:?}");
}

#[test]
fn recording_is_transparent() {
    let place = Place::new("transparent");
    let script = "cat; echo out; echo err >&2; echo \"$HOME $0\"; pwd";
    let mut command = place.command(&["record", "sh", "-c", script]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"in\n").unwrap();
    let recorded = Ran::of(child.wait_with_output().unwrap(), &[]);
    let home = place.work("..").canonicalize().unwrap();
    let work = place.work("").canonicalize().unwrap();
    let expected = format!("in\nout\n{} sh\n{}\n", home.display(), work.display());
    assert_eq!(recorded.stdout, expected, "{recorded:?}");
    assert_eq!(recorded.stderr, "err\n");
    let replayed = place.run(&["replay"]);
    assert_eq!((replayed.stdout, replayed.stderr), (recorded.stdout, recorded.stderr));
    let quiet = place.run(&["replay", "--quiet"]);
    assert_eq!((quiet.status, quiet.stdout, quiet.stderr), (Some(0), String::new(), String::new()));
}

#[test]
fn recordings_are_named_and_kept_where_they_should_be() {
    let place = Place::new("names");
    place.run_well(&["record", "echo", "one"]);
    place.run_well(&["record", "/bin/echo", "two"]);
    assert_eq!(place.recordings(), ["echo-1", "echo-2", "latest"]);
    let mode = fs::metadata(place.recording("echo-1")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(place.run_well(&["replay"]), "two\n");
    assert_eq!(place.run_well(&["replay", "latest"]), "two\n");
    assert_eq!(place.run_well(&["replay", "echo-1"]), "one\n");
    let path = place.recording("echo-1");
    assert_eq!(place.run_well(&["replay", path.to_str().unwrap()]), "one\n");
}

#[test]
fn the_place_can_be_chosen() {
    let place = Place::new("chosen");
    fs::create_dir(place.work("empty")).unwrap();
    place.run_well(&["record", "-o", "new", "echo", "a"]);
    place.run_well(&["record", "--output=empty", "echo", "b"]);
    assert_eq!(place.run_well(&["replay", "./new"]), "a\n");
    assert_eq!(place.run_well(&["replay", "empty"]), "b\n");
    fs::create_dir(place.work("full")).unwrap();
    fs::write(place.work("full/file"), "kept").unwrap();
    for folder in ["full", "new"] {
        place.run_badly(&["record", "-o", folder, "echo"], 125, &["exists already", "try"]);
    }
    assert_eq!(fs::read(place.work("full/file")).unwrap(), b"kept");
}

#[test]
fn options_end_at_the_program() {
    let place = Place::new("options");
    assert_eq!(place.run_well(&["record", "echo", "-o", "--", "--check=x"]), "-o -- --check=x\n");
    assert_eq!(place.run_well(&["record", "--check=full", "--", "echo", "--"]), "--\n");
    assert_eq!(place.run_well(&["replay", "--check=full"]), "--\n");
    assert_eq!(
        place.run_well(&["record", "--no-fast-path", "--check=off", "echo", "slow"]),
        "slow\n"
    );
    assert_eq!(place.run_well(&["replay", "--check=off"]), "slow\n");
    place.run_badly(&["record", "--nonsense", "echo"], 125, &["--nonsense"]);
    place.run_badly(&["record"], 125, &["COMMAND"]);
    place.run_badly(&["replay", "--check=never"], 125, &["full, sampled, off"]);
}

#[test]
fn a_script_without_an_interpreter_runs_as_in_a_shell() {
    let place = Place::new("bare-script");
    fs::write(place.work("script"), "echo \"$0 $1\"\n").unwrap();
    fs::set_permissions(place.work("script"), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(place.run_well(&["record", "./script", "x"]), "./script x\n");
    assert_eq!(place.recordings(), ["latest", "script-1"]);
}

#[test]
fn nothing_to_replay_is_said_clearly() {
    let place = Place::new("nothing");
    place.run_badly(&["replay"], 125, &["nothing has been recorded yet"]);
    place.run_badly(&["replay", "nosuch"], 125, &["nosuch", "retake ls"]);
    fs::write(place.work("junk"), "this is no recording at all, whatever it may be").unwrap();
    place.run_badly(&["replay", "junk"], 125, &["junk", "is not a recording"]);
}

#[test]
fn recordings_of_other_builds_and_machines_are_refused() {
    let place = Place::new("foreign");
    place.run_well(&["record", "-o", "good", "true"]);
    let good = retake_recording::Recording::open(&place.work("good")).unwrap();
    let make = |name: &str, change: fn(&mut Metadata)| {
        let mut metadata = good.metadata().clone();
        change(&mut metadata);
        RecordingWriter::create(&place.work(name), &metadata).unwrap();
    };
    make("runtime", |metadata| metadata.runtime_hash = "0123456789abcdef".to_owned());
    make("contract", |metadata| {
        (metadata.contract_hash, metadata.contract_version) = ("1".to_owned(), 0);
    });
    make("newer", |metadata| {
        metadata.contract_hash.clear();
        metadata.contract_revision += 1;
    });
    make("other", |metadata| {
        metadata.contract_hash.clear();
        metadata.contract_version += 1;
    });
    make("table", |metadata| metadata.table_hash.clear());
    make("known", |metadata| metadata.contract_hash.clear());
    make("machine", |metadata| metadata.machine.features_needed.push("no_such_unit".to_owned()));
    make("empty", |_| {});
    place.run_badly(&["replay", "runtime"], 125, &["runtime 0123456789ab", "try"]);
    let refused = ["made by retake 0", "the retake that made it"];
    place.run_badly(&["replay", "contract"], 125, &refused);
    let refused = ["made by retake 0", "a newer retake"];
    place.run_badly(&["replay", "newer"], 125, &refused);
    place.run_badly(&["replay", "other"], 125, &refused);
    // Their runtime brings its own table, and its contract is known.
    place.run_badly(&["replay", "table"], 125, &["empty"]);
    place.run_badly(&["replay", "known"], 125, &["empty"]);
    place.run_badly(&["replay", "machine"], 125, &["no_such_unit", "try"]);
    place.run_badly(&["replay", "empty"], 125, &["empty"]);
    let info = place.run(&["info", "machine"]);
    assert!(info.stdout.contains("this processor lacks no_such_unit"), "{info:?}");
}
