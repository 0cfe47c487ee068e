//! Commands that run beside a test, and are not left behind.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// A started command in a process group of its own, killed when this is dropped.
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
