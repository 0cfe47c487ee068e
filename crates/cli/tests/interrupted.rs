//! Programs that are told to end while they are recorded: their recordings are whole, and replay to the same state.

mod cli_support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use std::os::unix::process::{CommandExt, ExitStatusExt};

use cli_support::Place;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const TIME_LIMIT: Duration = Duration::from_secs(20);

fn executable(name: &str, place: &Place) -> PathBuf {
    let executable = place.work(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interrupted").join(format!("{name}.c"));
    let flags = ["-std=gnu11", "-O1", "-g", "-Wno-unused-result", "-pthread", "-o"];
    let output = Command::new("gcc").args(flags).arg(&executable).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    executable
}

/// A recorder whose program has said that it is ready. Killed if the test fails.
struct Recording {
    child: Child,
    output: BufReader<ChildStdout>,
    first_line: String,
}

impl Recording {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut child = place.command(arguments).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut first_line = String::new();
        output.read_line(&mut first_line).unwrap();
        assert!(first_line.starts_with("ready"), "{first_line:?}");
        Self { child, output, first_line }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the end. Returns the status and everything that was printed.
    fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + TIME_LIMIT;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => panic!("the recorder does not end"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut printed = self.first_line.clone();
        self.output.read_to_string(&mut printed).unwrap();
        (status, printed)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Replay counts the rounds of a program that spins: that takes several times as long as it span.
const SPINNING: Duration = Duration::from_secs(150);

/// The recording has an end, no damage, and replays as the program ended.
fn check_replay(place: &Place, status: ExitStatus, printed: &str) {
    let info = place.run(&["info", "--verify"]);
    assert_eq!(info.status, Some(0), "{info:?}");
    for _ in 0..2 {
        let replayed = place.run_within(&["replay", "--check=full"], SPINNING);
        assert_eq!((replayed.status, replayed.signal), (status.code(), status.signal()), "{replayed:?}");
        assert_eq!((replayed.stdout.as_str(), replayed.stderr.as_str()), (printed, ""));
    }
}

#[test]
fn programs_that_stand_or_spin_are_ended_by_a_signal_to_the_recorder() {
    let place = Place::new("interrupted-kill");
    for name in ["deadlocked", "spinning"] {
        let executable = executable(name, &place);
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let recording = Recording::start(&place, &["record", executable.to_str().unwrap()]);
            std::thread::sleep(Duration::from_millis(50)); // the other thread comes to where it stays
            kill_process(recording.pid(), signal).unwrap();
            let (status, printed) = recording.end();
            assert_eq!(status.signal(), Some(signal.as_raw()), "{name}");
            check_replay(&place, status, &printed);
        }
    }
}

/// As a shell would run it: on a terminal of its own, whose user presses Ctrl-C.
#[test]
fn a_deadlock_is_ended_by_control_c() {
    if !Command::new("script").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no `script`, which makes a terminal (package bsdutils or util-linux)");
        return;
    }
    let place = Place::new("interrupted-pty");
    let executable = executable("deadlocked", &place);
    let command = format!("{} record {}", env!("CARGO_BIN_EXE_retake"), executable.display());
    let mut child = place.command_of("script", &["-qec", &command, "/dev/null"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let mut recording = Recording { child, output, first_line: line };
    assert!(recording.first_line.starts_with("ready"), "{:?}", recording.first_line);
    std::thread::sleep(Duration::from_millis(50));
    keyboard.write_all(b"\x03").unwrap();
    let mut rest = String::new();
    recording.output.read_to_string(&mut rest).unwrap();
    let (status, _) = recording.end();
    assert_eq!(status.code(), Some(128 + Signal::INT.as_raw()), "script passes on how it ended; {rest:?}");
    check_replay(&place, ExitStatus::from_raw(Signal::INT.as_raw()), "ready\n");
}

#[test]
fn a_threaded_server_closes_its_recording_well() {
    let place = Place::new("interrupted-server");
    let executable = executable("server", &place);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let recording = Recording::start(&place, &["record", executable.to_str().unwrap()]);
        let port: u16 = recording.first_line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        for client in 0..6 {
            let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
            connection.set_read_timeout(Some(TIME_LIMIT)).unwrap();
            let mut answer = [0];
            connection.write_all(&[client]).unwrap();
            connection.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [client + 1]);
        }
        kill_process(recording.pid(), signal).unwrap();
        let (status, printed) = recording.end();
        assert_eq!(status.code(), Some(0));
        assert!(printed.ends_with(&format!("signal {}, served 6\n", signal.as_raw())), "{printed:?}");
        check_replay(&place, status, &printed);
    }
}
