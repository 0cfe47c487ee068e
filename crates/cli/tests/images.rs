//! Images of recorded processes: `retake record --image-every`, `retake replay --from`. Programs
//! that ran already: `retake record -p`.

mod cli_support;

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

use cli_support::debugging::{gdb, in_order, left_behind, no_process_is_left};
use cli_support::started::{Started, state_of, wait_for_output, wait_until};
use cli_support::{Place, compile_program};
use retake_testing::needs;
use serde_json::Value;

/// The time limit of these programs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(100);

/// Records a program of tests/images in `made` until there are `count` images. Returns its exit
/// status and its output.
fn record_images(place: &Place, program: &str, options: &[&str], count: usize) -> (i32, String) {
    let executable = place.work(program);
    compile_program(&format!("images/{program}"), &["-O1", "-lm"], &executable);
    let executable = executable.to_str().unwrap();
    let arguments = ["record", "-o", "made", "--image-every", "20ms"];
    let arguments = [&arguments[..], options, &["--", executable]].concat();
    let printed = place.work("printed");
    let output = File::create(&printed).unwrap();
    let mut recorder =
        Started::new(place.command(&arguments).stdout(output).stderr(Stdio::inherit()));
    let folder = place.work("made/checkpoints");
    wait_until("images", LIMIT, || {
        fs::read_dir(&folder).is_ok_and(|entries| entries.count() > count)
    });
    File::create(place.work("enough")).unwrap();
    let status = recorder.wait(LIMIT);
    no_process_is_left(place);
    (status.code().expect("it exits"), fs::read_to_string(printed).unwrap())
}

fn images(place: &Place) -> Vec<Value> {
    let list = place.run_json(&["checkpoint", "--list", "--json", "made"]);
    list.as_array().unwrap().clone()
}

/// Replays from each image. Each replay ends as the program did, and prints the rest of its output.
/// A later image prints no more than an earlier one; the last may print nothing.
fn all_are_good(place: &Place, status: i32, printed: &str) {
    let mut all = images(place);
    // A short-lived child may have one, too.
    let process = all[0]["summary"]["pid"].clone();
    all.retain(|image| image["summary"]["pid"] == process);
    assert!(all.len() > 2, "{all:?}");
    let mut rest = printed;
    for (index, image) in all.iter().enumerate() {
        let number = image["number"].to_string();
        let ran = place.run_within(&["replay", "--from", &number, "made"], LIMIT);
        assert_eq!(ran.status, Some(status), "{ran:?}");
        assert!(rest.ends_with(&ran.stdout), "{rest}\n{ran:?}");
        assert!(index > 0 || !ran.stdout.is_empty(), "{ran:?}");
        rest = &rest[rest.len() - ran.stdout.len()..];
    }
    no_process_is_left(place);
}

#[test]
fn replay_begins_at_every_image() {
    let place = Place::new("images-memory");
    let (status, printed) = record_images(&place, "memory", &["--check=full"], 4);
    assert_eq!(status, 3);
    in_order(&printed, &["0 ", "end "]);
    all_are_good(&place, status, &printed);
    // The recording itself replays as usual.
    let ran = place.run_within(&["replay", "made"], LIMIT);
    assert_eq!((ran.status, ran.stdout), (Some(3), printed));
}

#[test]
fn threads_go_on_wherever_they_wait() {
    let place = Place::new("images-threads");
    let (status, printed) = record_images(&place, "threads", &["--check=full"], 6);
    assert_eq!(status, 5, "{printed}");
    all_are_good(&place, status, &printed);
}

/// The copy has memory that children do not get. They still do not get it, also at replay.
#[test]
fn memory_that_children_do_not_get_is_in_images() {
    let place = Place::new("images-kept-back");
    let (status, printed) = record_images(&place, "kept_back", &["--check=full"], 6);
    assert_eq!(status, 4, "{printed}");
    assert!(printed.lines().all(|line| line.contains(": 24 ") || line.starts_with("end ")));
    all_are_good(&place, status, &printed);
}

/// Memory that is mapped shared has all its views, and is shared with later children.
#[test]
fn memory_that_nobody_else_shares_is_in_images() {
    let place = Place::new("images-shares");
    let (status, printed) = record_images(&place, "shares", &["--check=full"], 6);
    assert_eq!(status, 6, "{printed}");
    assert!(printed.contains(" ends: 0 wrong"), "{printed}");
    all_are_good(&place, status, &printed);
}

/// They have their images together, also those that wait all the time. Each image leads to all.
#[test]
fn processes_that_share_memory_have_images_together() {
    let place = Place::new("images-sharers");
    let (status, printed) = record_images(&place, "sharers", &["--check=full"], 24);
    assert_eq!(status, 7, "{printed}");
    assert!(printed.contains("all end: 3, "), "{printed}");
    all_are_good(&place, status, &printed);

    let all = images(&place);
    let groups = all.chunk_by(|one, other| one["summary"]["group"] == other["summary"]["group"]);
    let group = groups.last().unwrap();
    let count = group[0]["summary"]["group"]["count"].as_u64().unwrap();
    assert!(count == group.len() as u64 && count >= 4, "{group:?}");
    // Without the others, an image is of no use.
    let [first, last] = [&group[0], &group[group.len() - 1]].map(|one| one["number"].to_string());
    place.run_well(&["checkpoint", "--delete", &last, "made"]);
    place.run_badly(
        &["replay", "--from", &first, "made"],
        125,
        &["share memory with it are missing"],
    );
}

/// All processes that share memory take turns with each other. Replay from an image of one of them
/// does not make those that begin later.
#[test]
fn images_of_processes_that_are_joined_later_are_refused() {
    let place = Place::new("images-joined");
    let executable = place.work("shares");
    compile_program("images/shares", &["-O1", "-pthread"], &executable);
    fs::create_dir(place.work("more")).unwrap();
    let script = "./shares > first & until test -e more/enough; do sleep 0.05; done; \
                  cd more; ../shares > second; touch ../enough; wait; exit 5";
    let arguments = ["record", "-o", "made", "--image-every", "20ms", "--", "sh", "-c", script];
    let mut recorder = Started::new(&mut place.command(&arguments));
    let shared = || {
        let list = place.run(&["checkpoint", "--list", "--json", "made"]).stdout;
        let all: Vec<Value> = serde_json::from_str(&list).unwrap_or_default();
        all.into_iter().find(|image| image["summary"]["shares_turns"] == true)
    };
    wait_until("an image", LIMIT, || shared().is_some());
    File::create(place.work("more/enough")).unwrap();
    assert_eq!(recorder.wait(LIMIT).code(), Some(5));
    let first = shared().unwrap();
    let number = first["number"].to_string();
    place.run_badly(&["replay", "--from", &number, "made"], 125, &["takes turns with process"]);
    // The shell shares no memory. Its second child takes turns with the first one, which began
    // before the image.
    let since = |one: &Value| one["summary"]["after_ms"].as_u64();
    let shell = |one: &&Value| one["summary"]["program"][0] == 0 && since(one) >= since(&first);
    let number = images(&place).iter().find(shell).unwrap()["number"].to_string();
    place.run_badly(&["replay", "--from", &number, "made"], 125, &["takes turns with process"]);
    let ran = place.run_within(&["replay", "--check=full", "made"], LIMIT);
    assert_eq!(ran.status, Some(5), "{ran:?}");
}

#[test]
fn the_program_sees_nothing_of_images() {
    let place = Place::new("images-unseen");
    let (status, printed) = record_images(&place, "unseen", &[], 4);
    assert_eq!((status, printed.as_str()), (0, "nothing was seen\n"));
}

#[test]
fn the_debugger_begins_at_images() {
    needs!("gdb");
    let place = Place::new("images-debugger");
    record_images(&place, "memory", &[], 20);
    let at_exit = ["--at", "exit", "made"];
    let told = gdb(&place, &at_exit, &["reverse-stepi", "monitor hash"]);
    in_order(&told, &["_exit", "retake: begins at checkpoint"]);
    // Without images the whole recording is replayed, to the same state.
    place.run_well(&["checkpoint", "--delete", "all", "made"]);
    let replayed = gdb(&place, &at_exit, &["reverse-stepi", "monitor hash"]);
    let hash = |text: &str| {
        let is_hash =
            |line: &&str| line.len() == 16 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        text.lines().find(is_hash).map(str::to_owned)
    };
    assert!(hash(&told).is_some() && hash(&told) == hash(&replayed), "{told}\n{replayed}");
}

#[test]
fn images_that_there_are_not_are_told() {
    let place = Place::new("images-none");
    place.run(&["record", "-o", "made", "--", "true"]);
    place.run_badly(&["replay", "--from", "last", "made"], 125, &["no image", "--image-every"]);
    place.run_badly(&["replay", "--from", "soon", "made"], 125, &["expected a number"]);
    place.run_badly(&["record", "--image-every", "1ms", "--", "true"], 125, &["the least is 10ms"]);
    for (option, value, why) in
        [("--policy", "sync", "in parallel"), ("--on-full", "drop-oldest", "would stay")]
    {
        let arguments = ["record", "--image-every", "1s", option, value, "--", "true"];
        place.run_badly(&arguments, 125, &[why]);
    }
    fs::remove_dir_all(place.work("made")).unwrap();
    record_images(&place, "unseen", &[], 2);
    place.run_badly(&["replay", "--from", "999", "made"], 125, &["no such image"]);
}

/// A program of tests/images, which runs until the file `enough` exists.
fn compiled(place: &Place, program: &str) -> Command {
    let executable = place.work(program);
    compile_program(&format!("images/{program}"), &["-O1", "-g", "-pthread"], &executable);
    place.command_of(executable.to_str().unwrap(), &[])
}

/// Starts a program, and waits until it has printed something.
fn start(place: &Place, mut command: Command) -> (Started, i32) {
    let printed = File::create(place.work("printed")).unwrap();
    let started = Started::new(command.stdout(printed));
    wait_for_output(&place.work("printed"), 10, LIMIT);
    let pid = started.pid().as_raw_nonzero().get();
    (started, pid)
}

/// What recording changes of a process, as the kernel tells it.
fn as_the_kernel_tells(pid: i32) -> String {
    const FIELDS: [&str; 4] = ["SigCgt", "SigIgn", "TracerPid", "Seccomp"];
    let text = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let (status, maps) = (text("status"), text("maps"));
    let fields = status.lines().filter(|line| FIELDS.iter().any(|field| line.starts_with(field)));
    fields.chain(maps.lines().filter(|line| line.contains("SYSV"))).collect::<Vec<_>>().join("\n")
}

/// Records a running program several times, and lets it go. It ends well, and each recording
/// replays. Returns what it printed.
fn is_recorded_and_let_go(place: &Place, command: Command, status: i32, last: &str) -> String {
    is_recorded_with(&[], place, command, status, last)
}

fn is_recorded_with(
    options: &[&str],
    place: &Place,
    command: Command,
    status: i32,
    last: &str,
) -> String {
    let (mut started, pid) = start(place, command);
    let before = as_the_kernel_tells(pid);
    let mut replayed = String::new();
    for time in ["10ms", "100ms", "300ms"] {
        let made = format!("for-{time}");
        let pid_text = pid.to_string();
        let arguments = ["record", "-o", &made, "-p", &pid_text, "--for", time];
        let ran = place.run(&[&arguments[..], options].concat());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert_eq!(as_the_kernel_tells(pid), before);
        let ran = place.run_within(&["replay", "--check=full", &made], LIMIT);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("the program went on without it"), "{ran:?}");
        let printed = fs::read_to_string(place.work("printed")).unwrap();
        // The last line that a process had printed may not have been logged by then.
        let mut all = printed.lines();
        let is_part = match options.is_empty() {
            true => printed.contains(&ran.stdout),
            false => ran.stdout.lines().all(|line| all.any(|one| one == line)),
        };
        assert!(is_part, "{printed}\n{ran:?}");
        replayed += &ran.stdout;
    }
    assert!(!replayed.is_empty());
    File::create(place.work("enough")).unwrap();
    assert_eq!(started.wait(LIMIT).code(), Some(status));
    let printed = fs::read_to_string(place.work("printed")).unwrap();
    assert!(printed.contains(last), "{printed}");
    no_process_is_left(place);
    printed
}

#[test]
fn a_running_program_is_recorded_and_let_go() {
    let place = Place::new("attach-ticks");
    let last = "wrong 0, backwards 0, outside 0, all blocked 1, stack 1\n";
    is_recorded_and_let_go(&place, compiled(&place, "ticks"), 7, last);
}

/// Its user may not send signals to the recorder.
#[test]
fn a_program_of_another_user_is_recorded_and_let_go() {
    needs!("root");
    let place = Place::new("attach-user");
    let mut command = compiled(&place, "ticks");
    command.arg("65534");
    is_recorded_and_let_go(&place, command, 7, ", all blocked 1, stack 1\n");
}

#[test]
fn running_threads_are_recorded_and_let_go() {
    let place = Place::new("attach-threads");
    is_recorded_and_let_go(&place, compiled(&place, "threads"), 5, "end 1\n");
}

#[test]
fn a_running_program_with_shared_memory_is_recorded_and_let_go() {
    let place = Place::new("attach-shares");
    is_recorded_and_let_go(&place, compiled(&place, "shares"), 6, " ends: 0 wrong");
}

/// One of them waits for a signal all the time, and one makes children.
#[test]
fn running_processes_that_share_memory_are_recorded_together() {
    let place = Place::new("attach-sharers");
    let printed = is_recorded_and_let_go(&place, compiled(&place, "sharers"), 7, "all end: 3, ");
    let ends = printed.lines().filter(|line| line.contains(" ends: ")).count();
    assert_eq!(ends, 3, "{printed}");
    let processes = place.run(&["ps", "--json", "for-10ms"]).stdout;
    assert!(processes.matches("\"pid\":").count() >= 4, "{processes}");
    // Each of them can be debugged, with the others beside it.
    let stacks = place.run_within(&["backtrace", "for-100ms"], LIMIT).stdout;
    for function in ["main", "that_waits", "with_thread", "with_children"] {
        assert!(stacks.contains(&format!("{function} ()")), "{stacks}");
    }
}

/// Its children execute programs all the time.
#[test]
fn a_running_shell_is_recorded_and_let_go() {
    let place = Place::new("attach-shell");
    let script =
        "i=0; until test -e enough; do i=$((i+1)); echo $(echo line $i | cat); done; exit 6";
    let command = place.command_of("/bin/sh", &["-c", script]);
    let printed = is_recorded_and_let_go(&place, command, 6, "line 1\n");
    let lines = (1..).zip(printed.lines()).all(|(i, line)| line == format!("line {i}"));
    assert!(lines, "{printed}");
}

/// A shell, a pipeline beside it, and Python with a child of its own.
const TREE: &str = "
python3 -u -c '
import itertools, os, subprocess, time
child = subprocess.Popen([\"sleep\", \"100\"])
open(\"ready\", \"w\")
for i in itertools.count():
    print(\"python\", i)
    time.sleep(0.01)
    if os.path.exists(\"enough\"): break
child.kill()
print(\"child\", child.wait())
' &
i=0
until test -e ready; do sleep 0.01; done
(until test -e enough; do i=$((i+1)); echo beside $i; sleep 0.02; done |
    while read x; do echo $x; done) &
until test -e enough; do i=$((i+1)); echo line $i | cat; done; wait; exit 6";

#[test]
fn running_descendants_are_recorded_and_let_go() {
    let place = Place::new("attach-tree");
    let command = place.command_of("/bin/sh", &["-c", TREE]);
    let printed = is_recorded_with(&["--children"], &place, command, 6, "child -9\n");
    assert!(printed.contains("beside 1\n"), "{printed}");
    let processes: Value =
        serde_json::from_str(&place.run(&["ps", "--json", "for-300ms"]).stdout).unwrap();
    let ran_before = |program: &str, argument: &str| {
        processes.as_array().unwrap().iter().any(|one| {
            let path = one["program"].as_str().unwrap_or_default();
            let arguments = one["arguments"].as_array().unwrap();
            one["parent_pid"].is_null()
                && path.rsplit('/').next().unwrap().starts_with(program)
                && arguments.iter().any(|one| one == argument)
        })
    };
    assert!(ran_before("sleep", "100") && ran_before("python3", "-u"), "{processes}");
    let stack = place.run_within(&["backtrace", "-p", "sleep", "for-100ms"], LIMIT).stdout;
    assert!(stack.contains("sleep)") && stack.contains("#0  "), "{stack}");
}

#[test]
fn what_a_running_program_keeps_from_its_children_stays_so() {
    let place = Place::new("attach-kept");
    let printed = is_recorded_and_let_go(&place, compiled(&place, "kept_back"), 4, "\nend ");
    let rounds = printed.lines().filter(|line| line.starts_with("round"));
    let mut seen: Vec<_> = rounds.filter_map(|line| line.split(' ').nth(2)).collect();
    seen.dedup();
    assert_eq!(seen.len(), 1, "each child sees the same: {printed}");
}

#[test]
fn a_running_program_is_recorded_to_its_end() {
    needs!("gdb");
    let place = Place::new("attach-end");
    let (mut started, pid) = start(&place, compiled(&place, "threads"));
    let mut command = place.command(&["record", "-o", "made", "-p", &pid.to_string()]);
    let mut recorder = Started::new(command.stderr(Stdio::inherit()));
    wait_until("an image", LIMIT, || place.work("made/checkpoints/1").exists());
    std::thread::sleep(Duration::from_millis(50));
    File::create(place.work("enough")).unwrap();
    assert_eq!(recorder.wait(LIMIT).code(), Some(5), "it ends as the program did");
    assert_eq!(started.wait(LIMIT).code(), Some(5));
    let printed = fs::read_to_string(place.work("printed")).unwrap();
    let ran = place.run_within(&["replay", "--check=full", "made"], LIMIT);
    assert_eq!(ran.status, Some(5), "{ran:?}");
    assert!(printed.ends_with(&ran.stdout) && ran.stdout.contains("end 1"), "{printed}\n{ran:?}");
    let commands =
        ["print done", "watch done", "reverse-continue", "bt 1", "seek begin", "print done"];
    let text = gdb(&place, &["--at", "exit", "made"], &commands);
    in_order(&text, &["= 1", "Old value = 1", "New value = 0", "main ()", "No more", "= 0"]);
    no_process_is_left(&place);
}

#[test]
fn a_recorder_that_is_killed_lets_the_program_go() {
    let place = Place::new("attach-killed");
    let (mut started, pid) = start(&place, compiled(&place, "ticks"));
    let before = as_the_kernel_tells(pid);
    let mut recorder =
        Started::new(&mut place.command(&["record", "-o", "made", "-p", &pid.to_string()]));
    wait_until("an image", LIMIT, || place.work("made/checkpoints/1").exists());
    rustix::process::kill_process(recorder.pid(), rustix::process::Signal::KILL).unwrap();
    recorder.wait(LIMIT);
    wait_until("the program to be let go", LIMIT, || as_the_kernel_tells(pid) == before);
    File::create(place.work("enough")).unwrap();
    assert_eq!(started.wait(LIMIT).code(), Some(7));
    let printed = fs::read_to_string(place.work("printed")).unwrap();
    assert!(
        printed.contains("wrong 0, backwards 0, outside 0, all blocked 1, stack 1"),
        "{printed}"
    );
    wait_until("the guardian", LIMIT, || left_behind(&place).is_empty());
    let ran = place.run_within(&["replay", "--check=full", "made"], LIMIT);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

#[test]
fn descendants_that_cannot_be_attached_to_are_named() {
    let place = Place::new("attach-child");
    let script = "sleep 100 & echo this is $!; wait; exit 3";
    let (mut shell, pid) = start(&place, place.command_of("/bin/sh", &["-c", script]));
    let before = as_the_kernel_tells(pid);
    let printed = fs::read_to_string(place.work("printed")).unwrap();
    let child: i32 = printed.split_whitespace().last().unwrap().parse().unwrap();
    wait_until("the program", LIMIT, || {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    let signal = |signal| {
        let child = rustix::process::Pid::from_raw(child).unwrap();
        rustix::process::kill_process(child, signal).unwrap();
    };
    signal(rustix::process::Signal::STOP);
    wait_until("the stop", LIMIT, || state_of(child).is_some_and(|(state, _)| state == 'T'));
    let why = format!("process {child} (sleep) would be recorded with it: ");
    let arguments = ["record", "-p", &pid.to_string(), "--children"];
    place.run_badly(&arguments, 125, &[&why, "it is stopped"]);
    assert_eq!(as_the_kernel_tells(pid), before);
    // Recording ends although one of them is killed.
    signal(rustix::process::Signal::CONT);
    let arguments = ["record", "-o", "made", "-p", &pid.to_string(), "--children"];
    let mut recorder = Started::new(&mut place.command(&arguments));
    wait_until("images", LIMIT, || place.work("made/checkpoints/2").exists());
    signal(rustix::process::Signal::KILL);
    assert_eq!(recorder.wait(LIMIT).code(), Some(3));
    assert_eq!(shell.wait(LIMIT).code(), Some(3));
    let ran = place.run_within(&["replay", "--check=full", "made"], LIMIT);
    assert_eq!(ran.status, Some(3), "{ran:?}");
}

#[test]
fn what_cannot_be_attached_to_is_named() {
    let place = Place::new("attach-refused");
    let refused = |pid: i32, why: &str| {
        let pid = pid.to_string();
        place.run_badly(&["record", "-p", &pid, "--for", "10ms"], 125, &[why]);
    };
    refused(i32::MAX, "there is no process");
    let (program, pid) = start(&place, compiled(&place, "ticks"));
    let stopped = |signal| rustix::process::kill_process(program.pid(), signal).unwrap();
    stopped(rustix::process::Signal::STOP);
    wait_until("the stop", LIMIT, || state_of(pid).is_some_and(|(state, _)| state == 'T'));
    refused(pid, "it is stopped");
    stopped(rustix::process::Signal::CONT);
    let mut recorder = Started::new(&mut place.command(&["record", "-p", &pid.to_string()]));
    wait_until("recording", LIMIT, || as_the_kernel_tells(pid).contains("SYSV"));
    refused(pid, "it is recorded already");
    rustix::process::kill_process(recorder.pid(), rustix::process::Signal::INT).unwrap();
    assert_eq!(recorder.wait(LIMIT).code(), Some(0));
    place.run_badly(&["record", "-p", &pid.to_string(), "true"], 125, &["cannot be used with"]);
}
