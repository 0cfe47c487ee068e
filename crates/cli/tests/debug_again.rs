//! Restarting the replay in gdb, and places that do not exist.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{PLAIN, compile, gdb, in_order, record};
use retake_testing::needs;

#[test]
fn run_and_start_begin_again() {
    needs!("gdb");
    let place = Place::new("debug-again");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let text = gdb(
        &place,
        &["--at", "exit"],
        &[
            "break twice if x == 3",
            "run",
            "print counter",
            "start",
            "print counter",
            "continue",
            "print x",
            "delete",
            "run",
            "when",
        ],
    );
    in_order(&text, &["twice (x=3)", "= 3", "main (argc=1", "= 0", "twice (x=3)", "= 3", "event "]);
    let arguments = ["debug", "--", "-nx", "-batch", "-ex", "run x"];
    let ran = place.run(&arguments);
    assert!(ran.stderr.contains("a replay takes no arguments"), "{ran:?}");
}

#[test]
fn places_beyond_the_end_are_errors() {
    needs!("gdb");
    let place = Place::new("debug-beyond");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let processes = place.run_json(&["ps", "--json"]);
    // The last event is the exit.
    let last = processes[0]["event_count"].as_u64().unwrap() - 1;
    let tid = processes[0]["pid"].as_i64().unwrap();
    for beyond in [(last + 1).to_string(), format!("{tid}:{}", last + 1)] {
        let says = ["beyond the end", &format!("ends at event {last}")];
        place.run_badly(&["debug", "--at", &beyond, "--", "-batch"], 125, &says);
        place.run_badly(&["replay", "--until", &beyond], 125, &says);
    }
    let says = ["beyond the end", "the process ended"];
    place.run_badly(&["debug", "--at", "900s", "--", "-batch"], 125, &says);
    let text = gdb(&place, &["--at", &last.to_string()], &["when"]);
    in_order(&text, &[&format!("event {last} of thread {tid}")]);
    let ran = place.run(&["debug", "--", "-nx", "-batch", "-ex", "seek 99999"]);
    assert!(ran.stderr.contains("beyond the end"), "{ran:?}");
}
