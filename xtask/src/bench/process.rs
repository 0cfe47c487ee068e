//! Runs a program once and times it. Another thread watches its memory, and kills it when time
//! runs out.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The time between looks at the program's memory. It is short at first, to catch short runs.
const FIRST_INTERVAL: Duration = Duration::from_millis(2);
const LATER_INTERVAL: Duration = Duration::from_millis(20);
const FIRST_SAMPLES: u32 = 25;

/// The program to run, and the conditions.
#[derive(Debug)]
pub struct Run<'a> {
    /// Program and arguments.
    pub command: &'a [String],
    pub folder: &'a Path,
    pub environment: &'a [(String, OsString)],
    /// The files for standard output and standard error.
    pub output: &'a Path,
    pub errors: &'a Path,
    /// The time after which the program's process group is killed.
    pub time_limit: Duration,
    /// The name of the process while its memory is watched. Other names mean another program.
    pub watched_name: Option<&'a str>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Ran {
    /// Seconds from before the start of the process until its wait returned.
    pub seconds: f64,
    pub status: ExitStatus,
    pub was_stopped: bool,
    /// The highest resident memory of the process itself, in KB. 0 if it was never seen.
    pub peak_kb: u64,
}

impl Run<'_> {
    /// Runs the program in a process group of its own, without input.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn run(&self) -> io::Result<Ran> {
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .current_dir(self.folder)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(File::create(self.output)?)
            .stderr(File::create(self.errors)?)
            .process_group(0);
        let (ended, wait_for_end) = channel::<()>();
        let start = Instant::now();
        let mut child = command.spawn()?;
        let process = child.id();
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || self.watch(process, &wait_for_end));
            let status = child.wait();
            let seconds = start.elapsed().as_secs_f64();
            drop(ended);
            let (peak_kb, was_stopped) = watcher.join().unwrap_or((0, false));
            let status = status?;
            Ok(Ran { seconds, status, was_stopped, peak_kb })
        })
    }

    /// Watches the process. Returns its peak memory in KB, and whether time ran out.
    fn watch(&self, process: u32, wait_for_end: &Receiver<()>) -> (u64, bool) {
        let start = Instant::now();
        let mut peak_kb = 0;
        let mut sample = 0;
        loop {
            let mut interval = self.time_limit.saturating_sub(start.elapsed());
            if let Some(name) = self.watched_name {
                peak_kb = peak_kb.max(peak_memory_kb(process, name));
                sample += 1;
                let usual = if sample < FIRST_SAMPLES { FIRST_INTERVAL } else { LATER_INTERVAL };
                interval = interval.min(usual);
            }
            match wait_for_end.recv_timeout(interval) {
                Err(RecvTimeoutError::Timeout) if start.elapsed() >= self.time_limit => {
                    kill_group(process);
                    return (peak_kb, true);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return (peak_kb, false),
            }
        }
    }
}

/// Returns the kernel's high-water mark of the process, or 0 while it is not the program `name`.
pub fn peak_memory_kb(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let field = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)
    };
    if field("Name:") != Some(name) {
        return 0;
    }
    field("VmHWM:").and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

/// Kills all of a process group. `std` can kill only the process itself, not its descendants.
pub fn kill_group(process: u32) {
    // Without a kill command, waiting goes on until the user interrupts it.
    let _ = Command::new("kill")
        .args(["-KILL", "--", &format!("-{process}")])
        .stderr(Stdio::null())
        .status();
}

/// Returns the status in the words of a shell.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, time_limit: Duration) -> Ran {
        let command = ["sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let run = Run {
            command: &command,
            folder: Path::new("/"),
            environment: &[],
            output: Path::new("/dev/null"),
            errors: Path::new("/dev/null"),
            time_limit,
            watched_name: Some("sh"),
        };
        run.run().unwrap()
    }

    #[test]
    fn time_status_and_memory() {
        let ran = run("sleep 0.05; exit 3", Duration::from_secs(60));
        assert_eq!(describe(ran.status), "status 3");
        assert!(ran.seconds >= 0.05 && !ran.was_stopped);
        assert!(ran.peak_kb > 100, "{}", ran.peak_kb);
    }

    #[test]
    fn what_does_not_end_is_killed_with_its_children() {
        let ran = run("sleep 60 & wait", Duration::from_millis(100));
        assert!(ran.was_stopped && ran.seconds < 30.0);
        assert_eq!(describe(ran.status), "signal 9");
    }
}
