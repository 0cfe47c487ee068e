//! Children that are not left behind: servers and what drives them.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a child is looked at.
pub const POLL: Duration = Duration::from_millis(5);

/// A port on the loopback interface that nobody uses now.
///
/// # Errors
/// If there is none.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A child in a process group of its own, which is killed if it is still there at the end.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Watched {
    /// Starts it with no input.
    ///
    /// # Errors
    /// If it or the files for its output cannot be had.
    pub fn start(command: Command, output: &Path, errors: &Path) -> io::Result<Self> {
        let mut command = bound(&command);
        command
            .stdin(Stdio::null())
            .stdout(File::create(output)?)
            .stderr(File::create(errors)?)
            .process_group(0);
        Ok(Self { child: command.spawn()?, ended: None })
    }

    /// Its process id, which is that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended, but not longer than `limit`.
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

    /// Sends a signal, by its name, to the process alone.
    pub fn signal(&self, name: &str) {
        send(name, self.child.id());
    }

    /// Sends a signal, by its name, to its first child, if it has any: to what a tracer has
    /// started.
    pub fn signal_child(&self, name: &str) {
        let id = self.child.id();
        let children =
            std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        if let Some(Ok(child)) = children.split_whitespace().next().map(str::parse) {
            send(name, child);
        }
    }

    /// Ends whatever is left of its group.
    pub fn clear(&self) {
        crate::bench::process::kill_group(self.child.id());
    }
}

/// The same command, which ends when we are killed and can end nobody.
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
    // If it is gone already, waiting for it says so.
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
