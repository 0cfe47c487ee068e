//! Threads that are asked to give the baton away where they lock. Replay gives it away at the same
//! calls.

mod cli_support;

use std::time::Duration;

use cli_support::{Place, Ran, compile_program};

const LIMIT: Duration = Duration::from_secs(60);

/// Records `passing`, and replays it twice. Output, status and memory must be the same. Returns the
/// recording's result, its number of passages, and the number of stops at other places.
fn record_and_replay(how: &str, place: &Place) -> (Ran, usize, u64) {
    let executable = place.work("passing");
    compile_program("passages/passing", &["-O2"], &executable);
    let recorded = place.run_within(&["record", executable.to_str().unwrap(), how], LIMIT);
    assert_eq!(recorded.stderr, "");
    for _ in 0..2 {
        let replayed = place.run_within(&["replay"], LIMIT);
        assert_eq!(
            (replayed.stderr.as_str(), replayed.status, &replayed.stdout),
            ("", recorded.status, &recorded.stdout),
            "{replayed:?}"
        );
    }
    let dump = place.run_within(&["dump", "--stream", "0"], LIMIT);
    let passages =
        dump.stdout.lines().filter(|line| line.contains("turn given away at passage")).count();
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
