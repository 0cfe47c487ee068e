//! `retake debug` of recordings whose threads ran in parallel (`--policy sync`).

mod cli_support;

use cli_support::debugging::{compile, gdb, in_order};
use cli_support::{Place, compile_program, source_file};
use retake_testing::needs;

const PARALLEL: &str = include_str!("../../../tests/debugger/programs/parallel.c");

fn recorded(name: &str) -> Place {
    let place = Place::new(name);
    let program = compile(&place, "parallel", PARALLEL, &["-O1", "-fno-inline"]);
    place.run(&["record", "--policy", "sync", "--", &program]);
    place
}

/// The answers of `monitor hash`, which cover all threads and all memory.
fn hashes(text: &str) -> Vec<&str> {
    let is_hash = |line: &&str| line.len() == 16 && line.bytes().all(|b| b.is_ascii_hexdigit());
    text.lines().filter(is_hash).collect()
}

/// Each state on the way back equals the one on the way forwards, and the one in another session.
#[test]
fn what_comes_back_is_what_was() {
    needs!("gdb");
    let place = recorded("debug-parallel-states");
    const STOPS: usize = 12;
    let forwards = ["continue", "monitor hash"].repeat(STOPS);
    let backwards = ["reverse-continue", "monitor hash"].repeat(STOPS - 1);
    // The second function is a section: threads wait for their turn at its beginning.
    for stop in ["break add", "break pthread_mutex_lock"] {
        let commands = [vec![stop], forwards.clone(), backwards.clone()].concat();
        let text = gdb(&place, &[], &commands);
        let there = hashes(&text);
        assert_eq!(there.len(), 2 * STOPS - 1, "{text}");
        assert!(there[..STOPS].iter().eq(there[STOPS - 1..].iter().rev()), "{stop}: {text}");
        let again = gdb(&place, &[], &commands);
        assert_eq!(there, hashes(&again), "{stop}: {again}");
    }
}

/// As above, but each thread waits thousands of times for others' operations. All sessions must put
/// the operations in the same order.
#[test]
fn operations_have_one_order_for_whoever_looks_on() {
    needs!("gdb");
    let place = Place::new("debug-parallel-objects");
    let source = std::fs::read_to_string(source_file("sync/objects.c")).unwrap();
    let program = compile(&place, "objects", &source, &["-O1", "-fno-inline"]);
    place.run(&["record", "--policy", "sync", "--", &program]);
    let stop = ["break wait_a_little", "ignore 1 7", "continue", "monitor hash"];
    let forwards = ["continue", "monitor hash"].repeat(6);
    let backwards = ["reverse-continue", "monitor hash"].repeat(6);
    let commands = [&stop[..], &forwards, &backwards].concat();
    let text = gdb(&place, &[], &commands);
    let there = hashes(&text);
    assert_eq!(there.len(), 13, "{text}");
    assert!(there[..7].iter().eq(there[6..].iter().rev()), "{text}");
    let again = gdb(&place, &[], &commands);
    assert_eq!(there, hashes(&again), "{again}");
}

/// Stepping forwards and back works as usual at instructions that are sections, and in functions at
/// whose beginning and end sections begin and end.
#[test]
fn sections_are_stepped_through_both_ways() {
    needs!("gdb");
    let place = recorded("debug-parallel-steps");
    const STEPS: usize = 40;
    let address = "print $pc";
    for place_in_program in ["pthread_mutex_lock", "pthread_cond_wait", "parallel.c:19"] {
        let stop = format!("break {place_in_program}");
        let forwards = [address, "stepi"].repeat(STEPS);
        let backwards = [address, "reverse-stepi"].repeat(STEPS);
        let commands =
            [vec![&*stop, "continue", "delete"], forwards, backwards, vec![address]].concat();
        let text = gdb(&place, &[], &commands);
        let shown: Vec<&str> =
            text.split("(void (*)()) 0x").skip(1).map(|rest| &rest[..12]).collect();
        assert_eq!(shown.len(), 2 * STEPS + 1, "{text}");
        let (there, back) = (&shown[..STEPS], &shown[STEPS + 1..]);
        assert!(there.iter().eq(back.iter().rev()), "{place_in_program}: {text}");
        assert!(there.windows(2).all(|two| two[0] != two[1]), "{place_in_program}: {text}");
    }
}

/// Finds the last writer among threads that wrote in parallel.
#[test]
fn watchpoints_go_back() {
    needs!("gdb");
    let place = recorded("debug-parallel-watch");
    let commands = ["watch exchanged", "reverse-continue", "reverse-continue", "reverse-continue"];
    let text = gdb(&place, &["--at", "exit"], &commands);
    let values: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("Old value = ").or(line.strip_prefix("New value = ")))
        .collect();
    assert_eq!(values.len(), 6, "{text}");
    assert_eq!((values[1], values[3]), (values[2], values[4]), "{text}");
    in_order(&text, &["in add (which=", "in add (which="]);
}

/// If threads wait for each other through plain memory, no order of turns exists.
#[test]
fn threads_that_wait_without_a_section_are_told() {
    needs!("gdb");
    let place = Place::new("debug-parallel-stuck");
    let program = place.work("side_by_side");
    compile_program("sync/side_by_side", &["-g", "-O1"], &program);
    place.run(&["record", "--policy", "sync", "--", program.to_str().unwrap()]);
    let ran = place.run(&["debug", "--at", "exit", "--", "-nx", "-batch"]);
    assert_eq!(ran.status, Some(120), "{ran:?}");
    assert!(ran.stderr.contains("order of turns") && ran.stderr.contains("raced"), "{ran:?}");
}
