//! Commands that run beside a test, and end with it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Place;

/// A command in its own process group. Dropping this kills the group.
pub struct Started(pub Child);

impl Started {
    pub fn new(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        wait_until("the command to end", limit, || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "waited in vain for {what}");
        sleep(Duration::from_millis(10));
    }
}

/// The state letter and the parent of a process.
pub fn state_of(pid: i32) -> Option<(char, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Records a program in the folder `made`, with its output in a file.
pub fn start_recording(place: &Place, command: &[&str], printed: &Path) -> Started {
    start_recording_with(place, &[], command, printed)
}

/// As [`start_recording`], with options for `retake record`.
pub fn start_recording_with(
    place: &Place,
    options: &[&str],
    command: &[&str],
    printed: &Path,
) -> Started {
    let arguments = [&["record", "-o", "made"], options, &["--"], command].concat();
    let output = File::create(printed).unwrap();
    Started::new(place.command(&arguments).stdout(output).stderr(Stdio::null()))
}

/// The first process of a recording.
pub fn program_of(recorder: &Started) -> Pid {
    child_of(recorder, false)
}

/// The guardian of a recorder.
pub fn guardian_of(recorder: &Started) -> Pid {
    child_of(recorder, true)
}

fn child_of(recorder: &Started, is_guardian: bool) -> Pid {
    let pid = recorder.0.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_wanted = |child: &&str| {
        fs::read_to_string(format!("/proc/{child}/comm"))
            .is_ok_and(|name| name.contains("guardian") == is_guardian)
    };
    let child = children.split_whitespace().find(is_wanted).unwrap();
    Pid::from_raw(child.parse().unwrap()).unwrap()
}

/// Waits until a program has printed some bytes.
pub fn wait_for_output(printed: &Path, bytes: u64, limit: Duration) {
    wait_until("output", limit, || fs::metadata(printed).unwrap().len() >= bytes);
}
