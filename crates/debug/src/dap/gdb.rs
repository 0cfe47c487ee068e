//! gdb as a process that is controlled through its machine interface.

use super::Incoming;
use super::mi::Record;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How long gdb may take to end when asked to.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// A running gdb, possibly a child of the command that replays for it.
pub(crate) struct Gdb {
    child: Child,
    input: Option<ChildStdin>,
    next_token: u64,
}

impl Gdb {
    /// Starts gdb. Its output goes to `to`.
    ///
    /// # Errors
    /// gdb cannot be started.
    pub fn start(mut command: Command, to: &Sender<Incoming>) -> io::Result<Self> {
        // With a group of its own, an interrupt reaches gdb even if it is a child of the command.
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let Some(output) = output {
            let to = to.clone();
            std::thread::spawn(move || {
                each_line(output, |line| to.send(Incoming::Gdb(Record::parse(line))).is_ok());
                // The receiver may be gone.
                let _ = to.send(Incoming::GdbGone);
            });
        }
        if let Some(errors) = errors {
            let to = to.clone();
            std::thread::spawn(move || {
                each_line(errors, |line| to.send(Incoming::Said(line.to_owned())).is_ok())
            });
        }
        Ok(Self { child, input, next_token: 1 })
    }

    /// Sends a command. Returns the token of its answer.
    ///
    /// # Errors
    /// gdb is gone.
    pub fn send(&mut self, command: &str) -> io::Result<u64> {
        let token = self.next_token;
        self.next_token += 1;
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(input, "{token}{command}")?;
        input.flush()?;
        Ok(token)
    }

    /// Stops the program if it runs.
    pub fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(group) =
            i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            // The process may have ended meanwhile.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

impl Drop for Gdb {
    /// Asks gdb to exit, so that the debugged process ends, too. If gdb does not, kills the whole
    /// group.
    fn drop(&mut self) {
        self.interrupt();
        let _ = self.send("-gdb-exit");
        self.input = None;
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        self.signal(rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Hands over each line without its end, until there are no more or `take` returns false.
fn each_line(stream: impl Read, mut take: impl FnMut(&str) -> bool) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
        if !take(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r'])) {
            return;
        }
        bytes.clear();
    }
}
