//! `retake record --until-failure` and `--timeout`: what they keep, what they print, and how they
//! end.

mod cli_support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cli_support::{Place, Ran};
use rustix::process::{Pid, Signal, kill_process};

/// A script that fails in its third run.
const THIRD: &str =
    "echo x >> count; echo run $(wc -l < count); test $(wc -l < count) -lt 3 || exit 7";

#[test]
fn the_run_that_fails_is_kept() {
    let place = Place::new("until-kept");
    let found = place.run(&["record", "--until-failure", "-n", "10", "sh", "-c", THIRD]);
    assert_eq!(
        (found.status, found.stdout.as_str()),
        (Some(7), "run 1\nrun 2\nrun 3\n"),
        "{found:?}"
    );
    for part in ["failed with status 7 in run 3 of 10", "retake replay sh-1"] {
        assert!(found.stderr.contains(part), "{found:?}");
    }
    assert_eq!(place.recordings(), ["latest", "sh-1"]);
    let replayed = place.run(&["replay"]);
    assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(7), "run 3\n"));
}

#[test]
fn the_place_can_be_chosen_and_signals_are_failures() {
    let place = Place::new("until-chosen");
    let script = "echo x >> count; test $(wc -l < count) -lt 2 || kill -ABRT $$";
    let found = place.run(&["record", "-o", "crash", "--until-failure", "sh", "-c", script]);
    assert_eq!(found.signal, Some(6), "{found:?}");
    assert!(found.stderr.contains("killed by SIGABRT in run 2 of 1000"), "{found:?}");
    assert_eq!(place.run(&["replay", "./crash"]).signal, Some(6));
    assert_eq!(place.recordings(), [""; 0]);
}

#[test]
fn without_a_failure_nothing_is_kept() {
    let place = Place::new("until-none");
    let found = place.run(&["record", "--until-failure", "-n", "2", "echo", "well"]);
    assert_eq!((found.status, found.stdout.as_str()), (Some(0), "well\nwell\n"), "{found:?}");
    assert!(found.stderr.contains("2 runs without a failure; nothing was kept"), "{found:?}");
    assert_eq!(place.recordings(), [""; 0]);
}

#[test]
fn what_takes_too_long_is_ended() {
    let place = Place::new("until-timeout");
    // The script, and a process that it starts, which ignores SIGTERM and outlives it.
    let script = "trap '' TERM; sleep 100 & trap - TERM; sleep 100";
    let started = Instant::now();
    let found = place.run(&["record", "--until-failure", "--timeout", "0.5", "sh", "-c", script]);
    assert_eq!(found.status, Some(124), "{found:?}");
    assert!(found.stderr.contains("ended after its timeout in run 1"), "{found:?}");
    assert!(started.elapsed() < Duration::from_secs(15));
    let replayed = place.run(&["replay"]);
    assert_eq!(replayed.signal, Some(15), "{replayed:?}");
    let once = place.run(&["record", "--timeout", "0.2", "sleep", "100"]);
    assert_eq!((once.status, once.stderr.as_str()), (Some(124), ""), "{once:?}");
    place.run_badly(&["record", "--timeout", "0", "true"], 125, &["--timeout"]);
    place.run_badly(&["record", "--seed", "3", "true"], 125, &["--chaos"]);
}

#[test]
fn who_interrupts_it_gets_the_run_that_was_under_way() {
    let place = Place::new("until-interrupted");
    let script = "echo x >> count; test $(wc -l < count) -lt 2 || exec sleep 100";
    let mut command = place.command(&["record", "--until-failure", "sh", "-c", script]);
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while fs::read_to_string(place.work("count")).map_or(0, |text| text.lines().count()) < 2 {
        assert!(Instant::now() < deadline, "the second run does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let found = Ran::of(child.wait_with_output().unwrap(), &[]);
    assert_eq!(found.signal, Some(2), "{found:?}");
    assert!(found.stderr.contains("interrupted by SIGINT in run 2 of 1000"), "{found:?}");
    assert_eq!(place.recordings(), ["latest", "sh-1"]);
    assert_eq!(place.run(&["replay"]).signal, Some(2));
}
