//! Programs that hang and are ended from outside. `retake backtrace`, and `waits` in gdb, say which
//! threads wait for each other. The programs are in `tests/hangs`.

mod cli_support;

use std::fs;
use std::process::Command;
use std::time::Duration;

use cli_support::debugging::{in_order, no_process_is_left};
use cli_support::started::{Started, program_of, start_recording, wait_for_output, wait_until};
use cli_support::{Place, compile_program, compile_with, source_file};
use retake_testing::needs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The time limit of every wait, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The size of the line that each program prints before it hangs.
const READY: u64 = "ready\n".len() as u64;

/// The number of successive looks that must find the threads unchanged.
const STILL: usize = 20;

/// Waits until all threads of a recorded program sleep, and stay asleep for a while.
fn wait_until_still(recorder: &Started) {
    let first = program_of(recorder).as_raw_nonzero().get();
    let mut seen = (Vec::new(), 0);
    wait_until("the program to hang", LIMIT, || {
        let threads = threads_of(first);
        let sleep = threads.iter().all(|thread| thread.contains("State:\tS"));
        seen = if sleep && threads == seen.0 { (threads, seen.1 + 1) } else { (threads, 0) };
        seen.1 >= STILL
    });
}

/// The state and the context-switch counts of all threads of a process and its descendants.
fn threads_of(pid: i32) -> Vec<String> {
    let mut threads = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let status = read("status");
        let is_told = |line: &&str| line.starts_with("State:") || line.contains("_switches:");
        threads.push(status.lines().filter(is_told).collect());
        let children = read("children");
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        threads.extend(children.flat_map(threads_of));
    }
    threads
}

/// A recorded program that hung, and the report of `retake backtrace`.
struct Hung {
    place: Place,
    report: Value,
}

impl Hung {
    /// Records a command until it hangs, and ends all its processes at once: the recorder is
    /// killed, and the guardian stops all processes before it kills any.
    fn new(test: &str, program: impl FnOnce(&Place) -> Vec<String>) -> Self {
        let place = Place::new(test);
        let command = program(&place);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let printed = place.work("printed");
        let mut recorder = start_recording(&place, &command, &printed);
        wait_for_output(&printed, READY, LIMIT);
        wait_until_still(&recorder);
        kill_process(recorder.pid(), Signal::KILL).unwrap();
        recorder.wait(LIMIT);
        wait_until("the recording to be completed", LIMIT, || {
            let told = place.run_within(&["info", "./made"], LIMIT);
            told.stdout.contains("its guardian completed") && !told.stderr.contains("still being")
        });
        let ran = place.run_within(&["backtrace", "--json", "./made"], LIMIT);
        let report = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        no_process_is_left(&place);
        let hung = Self { place, report };
        assert_eq!(hung.report["crash"], Value::Null, "{}", hung.report);
        assert_eq!(hung.report["no_threads"], Value::Null, "{}", hung.report);
        hung
    }

    /// Runs a C program of `tests/hangs` with arguments.
    fn of(name: &str, arguments: &[&str]) -> Self {
        Self::new(&format!("hangs-{name}{}", arguments.concat()), |place| {
            let program = place.work(name);
            compile_program(&format!("hangs/{name}"), &["-g", "-O1"], &program);
            let program = program.to_str().unwrap().to_owned();
            [program].into_iter().chain(arguments.iter().map(|one| (*one).to_owned())).collect()
        })
    }

    /// Checks that the report has one deadlock, whose text has these parts in this order.
    fn is_deadlock(&self, parts: &[&str]) {
        let deadlocks = self.report["deadlocks"].as_array().unwrap();
        assert_eq!(deadlocks.len(), 1, "{}", self.report);
        in_order(deadlocks[0].as_str().unwrap(), &[&["deadlock: "], parts].concat());
    }

    /// The wait for an object whose description begins with `what`.
    fn wait_for(&self, what: &str) -> &Value {
        let mut waits = self.report["waits"].as_array().unwrap().iter();
        let is_it = |wait: &&Value| wait["what"].as_str().unwrap().starts_with(what);
        waits.find(is_it).unwrap_or_else(|| panic!("nobody waits for {what}: {}", self.report))
    }

    /// Checks that each of two threads waits for the other.
    fn is_circle_of(&self, one: &Value, other: &Value) {
        for (wait, holder) in [(one, other), (other, one)] {
            let helpers = wait["helpers"].as_array().unwrap();
            let is_holder = |helper: &Value| {
                helper["pid"] == holder["pid"]
                    && (helper["tid"].is_null() || helper["tid"] == holder["tid"])
            };
            assert!(helpers.len() == 1 && is_holder(&helpers[0]), "{}", self.report);
        }
    }

    fn since(&self, wait: &Value) -> String {
        wait["helpers"][0]["since"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn two_mutexes_in_opposite_orders() {
    needs!("gdb");
    let hung = Hung::of("lock_order", &[]);
    let (first, second) = (hung.wait_for("mutex 0x"), hung.report["waits"][1].clone());
    assert!(second["what"].as_str().unwrap().starts_with("mutex 0x"), "{second}");
    hung.is_circle_of(first, &second);
    hung.is_deadlock(&["waits for mutex", "held by thread", "which waits for mutex", "held by"]);
    let taken = [hung.since(first), hung.since(&second)];
    for place in ["take_first at lock_order.c:20", "take_second at lock_order.c:12"] {
        assert!(taken.contains(&format!("taken in {place}")), "{taken:?}");
    }
    let text = hung.place.run_within(&["backtrace", "./made"], LIMIT).stdout;
    in_order(
        &text,
        &[
            "was ended by SIGKILL from outside",
            "take_first () at ",
            // The user's own code is shown, even below many frames of libraries.
            "take_second (lock_order.c:14)",
            "who waits for whom:",
            "deadlock: ",
        ],
    );
    let arguments = ["debug", "./made", "--", "-nx", "-batch", "-ex", "waits", "-ex", "deadlock"];
    let shown = hung.place.run_within(&arguments, LIMIT).stdout;
    assert_eq!(shown.matches("deadlock: thread").count(), 2, "{shown}");
    let arguments =
        ["debug", "./made", "--at", "begin", "--", "-nx", "-batch", "-ex", "waits", "-ex", "when"];
    let shown = hung.place.run_within(&arguments, LIMIT).stdout;
    in_order(&shown, &["no thread waits here", "event "]);
    no_process_is_left(&hung.place);
}

#[test]
fn a_signal_from_outside_is_no_crash() {
    needs!("gdb");
    let place = Place::new("hangs-terminated");
    let program = place.work("lock_order");
    compile_program("hangs/lock_order", &["-g", "-O1"], &program);
    let printed = place.work("printed");
    let mut recorder = start_recording(&place, &[program.to_str().unwrap()], &printed);
    wait_for_output(&printed, READY, LIMIT);
    wait_until_still(&recorder);
    kill_process(program_of(&recorder), Signal::TERM).unwrap();
    recorder.wait(LIMIT);
    let text = place.run_within(&["backtrace", "./made"], LIMIT).stdout;
    in_order(&text, &["was ended by SIGTERM from outside", "deadlock: thread"]);
    assert!(!text.contains("crashed"), "{text}");
    // A signal that a process sends itself counts as a crash.
    place.run_within(&["record", "sh", "-c", "kill -TERM $$"], LIMIT);
    let text = place.run_within(&["backtrace"], LIMIT).stdout;
    assert!(text.contains("crashed: SIGTERM") && !text.contains("from outside"), "{text}");
    // A crash is reported before processes ended from outside, even if those ended earlier.
    let script = "sleep 60 & kill $!; wait $!; sh -c 'kill -SEGV $$; :'; true";
    place.run_within(&["record", "sh", "-c", script], LIMIT);
    let text = place.run_within(&["backtrace"], LIMIT).stdout;
    assert!(text.lines().next().is_some_and(|line| line.contains("crashed: SIGSEGV")), "{text}");
}

#[test]
fn all_processes_are_ended_at_once_when_their_time_is_up() {
    needs!("gdb");
    let place = Place::new("hangs-timeout");
    let program = place.work("pipes");
    compile_program("hangs/pipes", &["-g", "-O1"], &program);
    let ran = place.run_within(&["record", "--timeout", "3", program.to_str().unwrap()], LIMIT);
    assert_eq!(ran.status, Some(124), "{ran:?}");
    let text = place.run_within(&["backtrace"], LIMIT).stdout;
    assert_eq!(text.matches("was ended by SIGTERM from outside").count(), 2, "{text}");
    in_order(&text, &["deadlock: process", "from a pipe", "which waits for data from a pipe"]);
}

#[test]
fn a_read_write_lock() {
    needs!("gdb");
    let hung = Hung::of("rwlock", &[]);
    let (table, log) = (hung.wait_for("rwlock 0x"), hung.wait_for("mutex 0x"));
    hung.is_circle_of(table, log);
    assert_eq!(table["helpers"][0]["how"], "held for reading by");
    assert_eq!(hung.since(table), "taken in read_and_log at rwlock.c:12");
    hung.is_deadlock(&["rwlock", "<table>, held for reading by", "mutex", "<log_lock>, held by"]);
}

#[test]
fn a_semaphore_that_nobody_posts() {
    needs!("gdb");
    let hung = Hung::of("semaphore", &[]);
    hung.is_circle_of(hung.wait_for("the end of a thread"), hung.wait_for("semaphore 0x"));
    hung.is_deadlock(&["the end of a thread, that is", "semaphore", "<wanted>"]);
}

#[test]
fn a_condition_whose_signal_was_lost() {
    needs!("gdb");
    let hung = Hung::of("condition", &[]);
    hung.is_circle_of(hung.wait_for("the end of a thread"), hung.wait_for("condition variable"));
    hung.is_deadlock(&["the end of a thread, that is", "condition variable", "<changed>"]);
}

#[test]
fn threads_that_join_each_other() {
    needs!("gdb");
    let hung = Hung::of("join", &[]);
    let waits = hung.report["waits"].as_array().unwrap();
    hung.is_circle_of(&waits[0], &waits[1]);
    hung.is_deadlock(&["the end of a thread, that is", "the end of a thread, that is"]);
}

#[test]
fn processes_that_read_from_each_other() {
    needs!("gdb");
    for (arguments, what) in [(&[][..], "data from a pipe"), (&["x"], "data from a pair of")] {
        let hung = Hung::of("pipes", arguments);
        let waits = hung.report["waits"].as_array().unwrap();
        hung.is_circle_of(&waits[0], &waits[1]);
        assert_eq!(hung.report["ended"].as_array().unwrap().len(), 2, "{}", hung.report);
        hung.is_deadlock(&["process", what, "whose other end is open in process", what]);
    }
}

#[test]
fn locks_on_files() {
    needs!("gdb");
    for arguments in [&[][..], &["x"]] {
        let hung = Hung::of("files", arguments);
        let (a, b) = (hung.wait_for("a lock on a"), hung.wait_for("a lock on b"));
        hung.is_circle_of(a, b);
        assert!(hung.since(a).starts_with("taken with its event "), "{a}");
        hung.is_deadlock(&["a lock on ", "held by process", "a lock on ", "held by process"]);
    }
}

#[test]
fn a_parent_that_waits_for_a_child_that_waits_for_it() {
    needs!("gdb");
    let hung = Hung::of("child", &[]);
    hung.is_circle_of(hung.wait_for("the end of a child"), hung.wait_for("data from a pipe"));
    hung.is_deadlock(&["the end of a child, that is process", "data from a pipe"]);
}

#[test]
fn mutexes_of_cpp() {
    needs!("gdb", "g++");
    let hung = Hung::new("hangs-cpp", |place| {
        let program = place.work("locks");
        compile_with("g++", "hangs/locks.cc", &["-g", "-pthread"], &program);
        vec![program.to_str().unwrap().to_owned()]
    });
    let waits = hung.report["waits"].as_array().unwrap();
    hung.is_circle_of(&waits[0], &waits[1]);
    assert_eq!(hung.since(&waits[0]), "taken in take at locks.cc:21", "{}", hung.report);
    hung.is_deadlock(&["mutex", "held by thread", "mutex", "held by thread"]);
}

#[test]
fn mutexes_of_rust() {
    needs!("gdb", "rustc");
    let hung = Hung::new("hangs-rust", |place| {
        let program = place.work("locks");
        let status = Command::new("rustc")
            .args(["-g", "-o"])
            .args([&program, &source_file("hangs/locks.rs")])
            .status()
            .unwrap();
        assert!(status.success());
        vec![program.to_str().unwrap().to_owned()]
    });
    let waits = hung.report["waits"].as_array().unwrap();
    hung.is_circle_of(&waits[0], &waits[1]);
    assert_eq!(hung.since(&waits[0]), "taken in locks::lock_both at locks.rs:6");
    hung.is_deadlock(&["mutex", "held by thread", "mutex", "held by thread"]);
}

#[test]
fn locks_of_python() {
    needs!("gdb", "python3");
    let hung = Hung::new("hangs-python", |_| {
        let script = source_file("hangs/locks.py");
        vec!["python3".to_owned(), script.to_str().unwrap().to_owned()]
    });
    hung.is_deadlock(&["thread", "which waits for"]);
    let version = hung.place.command_of("python3", &["--version"]).output().unwrap();
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    // The positions of Python's frames are known only for these versions.
    if ["3.11.", "3.12.", "3.13."].iter().any(|known| version.contains(known)) {
        let threads = hung.report["ended"][0]["threads"].as_array().unwrap();
        for thread in threads {
            let innermost = &thread["python"][0];
            assert_eq!((&innermost["function"], &innermost["line"]), (&"take".into(), &12.into()));
        }
        assert_eq!(threads.len(), 2, "{}", hung.report);
        let text = hung.place.run_within(&["backtrace", "./made"], LIMIT).stdout;
        in_order(&text, &["in Python:", "take (locks.py:12)", "take at locks.py:9"]);
    }
}

#[test]
fn who_never_began_was_not_ended() {
    let place = Place::new("hangs-unborn");
    let script = "
import os
for i in range(30):
    child = os.fork()
    if child:
        os.kill(child, 9)
        os.waitpid(child, 0)
    else:
        os._exit(0)
";
    needs!("python3");
    fs::write(place.work("unborn.py"), script).unwrap();
    let ran = place.run_within(&["record", "python3", "unborn.py"], LIMIT);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let text = place.run_within(&["backtrace"], LIMIT).stdout;
    assert!(!text.contains("from outside"), "{text}");
    let processes = place.run_json(&["ps", "--json"]);
    for process in processes.as_array().unwrap() {
        let is_unborn = process["pid"] == 0;
        assert_eq!(process["end"] == "unborn", is_unborn, "{process}");
    }
}

/// The replayed process among a replay's children, if it is there.
fn replayed_by(replay: &Started) -> Option<i32> {
    let pid = replay.pid().as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let executed = fs::read_link(format!("/proc/{child}/exe")).ok()?;
        executed.to_string_lossy().contains("retake-replay").then(|| child.parse().ok())?
    })
}

/// On a busy machine, threads that were woken may get no processor for long. Nobody is stuck then.
#[test]
fn threads_that_get_no_processor_are_not_stuck() {
    let place = Place::new("hangs-starved");
    let program = place.work("program");
    compile_program("hangs/handed_over", &["-O1", "-pthread"], &program);
    let recording = place.work("recording");
    let recording = recording.to_str().unwrap();
    place.run_well(&["record", "-o", recording, program.to_str().unwrap()]);
    let mut replay = Started::new(&mut place.command(&["replay", "--quiet", recording]));
    let mut stops = 0;
    while stops < 4 && replay.0.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
        let Some(process) = replayed_by(&replay).and_then(Pid::from_raw) else { continue };
        kill_process(process, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(1000));
        let _ = kill_process(process, Signal::CONT);
        stops += 1;
    }
    assert!(stops > 0, "it was over too soon");
    assert_eq!(replay.wait(LIMIT).code(), Some(0));
}
