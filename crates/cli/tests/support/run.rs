//! Runs one command with a time limit, in its own process group, and collects its output.
//!
//! Output goes to files. A descendant that outlives the command would keep a pipe open.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The time limit of one command.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The number of bytes of each stream that a message shows of a failed command.
const SHOWN_BYTES: usize = 3000;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(formatter, "status {status}"),
            Self::Killed(signal) => write!(formatter, "death by signal {signal}"),
        }
    }
}

impl Ending {
    /// Whether a tool that ran a program ended as the program did. It may pass on a death by signal
    /// as such, or as a shell does: as status 128 plus the signal's number.
    pub fn passes_on(self, program: Self) -> bool {
        match (self, program) {
            (Self::Exited(status), Self::Killed(signal)) => status == 128 + signal,
            _ => self == program,
        }
    }
}

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    pub ending: Ending,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    command: String,
}

impl Outcome {
    /// The command, how it ended, and the beginning of its output.
    pub fn describe(&self) -> String {
        format!(
            "{}\nended with {}\n{}{}",
            self.command,
            self.ending,
            excerpt("stdout", &self.stdout),
            excerpt("stderr", &self.stderr)
        )
    }
}

/// The folders and the input of a command.
#[derive(Debug)]
pub struct Surroundings<'run> {
    /// The working folder, which must exist.
    pub folder: PathBuf,
    /// The beginning of the paths of the files for output.
    pub streams: PathBuf,
    /// The home folder.
    pub home: PathBuf,
    /// Standard input.
    pub stdin: &'run str,
}

/// Runs a command to its end. Kills its process group after the time limit.
///
/// # Errors
/// A message with the output, if the time limit was reached or the command cannot be run.
pub fn run(mut command: Command, surroundings: &Surroundings<'_>) -> Result<Outcome, String> {
    let shown = format!("{command:?}");
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let stdin = stream_path(&surroundings.streams, "stdin");
    let stdout = stream_path(&surroundings.streams, "stdout");
    let stderr = stream_path(&surroundings.streams, "stderr");
    fs::write(&stdin, surroundings.stdin).map_err(failed)?;
    command
        .current_dir(&surroundings.folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &surroundings.home)
        .env("LC_ALL", "C")
        .stdin(File::open(&stdin).map_err(failed)?)
        .stdout(appending(&stdout).map_err(failed)?)
        .stderr(appending(&stderr).map_err(failed)?)
        .process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    let status = wait_until(&mut child, Instant::now() + TIME_LIMIT).map_err(failed)?;
    let stdout = fs::read(&stdout).map_err(failed)?;
    let stderr = fs::read(&stderr).map_err(failed)?;
    let Some(status) = status else {
        let printed = excerpt("stdout", &stdout) + &excerpt("stderr", &stderr);
        return Err(format!("{shown}\nwas killed after {} s\n{printed}", TIME_LIMIT.as_secs()));
    };
    Ok(Outcome { ending: ending_of(status), stdout, stderr, command: shown })
}

fn stream_path(streams: &Path, name: &str) -> PathBuf {
    let mut path = streams.as_os_str().to_owned();
    path.push(".");
    path.push(name);
    path.into()
}

/// Opens a file for appending, so that processes that open the stream again do not overwrite each
/// other's output.
fn appending(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Waits for the end. Returns `None` if the deadline came first, and the group was killed.
fn wait_until(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // The child is not reaped yet, so its number cannot belong to another process.
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn ending_of(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Killed(signal.unwrap_or(0)),
    }
}

/// The beginning of a stream, indented for a message.
pub fn excerpt(name: &str, bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return format!("{name}: empty\n");
    }
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let text = String::from_utf8_lossy(shown);
    let lines: String = text.lines().map(|line| format!("  {line}\n")).collect();
    let rest = if shown.len() < bytes.len() {
        format!("  ({} bytes in all)\n", bytes.len())
    } else {
        String::new()
    };
    format!("{name}:\n{lines}{rest}")
}
