//! One workload in its folder: its files, its scripts, and single runs in each mode.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Result;
use super::harness::Bench;
use super::mode::Mode;
use super::process::{Ran, Run, describe};
use super::workload::Workload;
use crate::watched::{Watched, free_port};
use retake_testing::needs::search_path;

/// The time limit of preparations, and of the first native run.
pub const FIRST_TIME_LIMIT: Duration = Duration::from_secs(120);

/// perf's samples a second. It is not a divisor of usual timer rates.
const SAMPLES_PER_SECOND: &str = "1997";

/// How many bytes of a program's error output are shown.
const SHOWN_ERROR_BYTES: usize = 300;

/// The folder and the time limits of one workload.
#[derive(Debug)]
pub struct Stage<'a> {
    pub bench: &'a Bench,
    pub workload: &'a Workload,
    pub work: PathBuf,
    pub folder: PathBuf,
    /// The measured command, with its placeholders filled.
    command: Vec<String>,
    /// The port of a server.
    port: u16,
    pub time_limit: Duration,
    /// The time limit of strace, if it is lower.
    pub strace_limit: Duration,
    /// The file for perf's samples of recordings and replays, while they are profiled.
    pub profile_into: Option<PathBuf>,
}

impl<'a> Stage<'a> {
    /// Compiles and prepares the files of the workload in `work`.
    ///
    /// # Errors
    /// A step fails, or takes too long.
    pub fn prepare(bench: &'a Bench, workload: &'a Workload, work: &Path) -> Result<Self> {
        let port = if workload.is_server() { free_port()? } else { 0 };
        let mut stage = Stage {
            bench,
            workload,
            work: work.to_path_buf(),
            folder: work.to_path_buf(),
            command: Vec::new(),
            port,
            time_limit: FIRST_TIME_LIMIT,
            strace_limit: FIRST_TIME_LIMIT,
            profile_into: None,
        };
        for program in &workload.compile {
            stage.script(
                "compilation",
                &format!(
                    "${{CC:-gcc}} -O2 -pthread -o \
            '{{work}}/{program}' '{{programs}}/{program}.c' -lm"
                ),
                &[],
            )?;
        }
        stage.script("preparation", &workload.prepare, &[])?;
        if !workload.folder.is_empty() {
            stage.folder = PathBuf::from(stage.fill(&workload.folder, &[])?);
        }
        for argument in &workload.command {
            let argument = stage.fill(argument, &[])?;
            stage.command.push(argument);
        }
        Ok(stage)
    }

    /// Fills placeholders in text of a workload file: folders, the port, and those of `more`.
    fn fill(&self, text: &str, more: &[(&str, String)]) -> Result<String> {
        let programs = self.bench.repository().join("benches/programs");
        let mut filled = text.to_owned();
        for (name, path) in [
            ("{work}", self.work.as_path()),
            ("{repository}", self.bench.repository()),
            ("{programs}", &programs),
        ] {
            filled = filled.replace(name, text_of(path)?);
        }
        filled = filled.replace("{port}", &self.port.to_string());
        for (name, value) in more {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        Ok(filled)
    }

    /// Runs a bash script that is not measured. Returns its output.
    ///
    /// # Errors
    /// The script fails, or takes too long.
    pub fn script(&self, what: &str, script: &str, more: &[(&str, String)]) -> Result<String> {
        self.script_within(what, script, more, FIRST_TIME_LIMIT)
    }

    /// Does the same within a time limit of its own.
    ///
    /// # Errors
    /// As for [`Stage::script`].
    pub fn script_within(
        &self,
        what: &str,
        script: &str,
        more: &[(&str, String)],
        limit: Duration,
    ) -> Result<String> {
        if script.is_empty() {
            return Ok(String::new());
        }
        let mut command = Command::new("bash");
        command
            .args(["-euc", &self.fill(script, more)?])
            .current_dir(&self.work)
            .envs(environment(self.bench));
        let (output, errors) = (self.work.join("script.out"), self.work.join("script.err"));
        let mut child = Watched::start(command, &output, &errors)?;
        match child.wait(limit) {
            Some(status) if status.success() => Ok(fs::read_to_string(output)?),
            Some(status) => Err(format!(
                "its {what} ended with {}: {}",
                describe(status),
                tail(&fs::read(errors)?)
            )
            .into()),
            None => Err(format!("its {what} did not end within {} s", limit.as_secs()).into()),
        }
    }

    /// Returns the recording that a mode makes or reads.
    pub fn recording(&self, mode: Mode) -> PathBuf {
        let name = match mode {
            Mode::ParallelRecord | Mode::ParallelReplay => "parallel_recording",
            Mode::RrRecord | Mode::RrReplay => "rr_recording",
            _ => "recording",
        };
        self.bench.scratch().path().join(name)
    }

    pub fn output_of(&self, mode: Mode) -> PathBuf {
        self.work.join(format!("{}.output", mode.name()))
    }

    pub fn errors_of(&self, mode: Mode) -> PathBuf {
        self.work.join(format!("{}.errors", mode.name()))
    }

    /// Restores the state from which every run starts.
    ///
    /// # Errors
    /// The state cannot be restored.
    pub fn reset(&self, mode: Mode) -> Result<()> {
        // A replay needs no files of the workload, and does not change them.
        if !mode.is_replay() {
            self.script("reset", &self.workload.reset, &[])?;
        }
        // A failed workload may have left one.
        let left = self.recording(mode);
        if matches!(mode, Mode::Record | Mode::ParallelRecord | Mode::RrRecord) && left.exists() {
            fs::remove_dir_all(left)?;
        }
        self.bench.scratch().settle();
        Ok(())
    }

    /// Makes one timed run from a clean state, which must succeed.
    ///
    /// # Errors
    /// The run fails, or takes too long.
    pub fn run_once(&self, mode: Mode) -> Result<Ran> {
        let ran = self.run(mode)?;
        let name = mode.name();
        if ran.was_stopped && !mode.is_other() {
            let limit = self.time_limit.as_secs();
            return Err(format!("{name} did not end within {limit} s").into());
        }
        if !ran.was_stopped && !ran.status.success() {
            let complaint = tail(&fs::read(self.errors_of(mode))?);
            return Err(format!("{name} ended with {}: {complaint}", describe(ran.status)).into());
        }
        Ok(ran)
    }

    /// Makes one timed run from a clean state, however it ends.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn run(&self, mode: Mode) -> Result<Ran> {
        self.reset(mode)?;
        let run = Run {
            command: &self.command_for(mode)?,
            folder: &self.folder,
            environment: &environment(self.bench),
            output: &self.output_of(mode),
            errors: &self.errors_of(mode),
            time_limit: if mode.is_other() {
                self.time_limit.min(self.strace_limit)
            } else {
                self.time_limit
            },
            watched_name: matches!(mode, Mode::Record | Mode::Replay).then_some("retake"),
        };
        run.run().map_err(|error| format!("{}: {error}", mode.name()).into())
    }

    /// Returns program and arguments of a mode.
    ///
    /// # Errors
    /// A path is not UTF-8.
    pub fn command_for(&self, mode: Mode) -> Result<Vec<String>> {
        let retake = text_of(self.bench.retake())?;
        let recording = self.recording(mode);
        let recording = text_of(&recording)?;
        let strace = self.work.join("strace");
        let prefix: &[&str] = match mode {
            Mode::Native => &[],
            Mode::OneCore => &["taskset", "-c", "0"],
            Mode::Strace => &["strace", "-f", "-o", text_of(&strace)?],
            Mode::Record => &[retake, "record", "-o", recording, "--"],
            Mode::ParallelRecord => &[retake, "record", "--policy", "sync", "-o", recording, "--"],
            Mode::Replay | Mode::ParallelReplay => &[retake, "replay", recording],
            Mode::RrRecord => &["rr", "record", "-o", recording, "--"],
            Mode::RrReplay => &["rr", "replay", "-a", recording],
        };
        let mut command: Vec<String> = Vec::new();
        if let Some(data) = &self.profile_into {
            command.extend(profiler(text_of(data)?).map(str::to_owned));
            command.push("--".to_owned());
        }
        command.extend(prefix.iter().map(|&word| word.to_owned()));
        if !mode.is_replay() {
            command.extend_from_slice(&self.command);
        }
        Ok(command)
    }
}

/// Returns the words before a command that is profiled into a file.
fn profiler(data: &str) -> [&str; 9] {
    ["perf", "record", "--quiet", "-F", SAMPLES_PER_SECOND, "-e", "cpu-clock", "-o", data]
}

/// Returns the environment of all measured processes.
pub fn environment(bench: &Bench) -> [(String, OsString); 3] {
    let store = bench.scratch().path().join("recordings").into_os_string();
    [
        ("RETAKE_DIR".to_owned(), store),
        ("LC_ALL".to_owned(), "C".into()),
        ("PATH".to_owned(), search_path()),
    ]
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()).into())
}

/// Returns the end of a program's output, in one line.
pub fn tail(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(SHOWN_ERROR_BYTES);
    let text = String::from_utf8_lossy(&bytes[start..]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_short() {
        assert_eq!(tail(b"one\n two\n"), "one two");
        assert_eq!(tail(&[b'a'; 1000]).len(), SHOWN_ERROR_BYTES);
    }
}
