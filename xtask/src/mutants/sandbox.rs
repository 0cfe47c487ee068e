//! The sandbox of mutated programs: they run in namespaces of their own, in a file system that is
//! read-only except for the scratch folder. A broken recorder may kill(-1), remove folders or leave
//! shared memory behind.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::bench::Result;

const GUARD: &str = include_str!("guard.sh");

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Ended(ExitStatus),
    /// The command was killed, because a line decided the outcome.
    Stopped(String),
    /// The command was killed, because its time was up.
    Late,
}

/// The sandbox for all commands.
#[derive(Debug)]
pub struct Sandbox {
    scratch: PathBuf,
    user: u32,
    group: u32,
}

impl Sandbox {
    /// Makes the sandbox and tries it.
    ///
    /// # Errors
    /// The kernel does not permit such namespaces. Nothing runs without them.
    pub fn new(scratch: &Path) -> Result<Self> {
        for folder in ["tmp", "home", "data"] {
            std::fs::create_dir_all(scratch.join(folder))?;
        }
        let owner = std::fs::metadata("/proc/self")?;
        let sandbox = Self { scratch: scratch.to_owned(), user: owner.uid(), group: owner.gid() };
        let output = sandbox.command(Path::new("true"), &[], scratch).stdin(Stdio::null()).output();
        let output = output
            .map_err(|error| format!("setpriv and unshare of util-linux are needed: {error}"))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "mutants run only in namespaces of their own, and these cannot be had here: {}",
                message.trim()
            )
            .into());
        }
        Ok(sandbox)
    }

    fn command(&self, program: &Path, arguments: &[&str], folder: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nice", "-n", "5", "unshare"]);
        if self.user != 0 {
            command.args(["--user", "--map-root-user"]);
        }
        command.args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--mount-proc",
            "--ipc",
            "sh",
            "-c",
            GUARD,
            "guard",
        ]);
        command
            .arg(&self.scratch)
            .arg(folder)
            .args([self.user.to_string(), self.group.to_string()])
            .arg(program)
            .args(arguments);
        let (home, data) = (self.scratch.join("home"), self.scratch.join("data"));
        command.env("HOME", &home).env("TMPDIR", "/tmp").env("RETAKE_DIR", &data);
        for name in [
            "XDG_DATA_HOME",
            "XDG_CONFIG_HOME",
            "XDG_CACHE_HOME",
            "XDG_STATE_HOME",
            "XDG_RUNTIME_DIR",
        ] {
            command.env(name, &data);
        }
        command
    }

    /// Runs a program in a folder until it ends, the time is up, or `decide` returns an outcome for
    /// a line of its output. Afterwards all its descendants are dead.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn run(
        &self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        limit: Duration,
        decide: impl Fn(&str) -> Option<String>,
    ) -> Result<Ending> {
        let mut command = self.command(program, arguments, folder);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let ending = watch(&mut child, limit, decide);
        // With `unshare`, the namespace and all processes in it end.
        let _ = child.kill();
        let status = child.wait()?;
        self.tidy();
        Ok(ending.unwrap_or(Ending::Ended(status)))
    }

    /// Removes the files that killed tests leave behind. The programs that they have compiled may
    /// stay.
    fn tidy(&self) {
        let of_tests =
            std::fs::read_dir(self.scratch.join("target/tmp")).into_iter().flatten().flatten();
        for left in of_tests.filter(|entry| entry.file_name() != "programs") {
            let _ = std::fs::remove_dir_all(left.path());
        }
        for folder in ["tmp", "home", "data"] {
            let folder = self.scratch.join(folder);
            let _ = std::fs::remove_dir_all(&folder);
            let _ = std::fs::create_dir_all(&folder);
        }
    }
}

/// Reads lines to the end of the output. `None` if the program ended by itself.
fn watch(
    child: &mut Child,
    limit: Duration,
    decide: impl Fn(&str) -> Option<String>,
) -> Option<Ending> {
    let deadline = Instant::now() + limit;
    let output = child.stdout.take()?;
    let (sender, lines) = mpsc::channel();
    // The thread ends when no process can write to the pipe any more.
    std::thread::spawn(move || send_lines(output, |line| sender.send(line).is_ok()));
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some(told) = decide(&line) {
                    return Some(Ending::Stopped(told));
                }
            }
            Err(RecvTimeoutError::Timeout) => return Some(Ending::Late),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    while Instant::now() < deadline {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Some(Ending::Late)
}

fn send_lines(output: impl Read, mut send: impl FnMut(String) -> bool) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0)
        && send(String::from_utf8_lossy(&line).trim_end().to_owned())
    {
        line.clear();
    }
}

/// Returns the status in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
