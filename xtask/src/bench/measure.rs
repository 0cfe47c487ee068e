//! Measures a workload in rounds. Each round is native, strace, record and replay, one after the
//! other, so that a drift of the machine affects all of them.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Result;
use super::figures::{Measured, Outcome};
use super::harness::Bench;
use super::machine::is_present;
use super::mode::Mode;
use super::pace::Pace;
use super::scratch::Scratch;
use super::stage::{FIRST_TIME_LIMIT, Stage};
use super::verdict::exceeded;
use super::workload::{Baseline, Place, Workload};

/// The time limit of all runs but the first: this, plus a multiple of the first run's time.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const TIME_LIMIT_RATIO: f64 = 30.0;

impl Bench {
    /// Measures one workload.
    ///
    /// # Errors
    /// Only errors that stop the whole benchmark. The failure of a workload is in its outcome.
    pub fn measure(&self, workload: &Workload, pace: Pace) -> Result<Measured> {
        let mut measured = Measured::new(workload);
        let in_memory = match workload.place {
            Place::Memory => self.memory_scratch(workload.disk_mb),
            Place::Disk => None,
        };
        let scratch = in_memory.as_ref().unwrap_or(self.scratch());
        if let Some(reason) = reason_to_skip(workload, scratch) {
            measured.outcome = Outcome::Skipped(reason);
            return Ok(measured);
        }
        let work = scratch.path().join(&workload.name);
        if work.exists() {
            // It was kept, but is measured again.
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir(&work)?;
        measured.outcome = Outcome::of(self.rounds(&mut measured, &work, pace));
        if !self.scratch().keeps() {
            fs::remove_dir_all(&work)?;
        }
        Ok(measured)
    }

    /// Makes the warm-up and the rounds. An error is a failure of the workload.
    fn rounds(&self, measured: &mut Measured, work: &Path, pace: Pace) -> Result<()> {
        let workload = measured.workload.clone();
        let start = Instant::now();
        let pace = if workload.is_server() { pace.for_server() } else { pace };
        let mut stage = Stage::prepare(self, &workload, work)?;
        stage.strace_limit = pace.strace_limit;
        if !workload.is_server() {
            stage.time_limit = FIRST_TIME_LIMIT;
            let first = stage.run_once(Mode::Native)?;
            stage.time_limit =
                TIME_LIMIT + Duration::from_secs_f64(first.seconds * TIME_LIMIT_RATIO);
        }
        // Fills the page cache and the store, and finds failures early. Its figures do not count.
        stage.warm_up()?;
        let mut done = 0;
        while pace.goes_on(done, start.elapsed()) {
            stage.round(measured, done < pace.strace_rounds, pace.load_seconds)?;
            done += 1;
        }
        if pace.profile && !exceeded(measured).is_empty() {
            measured.profile = stage.profile(pace.load_seconds);
        }
        Ok(())
    }
}

impl Stage<'_> {
    fn warm_up(&self) -> Result<()> {
        if self.workload.is_server() {
            self.record_server(1)
        } else {
            self.program_round(&mut Measured::new(self.workload), false)
        }
    }

    fn round(&self, measured: &mut Measured, with_others: bool, load_seconds: u64) -> Result<()> {
        if self.workload.is_server() {
            self.server_round(measured, with_others, load_seconds)
        } else {
            self.program_round(measured, with_others)
        }
    }

    /// Runs all modes once, and notes the recording's sizes.
    fn program_round(&self, measured: &mut Measured, with_others: bool) -> Result<()> {
        for mode in Mode::ALL {
            let is_wanted = match mode {
                Mode::Strace => with_others && self.bench.has_strace(),
                Mode::RrRecord | Mode::RrReplay => with_others && self.bench.has_rr(),
                Mode::OneCore => self.workload.baseline == Baseline::OneCore,
                Mode::ParallelRecord | Mode::ParallelReplay => {
                    self.workload.parallel_limits.is_some()
                }
                Mode::Native | Mode::Record | Mode::Replay => true,
            };
            if !is_wanted {
                continue;
            }
            let ran = match self.run_once(mode) {
                Ok(ran) => ran,
                Err(_) if mode.is_other() => continue,
                Err(error) => return Err(error),
            };
            measured.seconds_mut(mode).push(ran.seconds);
            match mode {
                Mode::Record => {
                    measured.record_peak_kb = measured.record_peak_kb.max(ran.peak_kb);
                    measured.note_sizes(&self.recording(Mode::Record));
                }
                Mode::Replay => measured.replay_peak_kb = measured.replay_peak_kb.max(ran.peak_kb),
                Mode::Strace => measured.strace_was_stopped |= ran.was_stopped,
                Mode::Native
                | Mode::OneCore
                | Mode::ParallelRecord
                | Mode::ParallelReplay
                | Mode::RrRecord
                | Mode::RrReplay => {}
            }
        }
        for (record, replay) in
            [(Mode::Record, Mode::Replay), (Mode::ParallelRecord, Mode::ParallelReplay)]
        {
            if self.recording(record).exists() {
                if !same_bytes(&self.output_of(record), &self.output_of(replay))? {
                    return Err(format!(
                        "{} printed something else than was recorded",
                        replay.name()
                    )
                    .into());
                }
                fs::remove_dir_all(self.recording(record))?;
            }
        }
        Ok(())
    }
}

/// Returns what is missing for a workload, if anything.
fn reason_to_skip(workload: &Workload, scratch: &Scratch) -> Option<String> {
    for program in &workload.requires {
        if !is_present(program) {
            return Some(format!("needs {program}; try: apt-get install {}", workload.packages));
        }
    }
    match scratch.free_mb() {
        Some(free) if free < workload.disk_mb => {
            Some(format!("needs {} MB of disk, {free} are free", workload.disk_mb))
        }
        _ => None,
    }
}

/// Compares two files piece by piece, so that the harness needs little memory.
fn same_bytes(first: &Path, second: &Path) -> Result<bool> {
    const PIECE_BYTES: u64 = 1 << 16;
    let mut first = fs::File::open(first)?;
    let mut second = fs::File::open(second)?;
    loop {
        let mut pieces = [Vec::new(), Vec::new()];
        (&mut first).take(PIECE_BYTES).read_to_end(&mut pieces[0])?;
        (&mut second).take(PIECE_BYTES).read_to_end(&mut pieces[1])?;
        if pieces[0] != pieces[1] {
            return Ok(false);
        }
        if pieces[0].is_empty() {
            return Ok(true);
        }
    }
}
