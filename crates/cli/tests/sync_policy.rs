//! `retake record --policy sync`: threads run in parallel, and their synchronisation is in order.
//! Tests with real programs, and with programs of `tests/sync/`, whose output depends on the order
//! of their threads.

mod cli_support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cli_support::parallel::{LIMIT, record, repeats};
use cli_support::{Place, compile_program, compile_with};
use retake_testing::needs;
use retake_testing::needs::is_lacking;

/// The exit status of a replay that diverged.
const DIVERGED: i32 = 120;

fn compile(place: &Place, name: &str, options: &[&str]) -> PathBuf {
    let executable = place.work(name);
    compile_program(&format!("sync/{name}"), &[&["-O2"], options].concat(), &executable);
    executable
}

fn repeats_program(name: &str, options: &[&str], runs: usize) -> usize {
    let place = Place::new(&format!("sync-{name}"));
    let executable = compile(&place, name, options);
    repeats(&place, &[executable.to_str().unwrap()], runs)
}

#[test]
fn locks_are_taken_in_the_same_order() {
    assert!(repeats_program("locks", &[], 5) > 1, "there was only one order of threads");
}

#[test]
fn objects_are_used_in_the_same_order() {
    assert!(repeats_program("objects", &[], 5) > 1, "there was only one order of threads");
}

/// The threads synchronise only by system calls. While recording, none of them waits for a turn.
#[test]
fn what_calls_tell_threads_is_in_order() {
    assert!(repeats_program("calls", &[], 5) > 1, "there was only one order of threads");
    let place = Place::new("sync-calls-looked-on");
    let executable = compile(&place, "calls", &[]);
    let recorded = record(&place, &[executable.to_str().unwrap()]);
    let count = |kind| place.run_well(&["dump", "--kind", kind]).lines().count();
    let (calls, turns) = (count("call"), count("turn"));
    assert!(turns < calls / 10, "{turns} turns, {calls} calls");
    let replayed = place.run(&["replay", "--until", "exit"]);
    assert_eq!(replayed.stdout, recorded.stdout);
}

/// The OpenMP library waits in loops of plain reads, which nothing declares.
#[test]
fn teams_of_threads_work_in_the_same_order() {
    assert!(repeats_program("teams", &["-fopenmp"], 5) > 1, "there was only one order of threads");
}

/// Even a long call is asked to yield when other threads have waited long for the baton.
#[test]
fn long_calls_leave_the_turns_of_others_alone() {
    repeats_program("long_calls", &[], 5);
}

/// At a cancellation point, a thread reads a word of its own. The read is in order with the threads
/// that cancel it.
#[test]
fn threads_are_cancelled_at_the_same_place() {
    assert!(repeats_program("cancelled", &[], 4) > 1, "there was only one order of threads");
}

/// Threads that call a function for the first time would all bind it, or some of them.
#[test]
fn each_function_is_bound_by_one_thread() {
    let options = ["-fno-builtin", "-Wl,-z,lazy,--no-as-needed", "-lm"];
    repeats_program("first_calls", &options, 5);
    let place = Place::new("sync-first-calls-looked-on");
    let executable = compile(&place, "first_calls", &options);
    record(&place, &[executable.to_str().unwrap()]);
    let bound = place.run_well(&["dump", "--kind", "binding"]);
    let mut slots: Vec<_> = bound.lines().filter_map(|line| line.split("slot ").nth(1)).collect();
    let count = slots.len();
    slots.sort_unstable();
    slots.dedup();
    assert!(count >= 24 && count == slots.len(), "{bound}");
    let replayed = place.run(&["replay", "--until", "exit"]);
    assert!(replayed.stdout.starts_with("52.48"), "{replayed:?}");
}

/// A child has what other threads were just doing, where none of its own code reads.
#[test]
fn processes_fork_while_their_threads_run() {
    repeats_program("forks", &[], 5);
}

/// The compiler has not declared the accesses to the guards of the variables.
#[test]
fn static_variables_are_found_ready_by_the_same_threads() {
    let place = Place::new("sync-first-uses");
    let executable = place.work("first_uses");
    compile_with("g++", "declared/first_uses.cc", &["-std=c++20", "-O2", "-pthread"], &executable);
    repeats(&place, &[executable.to_str().unwrap()], 3);
}

/// The runtime's knowledge about descriptors does not change, and the kernel assigns their numbers.
#[test]
fn files_are_read_and_closed_without_turns() {
    assert!(repeats_program("files", &[], 4) > 1, "there was only one order of threads");
    let place = Place::new("sync-files-turns");
    let executable = compile(&place, "files", &[]);
    record(&place, &[executable.to_str().unwrap()]);
    let count = |kind| place.run_well(&["dump", "--kind", kind]).lines().count();
    let (calls, turns) = (count("call"), count("turn"));
    assert!(turns < calls / 10, "{turns} turns, {calls} calls");
}

#[test]
fn threads_join_processes_that_share_memory() {
    assert!(repeats_program("joins", &[], 5) > 1, "there was only one order of threads");
    let place = Place::new("sync-joins-looked-on");
    let executable = compile(&place, "joins", &[]);
    record(&place, &[executable.to_str().unwrap()]);
    place.run_well(&["trace", "--from", "latest", "-o", "calls.ds"]);
}

#[test]
fn one_core_is_enough_for_replay() {
    let place = Place::new("sync-one-core");
    let executable = compile(&place, "locks", &[]);
    let recorded = record(&place, &[executable.to_str().unwrap()]);
    let start = Instant::now();
    let replayed = place
        .command_of("taskset", &["-c", "0", env!("CARGO_BIN_EXE_retake"), "replay"])
        .output()
        .unwrap();
    assert_eq!(
        (replayed.status.code(), String::from_utf8_lossy(&replayed.stdout)),
        (Some(0), recorded.stdout.as_str().into())
    );
    assert!(start.elapsed() < Duration::from_secs(10), "waiting took {:?}", start.elapsed());
}

#[test]
fn atomic_instructions_are_in_the_same_order() {
    assert!(repeats_program("atomics", &[], 5) > 1, "there was only one order of threads");
}

#[test]
fn memory_is_handed_out_in_the_same_order() {
    assert!(repeats_program("memory", &[], 5) > 1, "there was only one order of threads");
}

#[test]
fn a_process_ends_while_others_spin_and_wait() {
    repeats_program("killed", &[], 5);
}

#[test]
fn programs_without_threads_are_as_ever() {
    let place = Place::new("sync-shell");
    repeats(&place, &["sh", "-c", "for i in 1 2 3; do echo $i | cat & done; wait; exit 4"], 2);
}

#[test]
fn compressors_with_threads() {
    let place = Place::new("sync-compressors");
    let numbers: String =
        (0..400_000).map(|number: u64| format!("{}\n", number * number % 9973)).collect();
    std::fs::write(place.work("numbers"), numbers).unwrap();
    for command in [
        &["xz", "-T2", "-1", "--block-size=200000", "-c", "numbers"][..],
        &["pigz", "-p2", "-c", "numbers"],
        &["pbzip2", "-p2", "-c", "numbers"],
    ] {
        if is_lacking(command[0]) {
            continue;
        }
        repeats(&place, command, 2);
    }
}

/// In turns, the program would take eighty thousand time slices.
#[test]
fn threads_run_side_by_side() {
    needs!("two cores");
    assert_eq!(repeats_program("side_by_side", &[], 2), 1);
    let place = Place::new("sync-side-by-side-metadata");
    record(&place, &["true"]);
    let info = place.run_json(&["info", "--json"]);
    assert_eq!(info["metadata"]["policy"], "sync");
}

#[test]
fn a_race_is_told() {
    let place = Place::new("sync-race");
    let executable = compile(&place, "race", &[]);
    let command = executable.to_str().unwrap();
    assert_eq!(record(&place, &[command]).status, Some(0));
    let replayed = place.run_within(&["replay"], LIMIT);
    assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(DIVERGED), ""), "{replayed:?}");
    assert!(
        replayed.stderr.contains("input data") && replayed.stderr.contains("--policy sync"),
        "{replayed:?}"
    );
    let recorded = place.run_within(&["record", command], LIMIT);
    let replayed = place.run_within(&["replay"], LIMIT);
    assert_eq!((replayed.status, replayed.stdout), (Some(0), recorded.stdout), "in turns");
}

/// Debugging needs one thread at a time. The threads then run in the order of their turns.
#[test]
fn whoever_looks_on_sees_threads_in_turns() {
    needs!("gdb");
    let place = Place::new("sync-looked-on");
    let crashing = compile(&place, "crashes", &["-g", "-O0"]);
    let command = ["record", "--policy", "sync", "--debug-on-crash", crashing.to_str().unwrap()];
    let crash = "perhaps_crash (who=2";
    // In some runs a thread is killed before its first turn.
    for _ in 0..4 {
        let recorded = place.run_within(&command, LIMIT);
        assert_eq!(recorded.signal, Some(11), "{recorded:?}");
        assert!(format!("{recorded:?}").contains(crash), "{recorded:?}");
        let shown = place.run_well(&["backtrace"]);
        assert!(shown.contains(crash), "{shown}");
    }
    place.run_well(&["checkpoint", "--at", "crash"]);
    let told = place.run(&["replay", "--until", "crash"]);
    assert!(told.status == Some(0) && told.stderr.contains("killed by SIGSEGV"), "{told:?}");
    place.run_well(&["trace", "--from", "latest", "-o", "calls.ds"]);
}
