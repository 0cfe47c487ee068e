//! Where a program runs: its folder, its work folder in it, and the environment of all that is
//! started there.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::program::Program;
use crate::bench::Result;
use crate::bench::process::describe;
use crate::watched::Watched;
use retake_testing::needs::search_path;

/// Where a program runs. Outputs of what is started are in `folder`.
#[derive(Debug)]
pub struct Place {
    pub retake: PathBuf,
    pub folder: PathBuf,
    /// Where the program is started: `folder/work`. It is there only while it runs.
    pub work: PathBuf,
    /// Sources that belong to the list of programs.
    programs: PathBuf,
}

impl Place {
    /// Nothing is made yet.
    pub fn new(retake: PathBuf, folder: PathBuf, programs: PathBuf) -> Self {
        let work = folder.join("work");
        Self { retake, folder, work, programs }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes a fresh work folder with what the program needs in it, its script included.
    ///
    /// # Errors
    /// The script that prepares it fails.
    pub fn prepare(&self, program: &Program) -> Result<()> {
        if self.work.exists() {
            fs::remove_dir_all(&self.work)?;
        }
        fs::create_dir_all(&self.work)?;
        fs::write(self.work.join("script"), &program.script)?;
        self.run_script("prepare", &program.prepare, 0, program.limit)
    }

    /// Runs a script to its end, if there is one.
    ///
    /// # Errors
    /// It fails, or takes too long.
    pub fn run_script(&self, what: &str, script: &str, port: u16, limit: Duration) -> Result<()> {
        if script.is_empty() {
            return Ok(());
        }
        let mut child =
            self.start(what, self.bash(&format!("set -euo pipefail\n{script}"), port))?;
        match child.wait(limit) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!(
                "{what} fails with {}: see {}",
                describe(status),
                self.path(&format!("{what}.err")).display()
            )
            .into()),
            None => Err(format!("{what} takes longer than {limit:?}").into()),
        }
    }

    /// Starts a command in its own process group. What it prints is in `WHAT.out` and `WHAT.err`.
    pub fn start(&self, what: &str, command: Command) -> Result<Watched> {
        Ok(Watched::start(
            command,
            &self.path(&format!("{what}.out")),
            &self.path(&format!("{what}.err")),
        )?)
    }

    pub fn bash(&self, script: &str, port: u16) -> Command {
        let mut command = self.command("bash", port);
        command.args(["-c", script]);
        command
    }

    /// A command in the work folder, with the environment that scripts find.
    pub fn command(&self, program: impl AsRef<OsStr>, port: u16) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.work)
            .env("PATH", search_path())
            .env("LC_ALL", "C")
            .env("PORT", port.to_string());
        command
            .env("WORK", &self.work)
            .env("PROGRAMS", &self.programs)
            .env("RETAKE_DIR", self.path("home"));
        command
    }

    /// `retake` when the work folder is gone, with a home for recordings.
    pub fn later(&self, home: &str) -> Command {
        let mut command = self.command(&self.retake, 0);
        command.current_dir("/").env("RETAKE_DIR", self.path(home));
        command
    }

    /// The same, with the network unplugged.
    pub fn unplugged(&self, home: &str) -> Command {
        let mut command = self.command("unshare", 0);
        command.current_dir("/").env("RETAKE_DIR", self.path(home)).arg("-n").arg(&self.retake);
        command
    }
}
