//! The commands that list, examine, pack and remove recordings.

mod cli_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use cli_support::Place;
use serde_json::Value;

fn place_with_tree(test: &str) -> Place {
    let place = Place::new(test);
    let ran = place.run(&["record", "sh", "-c", "ls /nosuch; (exit 3); /bin/echo end | cat"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "end\n"), "{ran:?}");
    place
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

#[test]
fn ls_lists() {
    let place = Place::new("ls");
    assert!(place.run(&["ls"]).stderr.contains("nothing is recorded"));
    assert_eq!(place.run_json(&["ls", "--json"])["recordings"], Value::Array(vec![]));
    place.run_well(&["record", "true"]);
    place.run(&["record", "sh", "-c", "kill -TERM $$"]);
    let listed = place.run_json(&["ls", "--json"]);
    let rows = &listed["recordings"];
    let names: Vec<_> = array(rows).iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sh-1", "true-1"]);
    assert_eq!(rows[0]["metadata"]["outcome"]["exit"]["killed"], 15);
    assert_eq!((&rows[0]["is_latest"], &rows[1]["is_latest"]), (&true.into(), &false.into()));
    let text = place.run_well(&["ls"]);
    let sh = text.lines().find(|line| line.starts_with("sh-1")).unwrap();
    assert!(sh.contains("SIGTERM") && sh.ends_with("sh -c 'kill -TERM $$'"), "{text}");
    assert!(!text.contains('\x1b'), "no colour where nobody looks");
}

#[test]
fn info_tells_everything() {
    let place = place_with_tree("info");
    let info = place.run_json(&["info", "--json", "--calls", "--verify"]);
    assert_eq!(info["metadata"]["arguments"][0], "sh");
    assert_eq!(info["metadata"]["outcome"]["exit"]["exited"], 0);
    assert_eq!(info["warnings"], Value::Array(vec![]));
    assert_eq!(info["obstacles"], Value::Array(vec![]));
    assert!(info["content_count"].as_u64().unwrap() >= 3, "{info}");
    assert!(info["without_stop_percent"].as_f64().unwrap() > 90.0, "{info}");
    assert_eq!(info["calls"]["execve"]["count"], 3, "{}", info["calls"]);
    assert_eq!(info["calls"]["execve"]["errors"], 0);
    let text = place.run_well(&["info", "--calls"]);
    for part in ["command     sh -c 'ls /nosuch;", "ptrace stops", "CALLS  ERRORS  NAME"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn ps_shows_the_tree() {
    let place = place_with_tree("ps");
    let processes = place.run_json(&["ps", "--json"]);
    let ended_with = |program: &str, status: i64| {
        array(&processes).iter().any(|process| {
            process["program"].as_str().unwrap().ends_with(program)
                && process["end"]["exited"] == status
        })
    };
    for (program, status) in [("/ls", 2), ("/sh", 3), ("/echo", 0), ("/cat", 0), ("/sh", 0)] {
        assert!(ended_with(program, status), "{program} {status}: {processes}");
    }
    let root = &processes[0];
    assert_eq!(root["parent_pid"], Value::Null);
    for child in &array(&processes)[1..] {
        assert_eq!(child["parent_pid"], root["pid"], "{processes}");
    }
    let text = place.run_well(&["ps"]);
    assert!(
        text.lines().nth(2).unwrap().ends_with("├─ /usr/bin/ls /nosuch")
            || text.contains("├─ /bin/ls /nosuch"),
        "{text}"
    );
    assert!(text.lines().last().unwrap().contains("└─ "), "{text}");
}

#[test]
fn dump_shows_events_and_filters_them() {
    let place = place_with_tree("dump");
    let text = place.run_well(&["dump"]);
    assert!(text.starts_with("# stream 0: process "), "{text}");
    assert!(
        text.lines()
            .any(|line| line.contains("[\"ls\", \"/nosuch\"], ") && line.contains(" vars */")),
        "{text}"
    );
    let lines = place.run_well(&["dump", "--json", "--call", "write"]);
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["call"] == "write"));
    let written = events.iter().find(|event| event["console"]["to"] == "stdout").unwrap();
    assert_eq!(written["result"], 4);
    let text = written["text"].as_str().unwrap();
    assert_eq!(text, "write(1, \"end\\n\", 4) = 4");
    let pid = written["pid"].to_string();
    let of_process = place.run_well(&["dump", "--pid", &pid, "--range", "..4"]);
    assert_eq!(of_process.lines().count(), 5, "{of_process}");
    let around = place.run_well(&["dump", "--stream", "0", "--around", "20"]);
    assert_eq!(around.lines().count(), 22, "{around}");
    let exits = place.run_well(&["dump", "--kind", "exit", "--stream", "0"]);
    assert_eq!(exits.lines().count(), 2, "{exits}");
    assert!(exits.contains("exited with 0"), "{exits}");
    for bad in [
        &["--call", "reed"][..],
        &["--range", "5"],
        &["--range", "9..5"],
        &["--around", "999999"],
        &["--pid", "1"],
        &["--kind", "x"],
    ] {
        let arguments: Vec<&str> = ["dump"].iter().chain(bad).copied().collect();
        place.run_badly(&arguments, 125, &[]);
    }
}

#[test]
fn a_packed_recording_replays_alone_and_unpacks() {
    let place = place_with_tree("pack");
    let printed = place.run_well(&["pack"]);
    assert!(printed.starts_with("sh-1.retake ("), "{printed}");
    place.run_badly(&["pack", "sh-1"], 125, &["exists already", "-o"]);
    place.run_well(&["rm", "sh-1"]);
    assert_eq!(place.recordings(), [""; 0]);
    for _ in 0..2 {
        let replayed = place.run(&["replay", "./sh-1.retake"]);
        assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(0), "end\n"), "{replayed:?}");
    }
    assert_eq!(place.scratch(), [""; 0]);
    place.run_well(&["unpack", "sh-1.retake"]);
    place.run_well(&["unpack", "sh-1.retake", "-o", "here"]);
    place.run_badly(&["unpack", "sh-1.retake"], 125, &["exists already", "-o"]);
    for recording in ["sh-1", "./here"] {
        let replayed = place.run(&["replay", recording]);
        assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(0), "end\n"), "{replayed:?}");
    }
    place.run_well(&["rm", "here", "latest", "./sh-1.retake"]);
    assert!(!place.work("here").exists() && !place.work("sh-1.retake").exists());
}

#[test]
fn only_recordings_are_removed() {
    let place = Place::new("rm");
    place.run_well(&["record", "true"]);
    place.run_well(&["record", "true"]);
    fs::write(place.work("file"), "kept").unwrap();
    fs::write(place.recording("true-1").join("notes"), "kept").unwrap();
    place.run_badly(
        &["rm", "file", "true-1", "nosuch", "true-2"],
        125,
        &["file", "notes", "nosuch"],
    );
    assert!(place.work("file").exists());
    assert_eq!(place.recordings(), ["latest", "true-1"]);
}

#[test]
fn damage_is_told_and_the_rest_is_shown() {
    let place = place_with_tree("damage");
    let events = place.recording("sh-1/events");
    let whole = fs::read(&events).unwrap();
    let cuts = (1..8).map(|part| whole[..whole.len() * part / 8].to_vec());
    let flips = (0..8).map(|part| {
        let mut bytes = whole.clone();
        let at = whole.len() * (2 * part + 1) / 16;
        bytes[at] ^= 0x40;
        bytes
    });
    const COMMANDS: [&str; 4] = ["dump", "ps", "info", "replay"];
    let undamaged = COMMANDS.map(|command| place.run(&[command, "latest"]).stdout);
    for bytes in cuts.chain(flips) {
        fs::write(&events, bytes).unwrap();
        let verified = place.run(&["info", "--verify"]);
        assert_eq!(verified.status, Some(125), "{verified:?}");
        for (command, undamaged) in COMMANDS.into_iter().zip(&undamaged) {
            let ran = place.run(&[command, "latest"]);
            // A replay may be killed at the end of the recording.
            let is_expected = matches!(ran.status, Some(0 | 120 | 125)) || ran.signal == Some(9);
            let is_told = ran.stderr.contains("error: ")
                || ran.stderr.contains("warning: ")
                || ran.stdout.contains("warning ");
            // A command that does not read the damaged place prints its complete output.
            assert!(is_expected && (is_told || ran.stdout == *undamaged), "{ran:?}");
        }
    }
    fs::write(&events, "").unwrap();
    place.run_badly(&["dump"], 125, &["is not a recording"]);
    let listed = place.run_json(&["ls", "--json"]);
    assert_eq!(array(&listed["recordings"]).len(), 1);
}

#[test]
fn a_closed_pipe_is_nothing_to_talk_about() {
    let place = place_with_tree("pipe");
    let mut command = place.command(&["dump", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(13), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_doctor_looks_and_says() {
    let place = Place::new("doctor");
    let ran = place.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let is_missing = |check: &Value| check["state"] == "missing";
    let can_record = !array(&report["checks"]).iter().any(is_missing);
    assert_eq!(report["can_record"], can_record);
    assert_eq!(ran.status, Some(if can_record { 0 } else { 125 }), "{ran:?}");
    assert!(can_record, "the other tests of this file need it: {report}");
    assert!(place.run(&["doctor"]).stdout.contains("kernel"));
    assert_eq!(place.recordings(), [""; 0]);
}

/// The standard error of a command that must fail with status 125. It has no other variables that
/// say where recordings are kept.
fn refused(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = place.command(arguments);
    for name in ["RETAKE_DIR", "XDG_DATA_HOME", "HOME"] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = format!("{}{}", text_of(&output.stdout), text_of(&output.stderr));
    assert_eq!(output.status.code(), Some(125), "{arguments:?} {variables:?}: {text}");
    text
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn who_cannot_write_recordings_is_told_what_to_type() {
    let place = Place::new("read-only");
    let packed = place.work("true.retake").display().to_string();
    place.run_well(&["record", "true"]);
    place.run_well(&["pack", "-o", &packed]);
    // Nobody makes folders below a file, not even root.
    let (no_folder, home) = ("/dev/null", place.work("").display().to_string());
    for arguments in [&["record", "true"][..], &["unpack", &packed], &["doctor"]] {
        for variables in [&[("HOME", no_folder)][..], &[("HOME", "relative")], &[]] {
            let text = refused(&place, arguments, variables);
            assert!(
                text.contains("try  ") && text.contains("RETAKE_DIR=\"$(mktemp -d)\""),
                "{text}"
            );
        }
        let text = refused(&place, arguments, &[("HOME", &home), ("RETAKE_DIR", no_folder)]);
        assert!(text.contains("  export RETAKE_DIR=\"$HOME/recordings\""), "{text}");
    }
}

#[test]
fn the_doctor_tries_whether_gdb_runs() {
    let place = Place::new("doctor-gdb");
    let gdb = place.work("gdb");
    for (script, trouble) in [
        ("echo libmissing.so: no such file >&2; exit 127", "does not start: libmissing.so"),
        ("echo --without-python", "without Python"),
    ] {
        fs::write(&gdb, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&gdb, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", place.work("").display());
        let output = place.command(&["doctor"]).env("PATH", path).output().unwrap();
        let text = text_of(&output.stdout);
        let line = text.lines().find(|line| line.contains(" gdb ")).unwrap_or_default();
        assert!(line.starts_with("limited") && line.contains(trouble), "{text}");
    }
}

#[test]
fn shells_and_manuals_are_served() {
    let place = Place::new("manuals");
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.run_well(&["completions", shell]).contains("RETAKE_COMPLETE"));
    }
    place.run_well(&["man", "pages"]);
    let page = fs::read_to_string(place.work("pages/retake-record.1")).unwrap();
    assert!(page.contains(".TH"), "{page}");
    let help = place.run_well(&["--help"]);
    assert!(help.contains("Exit status:") && help.contains("120"), "{help}");
}
