//! `retake record --in-memory`: nothing is on the disk before there is a reason to save.

mod cli_support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cli_support::debugging::no_process_is_left;
use cli_support::started::{Started, wait_until};
use cli_support::{Place, compile_program, has_dropped_image};
use rustix::process::{Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(60);

/// The folder of the recorder with this process ID in memory.
fn root(recorder: rustix::process::Pid) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    Path::new("/dev/shm").join(format!("retake-{user}/{}", recorder.as_raw_nonzero()))
}

/// Removes the folder of a recorder in memory when a test ends, however it ends.
struct Cleanup(PathBuf);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder that Retake would write to.
fn disk(place: &Place) -> PathBuf {
    place.work("../retake")
}

/// The names of the saved recordings.
fn saved(place: &Place) -> Vec<String> {
    place.recordings().into_iter().filter(|name| name != "latest").collect()
}

/// Starts to record a shell script in memory.
fn start(place: &Place, options: &[&str], script: &str) -> Started {
    let arguments =
        [&["record", "--in-memory", "16M"], options, &["--", "sh", "-c", script]].concat();
    Started::new(place.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::inherit()))
}

#[test]
fn a_crash_saves_and_before_it_nothing_is_on_the_disk() {
    let place = Place::new("memory-crash");
    let script = format!("test -e {} && exit 9; kill -SEGV $$", disk(&place).display());
    let ran = place.run(&["record", "--in-memory", "16M", "sh", "-c", &script]);
    assert_eq!(ran.signal, Some(11), "{ran:?}");
    assert!(ran.stderr.contains("a process crashed: SIGSEGV; saved as sh-1"), "{ran:?}");
    let replayed = place.run(&["replay", "--check=full"]);
    assert_eq!((replayed.signal, replayed.stderr.as_str()), (Some(11), ""), "{replayed:?}");
    assert_eq!(saved(&place), ["sh-1.retake"]);
}

#[test]
fn without_a_reason_nothing_stays() {
    let place = Place::new("memory-nothing");
    for rule in ["crash", "signal", "stderr=^x"] {
        let arguments = ["record", "--in-memory", "16M", "--save-on", rule, "sh", "-c"];
        let ran = place.run(&[&arguments[..], &["echo an x >&2; exit 3"]].concat());
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(3), "an x\n"), "{rule}: {ran:?}");
    }
    assert!(!disk(&place).exists());
}

#[test]
fn each_rule_saves() {
    let place = Place::new("memory-rules");
    let cases = [
        ("exit-status", "exit 3", "the program ended with status 3"),
        ("signal", "sh -c 'kill -TERM $$'", "SIGTERM ended a process"),
        ("stderr=^bad +thing$", "echo bad   thing >&2", "standard error has a line like ^bad +"),
        ("crash", "sh -c 'kill -ABRT $$'; exit 0", "a process crashed: SIGABRT"),
    ];
    for (number, (rule, script, reason)) in (1..).zip(cases) {
        let rules = ["--save-on", rule, "--save-on", "stderr=never"];
        let arguments =
            [&["record", "--in-memory", "16M"], &rules[..], &["sh", "-c", script]].concat();
        let ran = place.run(&arguments);
        assert!(ran.stderr.contains(reason), "{rule}: {ran:?}");
        assert!(ran.stderr.contains(&format!("saved as sh-{number}")), "{rule}: {ran:?}");
        let replayed = place.run(&["replay", "--check=full"]);
        assert_eq!((replayed.status, replayed.signal), (ran.status, ran.signal), "{replayed:?}");
    }
}

#[test]
fn what_goes_on_is_saved_on_request() {
    let place = Place::new("memory-request");
    let script = "echo ready; echo bad >&2; until test -e enough; do sleep 0.02; done; echo end";
    let rules = ["--save-on", "signal=USR1", "--save-on", "stderr=bad"];
    let mut recorder = start(&place, &rules, script);
    wait_until("the first save", LIMIT, || saved(&place).len() == 1);
    let pid = recorder.pid();
    let _cleanup = Cleanup(root(pid));
    kill_process(pid, Signal::USR1).unwrap();
    wait_until("the second save", LIMIT, || saved(&place).len() == 2);
    // By name, by the recorder, and by a recorded process.
    let number = pid.as_raw_nonzero().to_string();
    let name = format!("sh-{number}");
    let listed = place.run_well(&["ls"]);
    let row = listed.lines().find(|line| line.starts_with(&name)).unwrap();
    assert!(row.contains("running (in memory)"), "{listed}");
    let recorded = children_of(&number).pop().unwrap();
    for what in [&name, &number, &recorded] {
        place.run_well(&["save", what]);
        let replayed = place.run_within(&["replay", "--check=full"], LIMIT);
        assert_eq!((&*replayed.stdout, replayed.signal), ("ready\n", Some(9)), "{replayed:?}");
    }
    place.run_badly(&["rm", &name], 125, &["being recorded"]);
    place.run_well(&["save", &name, "-o", "own.retake"]);
    place.run_badly(&["save", &name, "-o", "own.retake"], 125, &["exists already"]);
    fs::write(place.work("enough"), "").unwrap();
    assert_eq!(recorder.wait(LIMIT).code(), Some(0));
    assert_eq!(saved(&place).len(), 5);
    assert!(!root(pid).exists());
    place.run_badly(&["save", &name], 125, &["no recording in memory is called"]);
    no_process_is_left(&place);
}

/// The process IDs of the recorded children of a recorder.
fn children_of(recorder: &str) -> Vec<String> {
    let path = format!("/proc/{recorder}/task/{recorder}/children");
    let children = fs::read_to_string(path).unwrap();
    let is_shell = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sh\n")
    };
    children.split_whitespace().filter(is_shell).map(str::to_owned).collect()
}

#[test]
fn a_killed_recorder_leaves_it_in_memory() {
    let place = Place::new("memory-killed");
    let mut recorder = start(&place, &[], "echo ready; sleep 60");
    let pid = recorder.pid();
    let _cleanup = Cleanup(root(pid));
    let events = root(pid).join("recordings").join(format!("sh-{}", pid.as_raw_nonzero()));
    wait_until("events", LIMIT, || {
        fs::metadata(events.join("events")).is_ok_and(|file| file.len() > 8192)
    });
    // The guardian writes the end.
    std::thread::sleep(Duration::from_millis(500));
    kill_process(pid, Signal::KILL).unwrap();
    recorder.wait(LIMIT);
    wait_until("the end", LIMIT, || cli_support::debugging::left_behind(&place).is_empty());
    let name = events.file_name().unwrap().to_str().unwrap();
    assert!(place.run_well(&["ls"]).contains("(in memory)"));
    place.run_well(&["save", name]);
    let replayed = place.run_within(&["replay", "--check=full"], LIMIT);
    assert!(replayed.signal.is_some() && replayed.stdout == "ready\n", "{replayed:?}");
    assert!(!root(pid).exists());
}

/// The recorder drops events and images all the time.
#[test]
fn copies_of_what_is_being_rewritten_replay() {
    let place = Place::new("memory-copies");
    let executable = place.work("runs_on");
    compile_program("images/runs_on", &["-O1", "-g", "-pthread"], &executable);
    let script = format!("exec {}", executable.display());
    let arguments = ["record", "--in-memory", "4M", "--policy", "serial", "sh", "-c", &script];
    let mut recorder =
        Started::new(place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::inherit()));
    let pid = recorder.pid();
    let _cleanup = Cleanup(root(pid));
    let images = root(pid).join(format!("recordings/sh-{}/checkpoints", pid.as_raw_nonzero()));
    wait_until("images", LIMIT, || has_dropped_image(&images, 6));
    let mut outputs = Vec::new();
    for _ in 0..5 {
        place.run_well(&["save", &pid.as_raw_nonzero().to_string()]);
        let replayed = place.run_within(&["replay", "--check=full"], LIMIT);
        assert_eq!(replayed.signal, Some(9), "{replayed:?}");
        assert!(replayed.stderr.contains("retake: begins at image "), "{replayed:?}");
        outputs.push(replayed.stdout);
    }
    assert!(outputs.iter().any(|output| *output != outputs[0]), "{outputs:?}");
    fs::write(place.work("enough"), "").unwrap();
    assert_eq!(recorder.wait(LIMIT).code(), Some(7));
}

#[test]
fn bad_requests_are_refused() {
    let place = Place::new("memory-bad");
    let refused = |arguments: &[&str], expected: &[&str]| {
        place.run_badly(arguments, 125, expected);
    };
    refused(&["record", "--in-memory", "900T", "true"], &["takes up to twice its size"]);
    refused(&["record", "--in-memory", "12K", "true"], &["the least is 1M"]);
    refused(&["record", "--in-memory", "9M", "-o", "x", "true"], &["cannot be used with"]);
    refused(&["record", "--save-on", "crash", "true"], &["--in-memory"]);
    for rule in ["", "crash=1", "signal=KILL", "signal=x", "stderr=(", "stderr"] {
        refused(&["record", "--in-memory", "9M", "--save-on", rule, "true"], &["--save-on"]);
    }
    refused(&["save", "nothing-1"], &["no recording in memory is called nothing-1"]);
    assert!(!disk(&place).exists());
}
