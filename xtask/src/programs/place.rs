//! The place of a program: its folder, its work folder in it, and the environment of all commands
//! there.

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

/// The place of a program. Outputs of commands are in `folder`.
#[derive(Debug)]
pub struct Place {
    pub retake: PathBuf,
    pub folder: PathBuf,
    /// The folder in which the program starts: `folder/work`. It exists only while the program
    /// runs.
    pub work: PathBuf,
    /// The folder with sources of the list's programs.
    programs: PathBuf,
}

impl Place {
    /// Returns a place, without making any folder.
    pub fn new(retake: PathBuf, folder: PathBuf, programs: PathBuf) -> Self {
        let work = folder.join("work");
        Self { retake, folder, work, programs }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes an empty work folder with the program's files, including its script.
    ///
    /// # Errors
    /// The preparing script fails.
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
    /// The script fails, or takes too long.
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

    /// Starts a command in its own process group. Its output is in `WHAT.out` and `WHAT.err`.
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

    /// Returns a command in the work folder, with the environment of scripts.
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

    /// Returns a command of `retake` for the time without a work folder, with a home for
    /// recordings.
    pub fn later(&self, home: &str) -> Command {
        let mut command = self.command(&self.retake, 0);
        command.current_dir("/").env("RETAKE_DIR", self.path(home));
        command
    }

    /// Returns the same, without a network.
    pub fn unplugged(&self, home: &str) -> Command {
        let mut command = self.command("unshare", 0);
        command.current_dir("/").env("RETAKE_DIR", self.path(home)).arg("-n").arg(&self.retake);
        command
    }
}
