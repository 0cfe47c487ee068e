//! Programs that are ended by a signal while they are recorded. Their recordings are complete, and
//! replay to the same state.

mod cli_support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use std::os::unix::process::ExitStatusExt;

use cli_support::started::Started;
use cli_support::{Place, compile_program};
use retake_testing::needs;
use rustix::process::{Pid, Signal, kill_process};

const TIME_LIMIT: Duration = Duration::from_secs(20);

fn executable(name: &str, place: &Place) -> PathBuf {
    let executable = place.work(name);
    compile_program(
        &format!("interrupted/{name}"),
        &["-O1", "-g", "-Wno-unused-result"],
        &executable,
    );
    executable
}

/// A recorder whose program has reported that it is ready. Dropping it kills the recorder.
struct Recording {
    started: Started,
    output: BufReader<ChildStdout>,
    first_line: String,
}

impl Recording {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut recording = Self::of(place.command(arguments).stdout(Stdio::piped()));
        recording.wait_until_ready();
        recording
    }

    fn wait_until_ready(&mut self) {
        self.output.read_line(&mut self.first_line).unwrap();
        assert!(self.first_line.starts_with("ready"), "{:?}", self.first_line);
    }

    fn of(command: &mut Command) -> Self {
        let mut started = Started::new(command);
        let output = BufReader::new(started.0.stdout.take().unwrap());
        Self { started, output, first_line: String::new() }
    }

    fn pid(&self) -> Pid {
        self.started.pid()
    }

    /// Waits for the recorder's end.
    fn status(&mut self) -> ExitStatus {
        self.started.wait(TIME_LIMIT)
    }

    /// Waits for the recorder's end. Returns its status and the whole output.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.status();
        let mut printed = self.first_line.clone();
        self.output.read_to_string(&mut printed).unwrap();
        (status, printed)
    }
}

/// Checks that the recording is complete and undamaged, and that it replays with this status and
/// output.
fn check_replay(place: &Place, status: ExitStatus, printed: &str) {
    let info = place.run(&["info", "--verify"]);
    assert_eq!(info.status, Some(0), "{info:?}");
    for _ in 0..2 {
        let replayed = place.run(&["replay", "--check=full"]);
        assert_eq!(
            (replayed.status, replayed.signal),
            (status.code(), status.signal()),
            "{replayed:?}"
        );
        assert_eq!((replayed.stdout.as_str(), replayed.stderr.as_str()), (printed, ""));
    }
}

#[test]
fn programs_that_stand_or_spin_are_ended_by_a_signal_to_the_recorder() {
    let place = Place::new("interrupted-kill");
    for name in ["deadlocked", "spinning", "deaf"] {
        let executable = executable(name, &place);
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let recording = Recording::start(&place, &["record", executable.to_str().unwrap()]);
            // This lets the other thread reach the point at which it stays.
            std::thread::sleep(Duration::from_millis(50));
            kill_process(recording.pid(), signal).unwrap();
            let (status, printed) = recording.end();
            assert_eq!(status.signal(), Some(signal.as_raw()), "{name}");
            check_replay(&place, status, &printed);
        }
    }
}

/// Keeps all processors busy until it is dropped.
struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let count = 2 * std::thread::available_parallelism().map_or(2, usize::from);
        let spin = |over: Arc<AtomicBool>| {
            move || {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let threads = (0..count).map(|_| std::thread::spawn(spin(Arc::clone(&over)))).collect();
        Self { over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The signal's thread may be the one that waits for its turn, and find no free processor when its
/// turn comes. The number of stops of the other thread measures that delay, even on a busy machine.
#[test]
fn a_program_that_spins_is_soon_ended_on_a_busy_machine() {
    let place = Place::new("interrupted-busy");
    let executable = executable("spinning", &place);
    let load = Load::start();
    for _ in 0..16 {
        let recording = Recording::start(&place, &["record", executable.to_str().unwrap()]);
        std::thread::sleep(Duration::from_millis(50));
        kill_process(recording.pid(), Signal::INT).unwrap();
        let (status, _) = recording.end();
        assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
        let info = place.run_json(&["info", "--json"]);
        let forced = info
            .pointer("/metadata/outcome/counters/forced_points")
            .and_then(serde_json::Value::as_u64);
        assert!(forced.is_some_and(|count| count <= 10), "{info}");
    }
    drop(load);
}

/// This includes the time before the program exists, when its process is stopped or has not
/// executed it yet.
#[test]
fn a_signal_at_any_moment_of_the_start_ends_the_recorder() {
    let place = Place::new("interrupted-start");
    for delay in (0..120).map(|step| Duration::from_micros(250 * step)) {
        let mut recording =
            Recording::of(place.command(&["record", "sleep", "100"]).stdout(Stdio::piped()));
        std::thread::sleep(delay);
        kill_process(recording.pid(), Signal::TERM).unwrap();
        let status = recording.status();
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "after {delay:?}: {status:?}");
    }
}

/// Runs the command on its own terminal, as a shell does. Its user presses Ctrl-C.
#[test]
fn a_deadlock_is_ended_by_control_c() {
    needs!("script");
    let place = Place::new("interrupted-pty");
    let executable = executable("deadlocked", &place);
    let command = format!("{} record {}", env!("CARGO_BIN_EXE_retake"), executable.display());
    let mut script = place.command_of("script", &["-qec", &command, "/dev/null"]);
    let mut recording = Recording::of(script.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut keyboard = recording.started.0.stdin.take().unwrap();
    recording.wait_until_ready();
    std::thread::sleep(Duration::from_millis(50));
    keyboard.write_all(b"\x03").unwrap();
    let mut rest = String::new();
    recording.output.read_to_string(&mut rest).unwrap();
    let (status, _) = recording.end();
    assert_eq!(
        status.code(),
        Some(128 + Signal::INT.as_raw()),
        "script passes on how it ended; {rest:?}"
    );
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
        assert!(
            printed.ends_with(&format!("signal {}, served 6\n", signal.as_raw())),
            "{printed:?}"
        );
        check_replay(&place, status, &printed);
    }
}
