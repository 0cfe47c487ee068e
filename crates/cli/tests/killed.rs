//! A recorder or a program that is killed while recording leaves a recording of everything that
//! happened, and that recording replays to its end.

mod cli_support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use cli_support::started::{
    Started, program_of, start_recording, start_recording_with, wait_for_output, wait_until,
};
use cli_support::{Place, compile_fault};
use retake_testing::needs;
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
    wait_until("the recording to be completed", LIMIT, || {
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

/// Records a program for a while, then kills the recorder, its guardian and the program. Returns
/// how much the program had printed before the last part of that, and all that it printed.
fn kill_all_of(place: &Place, policy: &str, program: &str, last: Duration) -> (usize, String) {
    let printed = place.work("printed");
    let _ = fs::remove_dir_all(place.work("made"));
    let options = ["--policy", policy];
    let mut recorder = start_recording_with(place, &options, &[program], &printed);
    wait_for_output(&printed, 10_000, LIMIT);
    let earlier = fs::read(&printed).unwrap().len();
    std::thread::sleep(last);
    kill_all(&mut recorder);
    (earlier, fs::read_to_string(&printed).unwrap())
}

/// Kills a recorder, its guardian and the program.
fn kill_all(recorder: &mut Started) {
    let guardian = cli_support::started::guardian_of(recorder);
    for pid in [guardian, recorder.pid(), program_of(recorder)] {
        kill_process(pid, Signal::KILL).unwrap();
    }
    recorder.wait(LIMIT);
}

/// What a quiet program does comes to the disk within a fraction of a second, too.
#[test]
fn a_program_that_prints_nothing_loses_little() {
    let place = Place::new("killed-quiet");
    let program = compile_fault(&place, "quiet", &[]);
    let mut recorder = start_recording_with(&place, &[], &[&program], &place.work("printed"));
    let count = || {
        let bytes = fs::read(place.work("count")).unwrap_or_default();
        bytes.try_into().map_or(0, u64::from_le_bytes)
    };
    wait_until("counts", LIMIT, || count() >= 200);
    kill_all(&mut recorder);
    let counted = count();
    let written = place.run(&["dump", "./made", "--call", "pwrite64"]).stdout;
    let recorded = written.lines().filter(|line| line.contains("pwrite64(")).count() as u64;
    // It counts 200 times a second at most.
    assert!(recorded <= counted + 1 && recorded + 100 >= counted, "{recorded} of {counted}");
}

/// The first thread waits for a signal while the others print. So its last turn is long over, and
/// its stream does not say so.
#[test]
fn a_recorder_killed_with_its_guardian_leaves_what_replays() {
    let place = Place::new("killed-guardian");
    let program = compile_fault(&place, "printers", &[]);
    for policy in ["serial", "sync", "serial", "sync"] {
        let (earlier, printed) = kill_all_of(&place, policy, &program, Duration::from_secs(1));
        let _ = fs::remove_file(place.work("packed"));
        assert_eq!(place.run_within(&["pack", "./made", "-o", "packed"], LIMIT).status, Some(0));
        for recording in ["./made", "./packed"] {
            let what = format!("{policy} {recording}");
            let ran = place.run_within(&["replay", recording], LIMIT);
            assert_eq!(ran.signal, Some(9), "{what}: {}", ran.stderr);
            assert!(
                ran.stderr.contains("warning: ") && !ran.stderr.contains("error"),
                "{what}: {}",
                ran.stderr
            );
            let replayed = ran.stdout.len();
            assert!(
                printed.starts_with(&ran.stdout) && replayed >= earlier,
                "{what}: replayed {replayed} bytes of {}, {earlier} of them early",
                printed.len()
            );
        }
    }
}

#[test]
fn what_killed_recorders_and_guardians_leave_can_be_debugged() {
    needs!("gdb");
    let place = Place::new("killed-debugged");
    let program = compile_fault(&place, "printers", &["-g"]);
    for policy in ["serial", "sync"] {
        kill_all_of(&place, policy, &program, Duration::from_millis(500));
        let commands =
            ["set width 0", "info threads", "reverse-stepi", "stepi", "thread apply all bt"];
        let mut arguments = vec!["debug", "./made", "--", "-nx", "-batch"];
        commands.iter().for_each(|command| arguments.extend(["-ex", command]));
        let shown = [(); 2].map(|()| {
            let ran = place.run_within(&arguments, 3 * LIMIT);
            assert!(!ran.stderr.contains("error: "), "{policy}: {ran:?}");
            ran.stdout
        });
        assert_eq!(shown[0], shown[1], "{policy}: the same end each time");
        assert!(shown[0].contains("received signal SIGKILL"), "{policy}: {}", shown[0]);
        assert_eq!(shown[0].matches(" in print (number=").count(), 4, "{policy}: {}", shown[0]);
        assert!(
            !shown[0].contains(" ?? ()") && !shown[0].contains("has not gone back"),
            "{policy}: {}",
            shown[0]
        );
        let ran = place.run_within(&["backtrace", "./made"], 3 * LIMIT);
        let told = ran.stdout;
        assert_eq!(told.matches("\nthread ").count(), 5, "{policy}: {told}\n{}", ran.stderr);
        assert!(told.contains("__libc_pause") && told.contains("print ("), "{policy}: {told}");
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
        // What was printed has been logged by then.
        std::thread::sleep(Duration::from_millis(100 * (time + 1)));
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

#[test]
fn a_thread_that_exits_last_ends_a_killed_process() {
    let place = Place::new("killed-last");
    let program = compile_fault(&place, "exits_last", &["-pthread"]);
    for arguments in [&["record", "-o", "made", "--", &program][..], &["replay", "made"]] {
        let ran = place.run_within(arguments, LIMIT);
        assert_eq!(ran.signal, Some(9), "{ran:?}");
    }
}
