//! Faults that are known and not mended yet. Each test is written as it shall pass one day; see
//! `retake_testing::known`. Whoever mends a fault moves its test to where it belongs. The programs
//! are in `tests/faults/`.

mod cli_support;

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cli_support::started::{Started, wait_until};
use cli_support::{Place, compile_program, compile_with};
use retake_testing::{known_failure, needs};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any of these programs takes, recorded or replayed, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(20);

fn compile(place: &Place, name: &str, options: &[&str]) -> String {
    let executable = place.work(name);
    compile_program(&format!("faults/{name}"), &[&["-O1"], options].concat(), &executable);
    executable.to_str().unwrap().to_owned()
}

/// Records a program, whose output goes to a file.
fn start(place: &Place, command: &[&str], printed: &Path) -> Started {
    let arguments = [&["record", "-o", "made", "--"], command].concat();
    let output = File::create(printed).unwrap();
    Started::new(place.command(&arguments).stdout(output).stderr(Stdio::null()))
}

/// The first process that a recorder records.
fn program_of(recorder: &Started) -> Pid {
    let pid = recorder.0.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_guardian = |child: &&str| {
        fs::read_to_string(format!("/proc/{child}/comm"))
            .is_ok_and(|name| name.contains("guardian"))
    };
    let child = children.split_whitespace().find(|child| !is_guardian(child)).unwrap();
    Pid::from_raw(child.parse().unwrap()).unwrap()
}

fn wait_for_output(printed: &Path, bytes: u64) {
    wait_until("output", LIMIT, || fs::metadata(printed).unwrap().len() >= bytes);
}

/// The recording replays as it was printed, twice.
fn replays(place: &Place, stdout: &str, status: i32) {
    for _ in 0..2 {
        let ran = place.run_within(&["replay", "--check=full"], LIMIT);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(status), stdout), "{ran:?}");
    }
}

#[test]
fn a_killed_recorder_of_threads_leaves_what_replays() {
    let place = Place::new("known-killed-recorder");
    let program = compile(&place, "printers", &[]);
    let printed = place.work("printed");
    known_failure!(5, || {
        let _ = fs::remove_dir_all(place.work("made"));
        let mut recorder = start(&place, &[&program], &printed);
        wait_for_output(&printed, 20_000);
        kill_process(recorder.pid(), Signal::KILL).unwrap();
        recorder.wait(LIMIT);
        std::thread::sleep(Duration::from_millis(500));
        let ran = place.run_within(&["replay", "./made"], LIMIT);
        let printed = fs::read_to_string(&printed).unwrap();
        assert!(
            ran.status != Some(120) && ran.stderr.contains("warning: "),
            "{:?} {}",
            ran.status,
            ran.stderr
        );
        assert!(
            ran.stdout.len() > 10_000 && printed.starts_with(&ran.stdout),
            "{} of {} bytes",
            ran.stdout.len(),
            printed.len()
        );
    });
}

#[test]
fn a_static_program_with_threads_replays() {
    let place = Place::new("known-static");
    let program = compile(&place, "computers", &["-static"]);
    known_failure!(3, || {
        let recorded = place.run_within(&["record", "--check=full", &program], LIMIT);
        replays(&place, &recorded.stdout, 0);
    });
}

#[test]
fn a_musl_program_with_threads_replays() {
    needs!("musl-gcc");
    let place = Place::new("known-musl");
    let executable = place.work("computers");
    compile_with("musl-gcc", "faults/computers.c", &["-O1", "-pthread"], &executable);
    let program = executable.to_str().unwrap();
    known_failure!(3, || {
        let recorded = place.run_within(&["record", "--check=full", program], LIMIT);
        replays(&place, &recorded.stdout, 0);
    });
}

#[test]
fn a_recording_that_attacks_touches_nothing() {
    let place = Place::new("known-attack");
    let program = compile(&place, "attacker", &[]);
    let target = place.work("../outside").to_str().unwrap().to_owned();
    known_failure!(1, || {
        place.run_within(&["record", "--", &program, &target], LIMIT);
        let _ = fs::remove_file(&target);
        place.run_within(&["replay"], LIMIT);
        assert!(fs::metadata(&target).is_err(), "the replay has made a file outside");
    });
}

#[test]
fn plain_atomics_replay_in_parallel() {
    needs!("two cores");
    let place = Place::new("known-atomics");
    let executable = place.work("ring");
    compile_with("g++", "faults/ring.cc", &["-O2", "-pthread"], &executable);
    let program = executable.to_str().unwrap();
    known_failure!(5, || {
        let recorded = place.run_within(&["record", "--policy", "sync", program], LIMIT);
        assert_eq!(recorded.status, Some(0), "{recorded:?}");
        let replayed = place.run_within(&["replay"], LIMIT);
        assert_eq!(
            (replayed.status, &replayed.stdout),
            (Some(0), &recorded.stdout),
            "{}",
            replayed.stderr
        );
    });
}

#[test]
fn a_forked_child_has_the_symbols_of_its_program() {
    needs!("gdb");
    let place = Place::new("known-forked");
    let program = compile(&place, "forked_crash", &["-g", "-O0", "-pie", "-fpie"]);
    place.run(&["record", "--", &program]);
    known_failure!(1, || {
        let text = place.run_within(&["backtrace"], LIMIT * 3).stdout;
        for name in ["innermost", "middle", "outermost", "main"] {
            assert!(text.contains(name), "no {name} in {text}");
        }
    });
}

#[test]
fn a_sparse_file_is_recorded_in_no_time() {
    let place = Place::new("known-sparse");
    let program = compile(&place, "sparse", &[]);
    known_failure!(1, || {
        let start = Instant::now();
        let recorded = place.run_within(&["record", &program], 3 * LIMIT);
        let took = start.elapsed();
        assert_eq!(recorded.stdout, "data 0\n", "{recorded:?}");
        assert!(took < Duration::from_secs(2), "it took {took:?}");
        replays(&place, "data 0\n", 0);
    });
}

#[test]
fn who_stops_himself_is_continued_with_his_recorder() {
    let place = Place::new("known-stopped");
    let printed = place.work("printed");
    known_failure!(1, || {
        let script = "(sleep 0.5; kill -CONT $$) & kill -STOP $$; echo woke";
        let mut recorder = start(&place, &["sh", "-c", script], &printed);
        let status = recorder.wait(LIMIT);
        assert!(status.success(), "{status}");
    });
}

#[test]
fn a_stopped_program_with_threads_goes_on() {
    let place = Place::new("known-stopped-threads");
    let program = compile(&place, "printers", &[]);
    let printed = place.work("printed");
    let mut recorder = start(&place, &[&program], &printed);
    for _ in 0..3 {
        let before = fs::metadata(&printed).unwrap().len();
        wait_for_output(&printed, before + 5000);
        kill_process(program_of(&recorder), Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        kill_process(program_of(&recorder), Signal::CONT).unwrap();
        // The recorder stops with its program, and nobody but us continues it.
        kill_process(recorder.pid(), Signal::CONT).unwrap();
    }
    let before = fs::metadata(&printed).unwrap().len();
    wait_for_output(&printed, before + 5000);
    kill_process(program_of(&recorder), Signal::TERM).unwrap();
    assert_eq!(recorder.wait(LIMIT).signal(), Some(15));
    let ran = place.run_within(&["replay", "./made"], 3 * LIMIT);
    assert_eq!(
        (ran.signal, ran.stdout),
        (Some(15), fs::read_to_string(&printed).unwrap()),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_program_killed_while_its_threads_compute_replays_to_its_end() {
    let place = Place::new("known-killed-program");
    let program = compile(&place, "computers", &[]);
    let printed = place.work("printed");
    known_failure!(5, || {
        let _ = fs::remove_dir_all(place.work("made"));
        let mut recorder = start(&place, &[&program, "on"], &printed);
        wait_for_output(&printed, 10);
        std::thread::sleep(Duration::from_millis(300));
        kill_process(program_of(&recorder), Signal::KILL).unwrap();
        assert_eq!(recorder.wait(LIMIT).signal(), Some(9));
        let ran = place.run_within(&["replay", "./made"], LIMIT);
        assert_eq!((ran.signal, ran.stdout.as_str()), (Some(9), "computing\n"), "{}", ran.stderr);
    });
}
