//! Times single commands natively, recorded and replayed, without the parts of a workload.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Result;
use super::harness::Bench;
use super::machine::is_present;
use super::process::{Ran, Run, describe};
use super::scratch::folder_bytes;
use super::stage::{environment, tail};

/// The time limit of a single run.
const LIMIT: Duration = Duration::from_secs(180);

/// GNU time, which the built-in `time` of shells does not replace.
const TIME: &str = "/usr/bin/time";

/// Times commands in one folder.
#[derive(Debug)]
pub struct Stopwatch<'a> {
    bench: &'a Bench,
    folder: PathBuf,
}

impl<'a> Stopwatch<'a> {
    pub fn new(bench: &'a Bench, folder: &Path) -> Self {
        Self { bench, folder: folder.to_path_buf() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn bench(&self) -> &Bench {
        self.bench
    }

    /// Builds a program of `benches/programs` in the folder.
    ///
    /// # Errors
    /// The program does not build, or there is no compiler.
    pub fn compile(&self, program: &str) -> Result<()> {
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "gcc".into());
        let source = self.bench.repository().join(format!("benches/programs/{program}.c"));
        let mut command = Command::new(&compiler);
        command
            .args(["-O2", "-pthread", "-o"])
            .arg(self.folder.join(program))
            .arg(source)
            .arg("-lm");
        let output = command.output().map_err(|error| {
            format!("{}: {error}; try: apt-get install gcc libc6-dev", compiler.display())
        })?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("{program} does not build: {}", tail(&output.stderr)).into())
        }
    }

    /// Returns the seconds of a plain run.
    ///
    /// # Errors
    /// The command fails, or takes too long. This holds for the other functions, too.
    pub fn native(&self, command: &[String]) -> Result<f64> {
        Ok(self.run(command)?.seconds)
    }

    /// Returns the seconds of recording a command into a folder, which is emptied first.
    ///
    /// # Errors
    /// As above.
    pub fn record(&self, command: &[String], recording: &Path) -> Result<f64> {
        Ok(self.record_watched(command, recording)?.seconds)
    }

    /// Records, and returns also the memory of the supervisor.
    ///
    /// # Errors
    /// As above.
    pub fn record_watched(&self, command: &[String], recording: &Path) -> Result<Ran> {
        if recording.exists() {
            fs::remove_dir_all(recording)?;
        }
        self.run(&self.record_command(command, recording))
    }

    /// Returns the command that records a command.
    pub fn record_command(&self, command: &[String], recording: &Path) -> Vec<String> {
        let mut all = self.retake(&["record", "-o"], recording);
        all.push("--".to_owned());
        all.extend_from_slice(command);
        all
    }

    /// Returns the seconds of a replay.
    ///
    /// # Errors
    /// As above.
    pub fn replay(&self, recording: &Path) -> Result<f64> {
        Ok(self.run(&self.retake(&["replay"], recording))?.seconds)
    }

    /// Returns a command of `retake` with some words and a recording.
    pub fn retake(&self, words: &[&str], recording: &Path) -> Vec<String> {
        let mut all = vec![self.bench.retake().display().to_string()];
        all.extend(words.iter().map(|&word| word.to_owned()));
        all.push(recording.display().to_string());
        all
    }

    /// Returns the highest resident memory of a command in KB, from GNU time. Sampling would miss
    /// runs of a few milliseconds. `None` without GNU time.
    ///
    /// # Errors
    /// As above.
    pub fn peak_kb(&self, command: &[String]) -> Result<Option<u64>> {
        if !is_present(TIME) {
            return Ok(None);
        }
        let said = self.folder.join("peak");
        let mut timed: Vec<String> = [TIME, "-f", "%M", "-o"].map(str::to_owned).to_vec();
        timed.push(said.display().to_string());
        timed.extend_from_slice(command);
        self.run(&timed)?;
        Ok(fs::read_to_string(said)?.trim().parse().ok())
    }

    /// Returns the output of the last run.
    ///
    /// # Errors
    /// The output cannot be read.
    pub fn output(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.join("output"))?)
    }

    /// Returns the bytes of a recording without the files that it refers to.
    pub fn log_bytes(&self, recording: &Path) -> u64 {
        folder_bytes(recording) - folder_bytes(&recording.join("files"))
    }

    /// Runs a command, which must succeed.
    ///
    /// # Errors
    /// As above.
    pub fn run(&self, command: &[String]) -> Result<Ran> {
        let errors = self.folder.join("errors");
        let run = Run {
            command,
            folder: &self.folder,
            environment: &environment(self.bench),
            output: &self.folder.join("output"),
            errors: &errors,
            time_limit: LIMIT,
            watched_name: Some("retake"),
        };
        let shown = || command.join(" ");
        let ran = run.run().map_err(|error| format!("{}: {error}", shown()))?;
        if ran.was_stopped {
            return Err(format!("{} did not end within {} s", shown(), LIMIT.as_secs()).into());
        }
        if !ran.status.success() {
            return Err(format!(
                "{} ended with {}: {}",
                shown(),
                describe(ran.status),
                tail(&fs::read(&errors)?)
            )
            .into());
        }
        Ok(ran)
    }
}
