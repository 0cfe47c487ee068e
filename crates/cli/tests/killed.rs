//! A recorder or a program that is killed while recording leaves a recording of everything that
//! happened, and that recording replays to its end.

mod cli_support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use cli_support::started::{program_of, start_recording, wait_for_output};
use cli_support::{Place, compile_fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// The time limit of a recording or a replay, on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
/// The longest line. A thread may be killed after it printed a line, and before it logged that.
const LONGEST_LINE: usize = 32;

/// Kills the recorder of a program at different times. Replay must print what the program printed.
fn kill_recorders(name: &str, command: &[&str], times: u64) {
    let place = Place::new(name);
    let printed = place.work("printed");
    for time in 0..times {
        let _ = fs::remove_dir_all(place.work("made"));
        let mut recorder = start_recording(&place, command, &printed);
        wait_for_output(&printed, 100, LIMIT);
        std::thread::sleep(Duration::from_millis(37 * time % 300));
        kill_process(recorder.pid(), Signal::KILL).unwrap();
        recorder.wait(LIMIT);
        wait_for_completion(&place);
        let ran = place.run_within(&["replay", "./made"], LIMIT);
        let printed = fs::read_to_string(&printed).unwrap();
        // The guardian stops all processes before it kills them. If the last parent outside of a
        // stopped process group ends, the kernel sends the group SIGHUP. In that case, the
        // recording contains the SIGHUP.
        assert!(matches!(ran.signal, Some(9 | 1)), "time {time}: {ran:?}");
        // A shell reports that its child was killed: in an exec, the kernel kills the child at
        // once.
        assert_eq!(ran.stderr.replace("Killed\n", ""), "", "time {time}");
        assert!(
            printed.starts_with(&ran.stdout) && printed.len() - ran.stdout.len() < LONGEST_LINE,
            "time {time}: {} of {} bytes: {:?}",
            ran.stdout.len(),
            printed.len(),
            printed.get(ran.stdout.len()..)
        );
        let told = place.run_well(&["info", "./made"]);
        assert!(told.contains("recorder was killed"), "{told}");
    }
}

/// Waits until the guardian of a killed recorder has completed the recording.
fn wait_for_completion(place: &Place) {
    cli_support::started::wait_until("the recording to be completed", LIMIT, || {
        let told = place.run_within(&["info", "./made"], LIMIT);
        told.stdout.contains("its guardian completed") && !told.stderr.contains("still being")
    });
}

#[test]
fn a_killed_recorder_of_threads_loses_nothing() {
    let place = Place::new("killed-recorder-program");
    let program = compile_fault(&place, "printers", &[]);
    kill_recorders("killed-recorder-threads", &[&program], 4);
}

#[test]
fn a_killed_recorder_of_processes_loses_nothing() {
    let script = "i=0; while :; do i=$((i+1)); echo line $i; /bin/true; (echo sub $i); done";
    kill_recorders("killed-recorder-processes", &["sh", "-c", script], 2);
}

#[test]
fn a_killed_recorder_of_python_loses_nothing() {
    let script = "
import subprocess, threading
lock = threading.Lock()
def work(number):
    i = 0
    while True:
        i += 1
        with lock: print(number, i, flush=True)
        if i % 100 == 0: subprocess.run(['true'])
for number in range(3): threading.Thread(target=work, args=(number,)).start()
";
    kill_recorders("killed-recorder-python", &["python3", "-c", script], 2);
}

#[test]
fn a_recorder_killed_with_its_guardian_leaves_what_replays() {
    let place = Place::new("killed-guardian");
    let program = compile_fault(&place, "printers", &[]);
    let printed = place.work("printed");
    for time in 0..3 {
        let _ = fs::remove_dir_all(place.work("made"));
        let mut recorder = start_recording(&place, &[&program], &printed);
        wait_for_output(&printed, 100_000, LIMIT);
        let guardian = cli_support::started::guardian_of(&recorder);
        let recorded = program_of(&recorder);
        for pid in [guardian, recorder.pid(), recorded] {
            kill_process(pid, Signal::KILL).unwrap();
        }
        recorder.wait(LIMIT);
        let ran = place.run_within(&["replay", "./made"], LIMIT);
        let printed = fs::read_to_string(&printed).unwrap();
        assert_eq!(ran.signal, Some(9), "time {time}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("warning: ") && !ran.stderr.contains("error"),
            "{}",
            ran.stderr
        );
        assert!(printed.starts_with(&ran.stdout), "time {time}: {} bytes", ran.stdout.len());
    }
}

/// Nobody is left who could end the program. It ends itself where it waits for its recorder.
#[test]
fn a_program_without_recorder_and_guardian_ends() {
    let place = Place::new("killed-both");
    let program = compile_fault(&place, "printers", &[]);
    let printed = place.work("printed");
    let mut recorder = start_recording(&place, &[&program], &printed);
    wait_for_output(&printed, 100_000, LIMIT);
    let guardian = cli_support::started::guardian_of(&recorder);
    let recorded = pidfd_open(program_of(&recorder), PidfdFlags::empty()).unwrap();
    for pid in [guardian, recorder.pid()] {
        kill_process(pid, Signal::KILL).unwrap();
    }
    recorder.wait(LIMIT);
    let mut ended = [PollFd::new(&recorded, PollFlags::IN)];
    let most = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    if poll(&mut ended, Some(&most)).unwrap() == 0 {
        pidfd_send_signal(&recorded, Signal::KILL).unwrap();
        panic!("the program waits");
    }
    let ran = place.run_within(&["replay", "./made"], LIMIT);
    assert_eq!(ran.signal, Some(9), "{}", ran.stderr);
}

#[test]
fn a_program_killed_while_its_threads_compute_replays_to_its_end() {
    let place = Place::new("killed-program");
    let program = compile_fault(&place, "computers", &[]);
    let printed = place.work("printed");
    for time in 0..3 {
        let _ = fs::remove_dir_all(place.work("made"));
        let mut recorder = start_recording(&place, &[&program, "on"], &printed);
        wait_for_output(&printed, 10, LIMIT);
        std::thread::sleep(Duration::from_millis(100 * time));
        kill_process(program_of(&recorder), Signal::KILL).unwrap();
        assert_eq!(recorder.wait(LIMIT).signal(), Some(9));
        let ran = place.run_within(&["replay", "./made"], LIMIT);
        assert_eq!((ran.signal, ran.stdout.as_str()), (Some(9), "computing\n"), "{}", ran.stderr);
    }
}

#[test]
fn a_child_killed_as_soon_as_it_is_there_is_waited_for() {
    let place = Place::new("killed-in-exec");
    let script = "
import subprocess
for i in range(20):
    p = subprocess.Popen(['sleep', '9'])
    p.kill()
    print(p.wait())
";
    for _ in 0..3 {
        let ran = place.run_within(&["record", "python3", "-c", script], LIMIT);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "-9\n".repeat(20).as_str()));
        assert_eq!(ran.stderr, "");
        let replayed = place.run_within(&["replay"], LIMIT);
        assert_eq!((replayed.status, replayed.stdout), (Some(0), ran.stdout));
    }
}
