//! Faults around a recording: killed supervisors and programs, full disks, closed pipes, cut files,
//! users without privileges.

mod cli_support;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cli_support::started::{Started, state_of, wait_until};
use cli_support::{Place, Ran};
use retake_testing::needs;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time in which the processes and segments of a killed supervisor must disappear.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// The numbers of all processes.
fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Waits until a child of `parent` executes a program with that name.
fn child_called(parent: Pid, name: &str) -> Pid {
    let mut found = None;
    let parent = parent.as_raw_nonzero().get();
    wait_until(name, PATIENCE, || {
        found = processes().find(|&pid| {
            state_of(pid).is_some_and(|(_, its_parent)| its_parent == parent)
                && fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|found| found.trim_end() == name)
        });
        found.is_some()
    });
    // The exec has happened, but the runtime needs time to begin.
    sleep(Duration::from_millis(200));
    Pid::from_raw(found.unwrap()).unwrap()
}

/// The living processes with this variable in their environment.
fn marked(variable: &str) -> Vec<i32> {
    let is_marked = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes())
    };
    processes().filter(is_marked).collect()
}

/// The number of shared-memory segments that a process made.
fn segments_of(pid: Pid) -> usize {
    let wanted = pid.as_raw_nonzero().to_string();
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    text.lines().filter(|line| line.split_ascii_whitespace().nth(4) == Some(&wanted)).count()
}

/// Replays the latest recording. It must end as given, print `stdout`, and report no error.
fn replays(place: &Place, status: Option<i32>, signal: Option<i32>, stdout: &str) {
    let ran = place.run(&["replay"]);
    assert_eq!((ran.status, ran.signal), (status, signal), "{ran:?}");
    assert_eq!(ran.stdout, stdout, "{ran:?}");
    assert!(!ran.stderr.contains("error"), "{ran:?}");
}

#[test]
fn a_killed_supervisor_leaves_nothing_but_a_recording_that_replays() {
    let place = Place::new("killed-supervisor");
    let mark = format!("RETAKE_TEST_MARK={}-supervisor", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let script = "i=0; while :; do i=$((i+1)); echo line $i; /bin/true; (echo sub $i); done";
    let printed = place.work("printed");
    let mut supervisor = Started::new(
        place
            .command(&["record", "--", "sh", "-c", script])
            .env(name, value)
            .stdout(File::create(&printed).unwrap()),
    );
    wait_until("output", PATIENCE, || fs::metadata(&printed).unwrap().len() > 2000);
    // The user may end all processes with the supervisor's name. The guardian ignores that.
    kill_process(child_called(supervisor.pid(), "guardian"), Signal::TERM).unwrap();
    kill_process(supervisor.pid(), Signal::KILL).unwrap();
    supervisor.wait(PATIENCE);
    wait_until("the recorded processes to end", CLEAN_UP, || marked(&mark).is_empty());
    wait_until("shared memory to vanish", CLEAN_UP, || segments_of(supervisor.pid()) == 0);
    assert_eq!(place.recordings(), ["latest", "sh-1"]);
    let mut left: Vec<_> = fs::read_dir(place.recording("sh-1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["events", "files", "recording.json"]);
    assert_eq!(place.scratch(), [""; 0]);
    let ran = place.run(&["replay"]);
    let printed = fs::read_to_string(&printed).unwrap();
    // A shell reports that its child was killed: in an exec, the kernel kills the child at once.
    assert_eq!(ran.stderr.replace("Killed\n", ""), "", "{ran:?}");
    // A process may have been killed after it printed, and before it could log that.
    assert!(
        printed.len() - ran.stdout.len() < 20,
        "{} bytes of {}",
        ran.stdout.len(),
        printed.len()
    );
    assert!(printed.starts_with(&ran.stdout), "{printed:?} does not begin with {ran:?}");
    assert_eq!(place.scratch(), [""; 0]);
}

#[test]
fn a_killed_replay_leaves_nothing() {
    let place = Place::new("killed-replay");
    // This is more than a pipe holds, so that the replay waits for its reader.
    let script = "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); echo line $i of many; done";
    place.run_well(&["record", "--", "sh", "-c", script]);
    let mut replay = Started::new(place.command(&["replay"]).stdout(Stdio::piped()));
    replay.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert_eq!(place.scratch().len(), 1);
    assert_ne!(segments_of(replay.pid()), 0);
    kill_process(replay.pid(), Signal::KILL).unwrap();
    replay.wait(PATIENCE);
    wait_until(
        "the replayed processes to end, and their shared memory with them",
        CLEAN_UP,
        || segments_of(replay.pid()) == 0,
    );
    wait_until("the folder of the replay to vanish", CLEAN_UP, || place.scratch().is_empty());
}

#[test]
fn programs_killed_from_outside_end_the_same_way_at_replay() {
    for (signal, status) in [(Signal::KILL, 137), (Signal::TERM, 143), (Signal::SEGV, 139)] {
        let place = Place::new(&format!("killed-{status}"));
        let mut supervisor = Started::new(&mut place.command(&["record", "sleep", "100"]));
        let program = child_called(supervisor.pid(), "sleep");
        kill_process(program, signal).unwrap();
        let ended = supervisor.wait(PATIENCE);
        assert_eq!(ended.signal().map(|number| 128 + number), Some(status));
        replays(&place, None, Some(status - 128), "");
    }
}

#[test]
fn a_signal_to_the_supervisor_alone_reaches_the_program() {
    let place = Place::new("passed-on");
    let mut supervisor = Started::new(&mut place.command(&["record", "sleep", "100"]));
    child_called(supervisor.pid(), "sleep");
    kill_process(supervisor.pid(), Signal::TERM).unwrap();
    assert_eq!(supervisor.wait(PATIENCE).signal(), Some(15));
    replays(&place, None, Some(15), "");
}

#[test]
fn a_parent_goes_on_when_its_child_is_killed() {
    let place = Place::new("killed-child");
    let script = "end() { sleep 0.2; kill -9 $1; wait $1; echo ended $?; } 2> /dev/null
        sleep 100 & end $!
        (while :; do :; done) & end $!
        (trap '' TERM; while :; do echo x; done) > /dev/null & end $!
        (sleep 100) & kill -9 $!; wait $! 2> /dev/null; echo ended $?
        echo done";
    let expected = "ended 137\nended 137\nended 137\nended 137\ndone\n";
    let ran = place.run(&["record", "sh", "-c", script]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), expected), "{ran:?}");
    replays(&place, Some(0), None, expected);
}

#[test]
fn a_killed_process_group_leaves_a_recording() {
    let place = Place::new("killed-group");
    let script = "sleep 100 & (sleep 100 &) ; echo before; sleep 0.3; kill -9 0; echo after";
    let ran = place.run(&["record", "--", "sh", "-c", script]);
    assert_eq!((ran.signal, ran.stdout.as_str()), (Some(9), "before\n"), "{ran:?}");
    replays(&place, None, Some(9), "before\n");
}

#[test]
fn children_killed_before_they_begin_hold_nobody_up() {
    let place = Place::new("unborn");
    let script = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); (:) & kill -9 $!; done; wait; echo end";
    let ran = place.run(&["record", "sh", "-c", script]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "end\n"), "{ran:?}");
    assert_eq!(ran.stderr.matches("retake: ").count(), 0, "{ran:?}");
    replays(&place, Some(0), None, "end\n");
}

#[test]
fn a_user_without_privileges_can_record_and_replay() {
    const NOBODY: u32 = 65534;
    needs!("root", "setpriv");
    let folder = std::env::temp_dir().join(format!("retake-nobody-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let binary = folder.join("retake");
    fs::copy(env!("CARGO_BIN_EXE_retake"), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let home = folder.join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    let run = |arguments: &[&str]| {
        let user = NOBODY.to_string();
        let output = Command::new("setpriv")
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .arg(&binary)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C")
            .env("RETAKE_DIR", home.join("retake"))
            .env("TMPDIR", &home)
            .current_dir(&home)
            .stdin(Stdio::null())
            .output();
        Ran::of(output.unwrap(), arguments)
    };
    let programs: [&[&str]; 4] = [
        &["true"],
        &["id", "-u"],
        &["sh", "-c", "for i in 1 2 3; do echo $i | cat; done; exit 3"],
        &["ls", "-l", "/"],
    ];
    for program in programs {
        let recorded = run(&[&["record", "--"], program].concat());
        let replayed = run(&["replay"]);
        assert_eq!(recorded.stderr, "", "{recorded:?}");
        assert_eq!(
            (recorded.status, &recorded.stdout),
            (replayed.status, &replayed.stdout),
            "{replayed:?}"
        );
    }
    let listed = run(&["ls"]);
    for name in ["true-1", "id-1", "sh-1", "ls-1"] {
        assert!(listed.stdout.contains(name), "{listed:?}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn replay_ends_when_nobody_reads_its_output() {
    let place = Place::new("broken-pipe");
    let script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo some line number $i; done";
    place.run_well(&["record", "sh", "-c", script]);
    let mut reader_left = place.command(&["replay"]);
    let mut child = reader_left.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap(), &["reader left"]);
    assert!(ran.status == Some(0) || ran.signal == Some(13), "{ran:?}");
    assert_eq!(ran.stderr, "", "{ran:?}");
    for redirection in [">&-", ">&- 2>&-", "< /dev/null >&- 2>&- <&-"] {
        let retake = env!("CARGO_BIN_EXE_retake");
        let line = format!("\"$0\" replay {redirection}");
        let mut shell = place.command_of("sh", &["-c", &line]);
        shell.arg(retake);
        let ended = Started::new(&mut shell).wait(PATIENCE);
        assert_eq!(ended.code(), Some(0), "{redirection}: {ended}");
    }
    assert_eq!(place.scratch(), [""; 0]);
}

/// Starts a command line on its own terminal.
fn on_a_terminal(place: &Place, line: &str) -> Started {
    let mut script =
        place.command_of("script", &["--quiet", "--return", "--command", line, "typescript"]);
    Started::new(script.stdin(Stdio::piped()).stdout(Stdio::null()))
}

/// Records a program on its own terminal, and types Ctrl-C when `name` runs. Returns the status
/// that a shell reports.
fn interrupted_on_a_terminal(place: &Place, name: &str, program: &str) -> Option<i32> {
    let retake = env!("CARGO_BIN_EXE_retake");
    let line = format!("exec {retake} record {program}");
    let mut terminal = on_a_terminal(place, &line);
    let mut supervisor = None;
    wait_until("the supervisor", PATIENCE, || {
        let script = terminal.pid().as_raw_nonzero().get();
        supervisor = processes().find(|&pid| {
            state_of(pid).is_some_and(|(_, parent)| parent == script)
                && fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|found| found.trim_end() == "retake")
        });
        supervisor.is_some()
    });
    child_called(Pid::from_raw(supervisor.unwrap()).unwrap(), name);
    let mut keyboard = terminal.0.stdin.take().unwrap();
    keyboard.write_all(b"\x03").unwrap();
    let status = terminal.wait(PATIENCE).code();
    drop(keyboard);
    status
}

#[test]
fn what_was_printed_to_the_terminal_by_name_is_printed_again() {
    needs!("script");
    let place = Place::new("terminal-by-name");
    let retake = env!("CARGO_BIN_EXE_retake");
    let line = format!(
        "exec {retake} record sh -c 'echo one; echo two > /dev/tty; echo three > \"$(tty)\"; echo \
        four > /dev/null'"
    );
    assert!(on_a_terminal(&place, &line).wait(PATIENCE).success());
    replays(&place, Some(0), None, "one\ntwo\nthree\n");
}

#[test]
fn inherited_descriptors_that_lead_to_the_output_are_known() {
    let place = Place::new("inherited-output");
    let retake = env!("CARGO_BIN_EXE_retake");
    let line = format!("{retake} record sh -c 'echo three >&3; echo one' 3>&1");
    let status =
        Started::new(place.command_of("sh", &["-c", &line]).stdout(Stdio::piped())).wait(PATIENCE);
    assert!(status.success());
    replays(&place, Some(0), None, "three\none\n");
}

#[test]
fn an_interrupt_from_the_terminal_ends_the_program() {
    needs!("script");
    let place = Place::new("interrupt");
    let status = interrupted_on_a_terminal(&place, "sleep", "sleep 100");
    assert_eq!(status, Some(130));
    replays(&place, None, Some(2), "");
    let status = interrupted_on_a_terminal(&place, "sh", "sh -c 'while :; do :; done'");
    assert_eq!(status, Some(130));
    replays(&place, None, Some(2), "");
    // A program that handles the signal goes on. It gets the signal once, recorded and replayed.
    let handles = r#"sh -c 'trap "echo caught; exit 5" INT; while :; do sleep 0.05; done'"#;
    assert_eq!(interrupted_on_a_terminal(&place, "sh", handles), Some(5));
    replays(&place, Some(5), None, "caught\n");
}

#[test]
fn a_stopped_program_stops_the_supervisor_and_both_go_on() {
    let place = Place::new("stopped");
    let mut supervisor =
        Started::new(place.command(&["record", "sleep", "1"]).stdout(Stdio::null()));
    let program = child_called(supervisor.pid(), "sleep");
    let is_stopped = |pid: Pid| {
        state_of(pid.as_raw_nonzero().get()).is_some_and(|(state, _)| matches!(state, 'T' | 't'))
    };
    kill_process_group(supervisor.pid(), Signal::TSTP).unwrap();
    wait_until("both to stop", PATIENCE, || is_stopped(program) && is_stopped(supervisor.pid()));
    sleep(Duration::from_millis(300));
    assert!(is_stopped(program) && is_stopped(supervisor.pid()));
    kill_process_group(supervisor.pid(), Signal::CONT).unwrap();
    wait_until("both to go on", PATIENCE, || !is_stopped(program) && !is_stopped(supervisor.pid()));
    assert_eq!(supervisor.wait(PATIENCE).code(), Some(0));
    replays(&place, Some(0), None, "");
}

#[test]
fn a_replayed_script_starts_its_programs_one_after_the_other() {
    const MOST_AT_ONCE: usize = 6;
    let place = Place::new("one-after-the-other");
    place.run_well(&[
        "record",
        "sh",
        "-c",
        "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done",
    ]);
    let mut replay = Started::new(place.command(&["replay"]).stdout(Stdio::null()));
    let pid = replay.pid().as_raw_nonzero().get();
    let mut most = 0;
    let status = loop {
        if let Some(status) = replay.0.try_wait().unwrap() {
            break status;
        }
        let parents: HashMap<i32, i32> =
            processes().filter_map(|pid| Some((pid, state_of(pid)?.1))).collect();
        let is_below = |mut process: i32| {
            while let Some(&parent) = parents.get(&process) {
                if parent == pid {
                    return true;
                }
                process = parent;
            }
            false
        };
        most = most.max(parents.keys().filter(|&&process| is_below(process)).count());
    };
    assert!(status.success(), "{status}");
    assert!(most <= MOST_AT_ONCE, "{most} processes at once");
}

/// The offsets of the frames in an events file, and the end of the last one.
fn frame_boundaries(bytes: &[u8]) -> Vec<usize> {
    const HEADER_BYTES: usize = 64;
    const STORED_BYTES_AT: usize = 36;
    let mut boundaries = vec![0];
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
        let stored = header[STORED_BYTES_AT..STORED_BYTES_AT + 4].try_into().unwrap();
        at += HEADER_BYTES + (u32::from_le_bytes(stored) as usize).next_multiple_of(8);
        boundaries.push(at);
    }
    assert_eq!(at, bytes.len(), "frames fill the file");
    boundaries
}

#[test]
fn cut_recordings_replay_a_prefix_or_say_why_not() {
    const MOST_CUTS: usize = 30;
    const LIMIT: Duration = Duration::from_secs(10);
    let place = Place::new("cut");
    let script = "for i in 1 2 3; do echo line $i; sleep 0.05; (echo sub $i); /bin/echo other $i; \
    done; echo end | cat";
    let whole = place.run_well(&["record", "-o", "whole", "sh", "-c", script]);
    let events = place.work("whole/events");
    let bytes = fs::read(&events).unwrap();
    let boundaries = frame_boundaries(&bytes);
    let step = boundaries.len().div_ceil(MOST_CUTS - 2);
    let mut cuts: Vec<usize> = boundaries.iter().copied().step_by(step).collect();
    // Also cut in the middle of a header, and of a frame's data.
    cuts.extend([boundaries[boundaries.len() / 2] + 8, bytes.len() / 2, bytes.len()]);
    cuts.sort_unstable();
    let mut printed = Vec::new();
    for cut in cuts {
        fs::write(&events, &bytes[..cut]).unwrap();
        let start = Instant::now();
        let ran = place.run(&["replay", "./whole"]);
        assert!(start.elapsed() < LIMIT, "cut at {cut}: {ran:?}");
        assert!(whole.starts_with(&ran.stdout), "cut at {cut}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "cut at {cut}: {ran:?}");
        let is_said = ran.stderr.contains("warning: ") || ran.stderr.contains("error: ");
        assert!(is_said || cut == bytes.len(), "nothing said of the cut at {cut}: {ran:?}");
        assert!(ran.status != Some(120), "a cut at {cut} is no divergence: {ran:?}");
        printed.push(ran.stdout.len());
    }
    // Replay uses everything up to the cut. A later cut prints more, and the whole file prints
    // everything.
    assert!(
        printed.is_sorted() && printed.last() == Some(&whole.len()),
        "{printed:?} of {}",
        whole.len()
    );
    printed.dedup();
    assert!(printed.len() >= 4, "{printed:?}");
    assert_eq!(place.scratch(), [""; 0]);
}
