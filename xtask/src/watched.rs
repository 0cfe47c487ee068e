//! Child processes that are not left behind: servers, and the programs that drive them.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time between checks of a child.
pub const POLL: Duration = Duration::from_millis(5);

/// Returns an unused port on the loopback interface.
///
/// # Errors
/// There is none.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A child in a process group of its own. If it still runs when this is dropped, its group is
/// killed.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Watched {
    /// Starts a command without input.
    ///
    /// # Errors
    /// The command cannot be started, or the files for its output cannot be made.
    pub fn start(command: Command, output: &Path, errors: &Path) -> io::Result<Self> {
        let mut command = bound(&command);
        command
            .stdin(Stdio::null())
            .stdout(File::create(output)?)
            .stderr(File::create(errors)?)
            .process_group(0);
        Ok(Self { child: command.spawn()?, ended: None })
    }

    /// Returns its process id, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended, at most for `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            if self.ended.is_none() {
                self.ended = self.child.try_wait().ok().flatten();
            }
            if self.ended.is_some() || start.elapsed() >= limit {
                return self.ended;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Sends a signal, by name, to the process alone.
    pub fn signal(&self, name: &str) {
        send(name, self.child.id());
    }

    /// Sends a signal, by name, to its first child, if it has any. For a tracer, this is the traced
    /// program.
    pub fn signal_child(&self, name: &str) {
        let id = self.child.id();
        let children =
            std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        if let Some(Ok(child)) = children.split_whitespace().next().map(str::parse) {
            send(name, child);
        }
    }

    /// Kills the rest of its group.
    pub fn clear(&self) {
        crate::bench::process::kill_group(self.child.id());
    }
}

/// Returns the same command under `setpriv`, so that the kernel kills it when we die.
fn bound(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    bound
}

fn send(name: &str, process: u32) {
    // If the process is gone, a later wait notices.
    let _ = Command::new("kill")
        .args([&format!("-{name}"), "--", &process.to_string()])
        .stderr(Stdio::null())
        .status();
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.ended.is_none() {
            crate::bench::process::kill_group(self.child.id());
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_command_is_the_same() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit $((A + $1))", "sh", "3"]).env("A", "4").current_dir("/");
        assert_eq!(bound(&command).status().unwrap().code(), Some(7));
        assert_eq!(bound(&command).get_current_dir(), Some(Path::new("/")));
    }
}
