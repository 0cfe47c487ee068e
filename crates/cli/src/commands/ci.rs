//! `retake ci`: records a test run, and keeps the recording if the run fails.

mod annotation;
mod failed;
mod junit;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::Args;
use retake_kernel::signals;
use retake_recording::{Error, Recording};

use crate::commands::backtrace;
use crate::failure::{Failure, Result, STATUS_FAILED};
use crate::quantity;
use crate::text;
use failed::Failed;

/// Options of `retake ci`.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs a test command and records it. If it succeeds, nothing is kept. If it fails, retake packs the \
recording into one file in a folder, which the CI system can upload. It prints the backtrace of \
the process that failed, and the command that opens the failure on your own machine. See \
docs/CI.md for recipes.

retake ci ends as the last run of the command ended.

Examples:
  retake ci -- pytest -x
  retake ci --timeout 600 --junit report.xml -- ctest --output-on-failure
  retake ci --retries 2 -- cargo test   a test that then succeeds is flaky: the run that failed is kept
  retake ci --chaos --until-failure -n 50 -- ./test_queue
")]
pub struct Options {
    /// The folder for packed recordings of failures
    #[arg(short, long, value_name = "DIR", default_value = "retake-failures")]
    out: PathBuf,

    /// Write a report in JUnit's format
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// End the command when the events of its recording take SIZE: see retake record
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = quantity::size)]
    max_size: u64,

    /// End the command after SECONDS, and print which threads wait for each other
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<String>,

    /// If it fails, run it again up to N times. The command has succeeded if one run succeeds
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "until_failure")]
    retries: u32,

    /// Run it again and again until it fails: see retake record
    #[arg(long)]
    until_failure: bool,

    /// With --until-failure, the most runs
    #[arg(short = 'n', long, value_name = "N", requires = "until_failure",
        value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,

    /// Run threads in random order: see retake record
    #[arg(long)]
    chaos: bool,

    /// The gdb to use
    #[arg(long, value_name = "PATH", default_value = "gdb")]
    gdb: PathBuf,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// One run of the command.
pub struct Run {
    status: ExitStatus,
    duration: Duration,
    /// The failure, if the run failed and its recording exists.
    failed: Option<Failed>,
}

impl Run {
    fn has_failed(&self) -> bool {
        !self.status.success()
    }
}

/// Runs the command, keeps recordings of failures, and ends this process as the last run ended.
pub fn run(options: &Options) -> Result<()> {
    let out = std::path::absolute(&options.out)
        .map_err(|error| Failure::system("find", options.out.display(), &error))?;
    let had_folder = out.exists();
    fs::create_dir_all(&out).map_err(|error| Failure::system("make", out.display(), &error))?;
    let mut runs = Vec::new();
    let outcome = run_all(options, &out, &mut runs);
    if !had_folder {
        // This succeeds only for an empty folder: nothing was kept.
        let _ = fs::remove_dir(&out);
    }
    outcome?;
    if let Some(path) = &options.junit {
        fs::write(path, junit::report(&options.name(), &runs))
            .map_err(|error| Failure::system("write", path.display(), &error))?;
    }
    let last = runs.last().map_or(0, |run| run.status.into_raw());
    signals::end_as(last)
}

fn run_all(options: &Options, out: &Path, runs: &mut Vec<Run>) -> Result<()> {
    for attempt in 0..=options.retries {
        let mut run = options.run_once(out)?;
        let is_over = !run.has_failed() || attempt == options.retries;
        if let Some(failed) = &mut run.failed {
            failed.tell(is_over);
        }
        runs.push(run);
        if is_over {
            break;
        }
        retake_kernel::tell!("retake: run {} of {}", attempt + 2, options.retries + 1);
    }
    let failures = runs.iter().filter(|run| run.has_failed()).count();
    if failures > 0 && failures < runs.len() {
        retake_kernel::tell!("retake: flaky: failed {failures} times, and then succeeded");
    }
    Ok(())
}

impl Options {
    /// The command as a user would type it.
    fn name(&self) -> String {
        let words: Vec<String> =
            self.command.iter().map(|word| text::quoted(&word.to_string_lossy())).collect();
        words.join(" ")
    }

    fn run_once(&self, out: &Path) -> Result<Run> {
        let place = unused_name(out, &self.command[0]);
        let recorded = place.with_extension("recording");
        let began = Instant::now();
        let status = self.record(&recorded)?;
        let duration = began.elapsed();
        let mut run = Run { status, duration, failed: None };
        if !recorded.exists() {
            // Recording failed, and has reported it; or --until-failure found no failure.
            return Ok(run);
        }
        if run.has_failed() {
            run.failed = Some(self.keep(&recorded, &place, run.status)?);
        }
        match retake_recording::remove(&recorded) {
            // An empty folder is no recording yet. There is nothing to keep.
            Err(Error::NotARecording { .. }) => Ok(run),
            removed => removed.map(|()| run).map_err(Failure::from),
        }
    }

    /// Records in a child process, which ends as the command ends.
    fn record(&self, directory: &Path) -> Result<ExitStatus> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::system("find", "this program", &error))?;
        let mut command = Command::new(&own);
        command.arg("record").arg("--output").arg(directory);
        command.arg("--max-size").arg(quantity::size_text(self.max_size));
        if let Some(timeout) = &self.timeout {
            command.arg("--timeout").arg(timeout);
        }
        if self.until_failure {
            command.arg("--until-failure");
        }
        if let Some(runs) = self.runs {
            command.arg("--runs").arg(runs.to_string());
        }
        if self.chaos {
            command.arg("--chaos");
        }
        command.arg("--").args(&self.command);
        let failed = |error| Failure::system("run", own.display(), &error);
        let mut child = command.spawn().map_err(failed)?;
        let pid = i32::try_from(child.id()).unwrap_or(0);
        let status = signals::passing_to(pid, None, || child.wait()).map_err(failed)?;
        if status.code() == Some(STATUS_FAILED.into()) && !directory.exists() {
            return Err(Failure::new("the command could not be recorded: see above"));
        }
        Ok(status)
    }

    /// Packs the recording of a failure, and makes the report on it.
    fn keep(&self, recorded: &Path, place: &Path, status: ExitStatus) -> Result<Failed> {
        let recording = Recording::open(recorded)?;
        let packed = place.with_extension("retake");
        retake_recording::pack(&recording, &packed, &mut |_| {})?;
        let shown = self.out.join(packed.file_name().unwrap_or_default());
        let pid = failed::process(&recording);
        let report = backtrace::of_process(&recording, pid, &self.gdb);
        Ok(Failed::new(self.name(), status, shown, report))
    }
}

/// The first of `OUT/pytest-1`, `OUT/pytest-2` and so on that does not exist.
fn unused_name(out: &Path, program: &OsStr) -> PathBuf {
    let base = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_+".contains(character);
    let base: String =
        base.chars().map(|character| if is_plain(character) { character } else { '_' }).collect();
    let mut number = 1_u64;
    loop {
        let place = out.join(format!("{base}-{number}"));
        let is_used = |extension| place.with_extension(extension).exists();
        if !is_used("retake") && !is_used("recording") {
            return place;
        }
        number += 1;
    }
}
