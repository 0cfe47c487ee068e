//! Programs with threads whose libraries have unusual addresses or are unusual ones. To find a
//! place again, replay compares memory, which must be the same there, too.

mod cli_support;

use std::time::Duration;

use cli_support::{Place, compile_with};
use retake_testing::needs;

/// The time limit of a recording or a replay, on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Compiles a program. Records and replays it twice.
fn replays(name: &str, compiler: &str, source: &str, options: &[&str]) {
    let place = Place::new(name);
    let executable = place.work("program");
    compile_with(compiler, source, &[&["-pthread"], options].concat(), &executable);
    let program = executable.to_str().unwrap();
    for _ in 0..2 {
        let recorded = place.run_within(&["record", "--check=full", program], LIMIT);
        assert_eq!(recorded.status, Some(0), "{recorded:?}");
        let ran = place.run_within(&["replay", "--check=full"], LIMIT);
        assert_eq!((ran.status, &ran.stdout), (Some(0), &recorded.stdout), "{ran:?}");
    }
}

const COMPUTERS: &str = "faults/computers.c";
const SPINNER: &str = "faults/spinner.c";
const CANCELLED: &str = "faults/cancelled.c";

#[test]
fn static_programs_whose_threads_compute() {
    replays("static", "gcc", COMPUTERS, &["-O1", "-static"]);
    replays("static-pie", "gcc", COMPUTERS, &["-O1", "-static-pie"]);
    replays("static-slow", "gcc", COMPUTERS, &["-O0", "-static"]);
}

#[test]
fn static_programs_whose_threads_spin() {
    replays("static-spin", "gcc", SPINNER, &["-O0", "-static"]);
    replays("static-pie-spin", "gcc", SPINNER, &["-O0", "-static-pie"]);
}

#[test]
fn static_programs_whose_threads_are_cancelled() {
    replays("static-cancelled", "gcc", CANCELLED, &["-O1", "-static"]);
    replays("dynamic-cancelled", "gcc", CANCELLED, &["-O1"]);
}

#[test]
fn musl_programs_with_threads() {
    needs!("musl-gcc");
    replays("musl", "musl-gcc", COMPUTERS, &["-O1", "-static"]);
    replays("musl-dynamic", "musl-gcc", COMPUTERS, &["-O1"]);
    replays("musl-spin", "musl-gcc", SPINNER, &["-O0", "-static"]);
    replays("musl-cancelled", "musl-gcc", CANCELLED, &["-O1", "-static"]);
}

#[test]
fn static_programs_of_other_languages() {
    let place = Place::new("static-rust");
    let source = place.work("program.rs");
    std::fs::write(
        &source,
        "fn work(seed: u64) -> u64 {
            (0..60_000_000u64).fold(seed, |h, i| h.wrapping_mul(6364136223846793005) ^ i)
        }
        fn main() {
            let threads: Vec<_> = (0..3).map(|n| std::thread::spawn(move || work(n))).collect();
            for thread in threads { println!(\"{:x}\", thread.join().unwrap()); }
        }",
    )
    .unwrap();
    let program = place.work("program");
    let made = std::process::Command::new("rustc")
        .args(["-O", "-Ctarget-feature=+crt-static", "--target", "x86_64-unknown-linux-gnu", "-o"])
        .args([&program, &source])
        .status();
    assert!(made.unwrap().success());
    let program = program.to_str().unwrap();
    let recorded = place.run_within(&["record", program], LIMIT);
    assert_eq!(recorded.status, Some(0), "{recorded:?}");
    for _ in 0..2 {
        let ran = place.run_within(&["replay"], LIMIT);
        assert_eq!((ran.status, &ran.stdout), (Some(0), &recorded.stdout), "{ran:?}");
    }
}

#[test]
fn a_thread_whose_stack_lies_before_other_memory() {
    replays("neighbours", "gcc", "faults/neighbours.c", &["-O1"]);
}
