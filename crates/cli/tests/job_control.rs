//! A stopped program must go on when it is continued. The signals go to the program, its group, the
//! recorder, or both.

mod cli_support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use cli_support::started::{
    Started, program_of, start_recording, state_of, wait_for_output, wait_until,
};
use cli_support::{Place, compile_fault};
use rustix::process::{Pid, Signal, kill_process};

/// The time limit of a recording or a replay, on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Records a shell script, which must succeed and print `expected`, and replays it.
fn goes_on(name: &str, script: &str, expected: &str) {
    let place = Place::new(name);
    let printed = place.work("printed");
    let mut recorder = start_recording(&place, &["sh", "-c", script], &printed);
    let status = recorder.wait(LIMIT);
    assert!(status.success(), "{status}");
    assert_eq!(fs::read_to_string(&printed).unwrap(), expected);
    let ran = place.run_within(&["replay", "./made"], LIMIT);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), expected), "{}", ran.stderr);
}

fn is_stopped(pid: Pid) -> bool {
    state_of(pid.as_raw_nonzero().get()).unwrap().0 == 'T'
}

fn wait_until_stopped(pid: Pid) {
    wait_until("it to stop", LIMIT, || is_stopped(pid));
}

/// Starts the recorder of a program that sleeps for some seconds and then prints. Returns the
/// recorder and the program.
fn sleeper(place: &Place, seconds: &str) -> (Started, Pid) {
    let printed = place.work("printed");
    let script = format!("echo begun; sleep {seconds}; echo over");
    let recorder = start_recording(place, &["sh", "-c", &script], &printed);
    wait_for_output(&printed, 6, LIMIT);
    let program = program_of(&recorder);
    (recorder, program)
}

fn ends_well(place: &Place, mut recorder: Started) {
    assert!(recorder.wait(LIMIT).success());
    assert_eq!(fs::read_to_string(place.work("printed")).unwrap(), "begun\nover\n");
}

#[test]
fn who_stops_himself_is_continued_by_his_child() {
    goes_on("job-self", "(sleep 0.5; kill -CONT $$) & kill -STOP $$; echo woke", "woke\n");
}

#[test]
fn who_stops_himself_again_and_again_goes_on() {
    let script = "for i in 1 2 3; do (sleep 0.4; kill -CONT $$) & kill -STOP $$; echo $i; done";
    goes_on("job-again", script, "1\n2\n3\n");
}

#[test]
fn children_work_on_while_their_parent_is_stopped() {
    let script = "(for i in 1 2 3 4 5 6 7 8; do sleep 0.1; /bin/echo $i; done; kill -CONT $$) & \
        kill -STOP $$; wait; echo woke";
    goes_on("job-children", script, "1\n2\n3\n4\n5\n6\n7\n8\nwoke\n");
}

#[test]
fn a_stopped_child_is_continued() {
    let script = "sleep 0.3 & kill -STOP $!; sleep 0.5; kill -CONT $!; wait $!; echo $?";
    goes_on("job-child", script, "0\n");
}

#[test]
fn a_child_that_stops_is_waited_for_as_such() {
    let script = "import os, signal
pid = os.fork()
if pid == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
_, status = os.waitpid(pid, os.WUNTRACED)
print(os.WIFSTOPPED(status), flush=True)
os.kill(pid, signal.SIGCONT)
print(os.waitpid(pid, 0)[1] >> 8)
";
    let place = Place::new("job-untraced");
    for _ in 0..3 {
        let ran = place.run_within(&["record", "python3", "-c", script], LIMIT);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "True\n7\n"), "{ran:?}");
        let ran = place.run_within(&["replay"], LIMIT);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "True\n7\n"), "{ran:?}");
    }
}

#[test]
fn a_program_stopped_from_outside_is_continued_alone() {
    let place = Place::new("job-outside");
    let (recorder, program) = sleeper(&place, "1");
    kill_process(program, Signal::STOP).unwrap();
    wait_until_stopped(recorder.pid());
    kill_process(program, Signal::CONT).unwrap();
    ends_well(&place, recorder);
}

#[test]
fn a_recorder_that_is_continued_continues_its_program() {
    let place = Place::new("job-recorder");
    let (recorder, program) = sleeper(&place, "1");
    kill_process(program, Signal::STOP).unwrap();
    wait_until_stopped(recorder.pid());
    kill_process(recorder.pid(), Signal::CONT).unwrap();
    ends_well(&place, recorder);
}

#[test]
fn a_recorder_that_is_asked_to_stop_stops_its_program() {
    let place = Place::new("job-asked");
    let (recorder, program) = sleeper(&place, "1");
    kill_process(recorder.pid(), Signal::TSTP).unwrap();
    wait_until_stopped(program);
    wait_until_stopped(recorder.pid());
    kill_process(recorder.pid(), Signal::CONT).unwrap();
    ends_well(&place, recorder);
}

#[test]
fn a_recorder_that_is_stopped_alone_goes_on() {
    let place = Place::new("job-alone");
    let (recorder, _) = sleeper(&place, "0.5");
    kill_process(recorder.pid(), Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    kill_process(recorder.pid(), Signal::CONT).unwrap();
    ends_well(&place, recorder);
}

#[test]
fn a_stopped_program_is_ended_with_its_recorder() {
    for signal in [Signal::TERM, Signal::KILL] {
        let place = Place::new("job-ended");
        let (mut recorder, program) = sleeper(&place, "9");
        kill_process(program, Signal::STOP).unwrap();
        wait_until_stopped(recorder.pid());
        kill_process(recorder.pid(), signal).unwrap();
        if signal == Signal::TERM {
            // As without a recorder, the signal takes effect when the program is continued.
            kill_process(program, Signal::CONT).unwrap();
        }
        assert_eq!(recorder.wait(LIMIT).signal(), Some(signal.as_raw()));
    }
}

#[test]
fn a_stopped_program_is_ended_when_its_time_is_up() {
    let place = Place::new("job-timeout");
    let ran = place
        .run_within(&["record", "--timeout", "1", "sh", "-c", "kill -STOP $$; echo woke"], LIMIT);
    assert_eq!(ran.status, Some(124), "{ran:?}");
}

#[test]
fn a_stopped_program_with_threads_goes_on() {
    let place = Place::new("job-threads");
    let program = compile_fault(&place, "printers", &[]);
    let printed = place.work("printed");
    let mut recorder = start_recording(&place, &[&program], &printed);
    for _ in 0..3 {
        let before = fs::metadata(&printed).unwrap().len();
        wait_for_output(&printed, before + 5000, LIMIT);
        kill_process(program_of(&recorder), Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        kill_process(program_of(&recorder), Signal::CONT).unwrap();
    }
    let before = fs::metadata(&printed).unwrap().len();
    wait_for_output(&printed, before + 5000, LIMIT);
    kill_process(program_of(&recorder), Signal::TERM).unwrap();
    assert_eq!(recorder.wait(LIMIT).signal(), Some(15));
    let ran = place.run_within(&["replay", "./made"], 3 * LIMIT);
    let printed = fs::read_to_string(&printed).unwrap();
    assert_eq!(ran.signal, Some(15), "{}", ran.stderr);
    // When one thread ended the process, each other thread may have printed a line that it could
    // not log.
    assert!(
        printed.starts_with(&ran.stdout) && printed.len() - ran.stdout.len() < 64,
        "{} of {} bytes",
        ran.stdout.len(),
        printed.len()
    );
}

#[test]
fn a_signal_that_the_program_sends_to_its_parent_does_not_come_back() {
    for name in ["INT", "TERM", "USR1"] {
        goes_on("job-parent", &format!("kill -{name} $PPID; sleep 0.3; echo alive"), "alive\n");
    }
}

#[test]
fn what_the_program_leaves_is_named_and_ended_with_the_recorder() {
    let place = Place::new("job-left");
    let output = fs::File::create(place.work("told")).unwrap();
    let arguments = ["record", "-o", "made", "--", "sh", "-c", "sleep 60 >&- 2>&- & echo gone"];
    let mut recorder = Started::new(place.command(&arguments).stderr(output));
    let told = || fs::read_to_string(place.work("told")).unwrap();
    wait_until("to be told who is waited for", LIMIT, || told().contains("sleep ("));
    kill_process(recorder.pid(), Signal::INT).unwrap();
    let begun = std::time::Instant::now();
    assert!(recorder.wait(LIMIT).success());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(place.run_within(&["replay", "./made"], LIMIT).stdout, "gone\n");
}

#[test]
fn who_does_not_wait_ends_with_the_program_and_the_rest_is_recorded() {
    let place = Place::new("job-behind");
    let script = "(until [ -e go ]; do sleep 0.02; done; echo went >&3) 3>late >&- 2>&- & \
        echo first; exit 4";
    let ran = place.run_within(&["record", "--no-wait", "-o", "made", "sh", "-c", script], LIMIT);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(4), "first\n"), "{ran:?}");
    let (_, told) = ran.stderr.split_once("(kill ").expect("who ends them");
    let recorder: i32 = told.split(' ').next().unwrap().parse().unwrap();
    assert!(state_of(recorder).is_some());
    fs::write(place.work("go"), "").unwrap();
    wait_until("the recorder to end", LIMIT, || {
        state_of(recorder).is_none_or(|(state, _)| state == 'Z')
    });
    assert_eq!(fs::read_to_string(place.work("late")).unwrap(), "went\n");
    let ran = place.run_within(&["replay", "--check=full", "./made"], LIMIT);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(4), "first\n"), "{ran:?}");
}

/// The process that the user started passes signals on, and stops when the program stops.
#[test]
fn who_does_not_wait_is_the_program_for_those_who_started_it() {
    let place = Place::new("job-front");
    let printed = place.work("printed");
    let script = "echo begun; kill -STOP $$; echo woke; sleep 60";
    let arguments = ["record", "--no-wait", "-o", "made", "--", "sh", "-c", script];
    let output = fs::File::create(&printed).unwrap();
    let mut front = Started::new(place.command(&arguments).stdout(output));
    wait_for_output(&printed, 6, LIMIT);
    wait_until_stopped(front.pid());
    kill_process(front.pid(), Signal::CONT).unwrap();
    wait_for_output(&printed, 11, LIMIT);
    kill_process(front.pid(), Signal::TERM).unwrap();
    assert_eq!(front.wait(LIMIT).signal(), Some(15));
    let ran = place.run_within(&["replay", "./made"], LIMIT);
    assert_eq!((ran.signal, ran.stdout.as_str()), (Some(15), "begun\nwoke\n"), "{ran:?}");
}

#[test]
fn who_waits_for_a_killed_sharer_of_memory_goes_on() {
    let place = Place::new("job-sharer");
    let program = compile_fault(&place, "killed_sharer", &[]);
    let ran = place.run_within(&["record", "-o", "made", &program], LIMIT);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "cleared\n"), "{ran:?}");
    let ran = place.run_within(&["replay", "./made"], LIMIT);
    let is_told = ran.status == Some(120) && ran.stderr.contains("replay diverged");
    assert!(is_told || (ran.status, ran.stdout.as_str()) == (Some(0), "cleared\n"), "{ran:?}");
}
