//! Threads that are asked to give the baton away where they lock, and threads that give it away
//! while they spin. Replay gives it away at the same calls, and in the same rounds.

mod cli_support;

use std::time::Duration;

use cli_support::{Place, Ran, compile_program};

const LIMIT: Duration = Duration::from_secs(60);

/// Records `passing`, and replays it twice. Returns the recording's result, its number of passages,
/// and the number of stops at other places.
fn record_and_replay(how: &str, place: &Place) -> (Ran, usize, u64) {
    both("passing", &[], how, place)
}

/// The same for a program of `tests/passages`, and with more options for the recorder. Output,
/// status and memory must be the same.
fn both(program: &str, options: &[&str], how: &str, place: &Place) -> (Ran, usize, u64) {
    let executable = place.work(program);
    compile_program(&format!("passages/{program}"), &["-O2"], &executable);
    let command = [&["record"], options, &[executable.to_str().unwrap(), how]].concat();
    let recorded = place.run_within(&command, LIMIT);
    assert_eq!(recorded.stderr, "");
    for _ in 0..2 {
        let replayed = place.run_within(&["replay", "--check=full"], LIMIT);
        assert_eq!(
            (replayed.stderr.as_str(), replayed.status, &replayed.stdout),
            ("", recorded.status, &recorded.stdout),
            "{replayed:?}"
        );
    }
    let dump = place.run_within(&["dump"], LIMIT);
    let passages = dump.stdout.lines().filter(|line| line.contains("turn given away")).count();
    let info = place.run_json(&["info", "--json"]);
    let forced = info
        .pointer("/metadata/outcome/counters/forced_points")
        .and_then(serde_json::Value::as_u64);
    (recorded, passages, forced.unwrap())
}

#[test]
fn a_thread_that_locks_need_not_be_stopped() {
    let (recorded, passages, forced) = record_and_replay("", &Place::new("passages"));
    assert_eq!(recorded.status, Some(0));
    assert!(passages >= 50 && forced <= 10, "{passages} passages, stopped {forced} times");
}

#[test]
fn signals_come_in_between() {
    let (recorded, passages, _) = record_and_replay("signals", &Place::new("passages-signals"));
    assert_eq!(recorded.status, Some(0));
    assert!(passages >= 10, "{passages} passages");
}

/// The log ends at the passage. The replayed thread must end there, as it would otherwise run for
/// ever.
#[test]
fn a_thread_that_never_gets_the_baton_back_ends_at_its_passage() {
    let (recorded, passages, _) = record_and_replay("exit", &Place::new("passages-exit"));
    assert_eq!(recorded.status, Some(3));
    assert!(passages >= 50, "{passages} passages");
}

/// Without passages each hand-over is a stop. They are 1,200 at least.
#[test]
fn threads_that_spin_need_not_be_stopped() {
    for how in ["", "looks"] {
        let (recorded, passages, forced) =
            both("spinning", &[], how, &Place::new(&format!("passages-spinning{how}")));
        assert_eq!(recorded.status, Some(0));
        assert!(passages >= 1000 && forced <= 10, "{passages} passages, stopped {forced} times");
    }
}

/// Signals are delivered where a thread spins, also if no thread waits for the baton.
#[test]
fn signals_come_while_threads_spin() {
    let place = Place::new("passages-spinning-signals");
    let (recorded, passages, forced) = both("spinning", &[], "signals", &place);
    assert_eq!(recorded.status, Some(0));
    assert!(passages >= 1000 && forced <= 10, "{passages} passages, stopped {forced} times");
    let (recorded, passages, forced) = both("alone", &[], "", &Place::new("passages-alone"));
    assert_eq!(recorded.status, Some(0));
    assert!(passages >= 10 && forced <= 10, "{passages} passages, stopped {forced} times");
}

#[test]
fn a_spinning_thread_may_never_get_the_baton_back() {
    let place = Place::new("passages-spinning-exit");
    let (recorded, passages, _) = both("spinning", &[], "exit", &place);
    assert_eq!(recorded.status, Some(3));
    assert!(passages >= 100, "{passages} passages");
}

/// Chance chooses who goes next, and images are taken while threads spin.
#[test]
fn threads_spin_under_chaos_and_from_images() {
    let chaos = Place::new("passages-spinning-chaos");
    let (recorded, passages, _) = both("spinning", &["--chaos"], "exit", &chaos);
    assert_eq!(recorded.status, Some(3));
    assert!(passages >= 50, "{passages} passages");
    let images = Place::new("passages-spinning-images");
    let (recorded, ..) = both("spinning", &["--image-every", "20ms"], "", &images);
    let late = images.run_within(&["replay", "--from", "last"], LIMIT);
    assert_eq!((late.status, &late.stdout), (recorded.status, &recorded.stdout), "{late:?}");
}
