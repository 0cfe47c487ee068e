//! Measures a workload in rounds: each round is native, strace, record, replay, one after the
//! other, so that what drifts on the machine drifts for all of them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Result;
use super::gate::Finding;
use super::mode::Mode;
use super::pace::Pace;
use super::scratch::{Scratch, folder_bytes};
use super::stage::{FIRST_TIME_LIMIT, Stage};
use super::statistics::Series;
use super::verdict::exceeded;
use super::workload::{Baseline, Place, Workload};
use retake_testing::needs::find_command;

/// How long runs but the first may take: this, and some times what the first took.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const TIME_LIMIT_RATIO: f64 = 30.0;

/// Whether there are figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Not tried, and why.
    Skipped(String),
    /// A run failed, and how. Figures are those until then.
    Failed(String),
}

impl Outcome {
    /// What a measurement that ended so came to.
    pub fn of(ended: Result<()>) -> Self {
        match ended {
            Ok(()) => Self::Done,
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    /// Skipped, if one of `required` is not there.
    pub fn without<T: AsRef<str>>(required: &[T]) -> Option<Self> {
        let missing = required.iter().map(T::as_ref).find(|what| !is_present(what))?;
        Some(Self::Skipped(format!("{missing} is not there")))
    }

    /// Why there are no figures, if there are none, in words.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Skipped(reason) => Some(format!("skipped: {reason}")),
            Self::Failed(reason) => Some(format!("FAILED: {reason}")),
        }
    }

    /// The same for the gate.
    pub fn finding(&self) -> Option<Finding> {
        match self {
            Self::Done => None,
            Self::Skipped(reason) => Some(Finding::Skipped(reason.clone())),
            Self::Failed(reason) => Some(Finding::Failed(reason.clone())),
        }
    }
}

/// The figures of a workload.
#[derive(Debug, Clone)]
pub struct Measured {
    pub workload: Workload,
    pub outcome: Outcome,
    /// Seconds, by mode, in the order of `Mode::ALL`: of a whole run, or of one request to a
    /// server.
    seconds: [Series; Mode::ALL.len()],
    /// Of a server at half load: microseconds that 99.9 % of the answers kept, by mode.
    latency_us: [Series; Mode::ALL.len()],
    /// strace was stopped: it takes longer than its figures say.
    pub strace_was_stopped: bool,
    /// The highest resident memory of the `retake` process seen in any round, in KB.
    pub record_peak_kb: u64,
    pub replay_peak_kb: u64,
    /// What one recording takes for itself, in bytes: all but `file_bytes`.
    pub log_bytes: u64,
    /// The files that one recording needs, in bytes: once in the store, however many recordings
    /// need them.
    pub file_bytes: u64,
    /// Where the time goes, if that was asked for and a limit exceeded.
    pub profile: String,
}

impl Measured {
    /// No figures yet.
    pub fn new(workload: &Workload) -> Self {
        Self {
            workload: workload.clone(),
            outcome: Outcome::Done,
            seconds: std::array::from_fn(|_| Series::default()),
            latency_us: std::array::from_fn(|_| Series::default()),
            strace_was_stopped: false,
            record_peak_kb: 0,
            replay_peak_kb: 0,
            log_bytes: 0,
            file_bytes: 0,
            profile: String::new(),
        }
    }

    pub fn seconds(&self, mode: Mode) -> &Series {
        &self.seconds[mode as usize]
    }

    pub fn seconds_mut(&mut self, mode: Mode) -> &mut Series {
        &mut self.seconds[mode as usize]
    }

    pub fn latency_us(&self, mode: Mode) -> &Series {
        &self.latency_us[mode as usize]
    }

    pub fn latency_us_mut(&mut self, mode: Mode) -> &mut Series {
        &mut self.latency_us[mode as usize]
    }

    /// What ratios are to.
    pub fn baseline(&self) -> &Series {
        self.seconds(self.baseline_mode())
    }

    pub fn baseline_mode(&self) -> Mode {
        match self.workload.baseline {
            Baseline::Native => Mode::Native,
            Baseline::OneCore => Mode::OneCore,
        }
    }

    /// The median as a multiple of the native one on all cores. Nothing if there are no figures, or
    /// that is too noisy.
    pub fn ratio_to_all_cores(&self, mode: Mode) -> Option<f64> {
        let native = self.seconds(Mode::Native);
        if native.is_noisy() {
            return None;
        }
        Some(self.seconds(mode).median()? / native.median()?)
    }

    /// The median as a multiple of the baseline's. Nothing if there are no figures, or the baseline
    /// is too noisy.
    pub fn ratio(&self, mode: Mode) -> Option<f64> {
        if self.baseline().is_noisy() {
            return None;
        }
        Some(self.seconds(mode).median()? / self.baseline().median()?)
    }

    /// Whether it succeeded, but what it is compared with varies too much.
    pub fn is_noisy(&self) -> bool {
        let compares_all_cores = self.workload.parallel_limits.is_some();
        let is_noisy = self.baseline().is_noisy()
            || (compares_all_cores && self.seconds(Mode::Native).is_noisy());
        self.outcome == Outcome::Done && is_noisy
    }

    /// The latency of the recorded server as a multiple of the baseline's.
    pub fn latency_ratio(&self) -> Option<f64> {
        Some(
            self.latency_us(Mode::Record).median()?
                / self.latency_us(self.baseline_mode()).median()?,
        )
    }

    /// Notes what the recording takes on disk.
    pub fn note_sizes(&mut self, recording: &Path) {
        self.file_bytes = folder_bytes(&recording.join("files"));
        self.log_bytes = folder_bytes(recording) - self.file_bytes;
    }
}

/// What all workloads share.
#[derive(Debug)]
pub struct Bench {
    repository: PathBuf,
    scratch: Scratch,
    /// A copy: a build during the measurements must not change what is measured, nor make
    /// recordings of another build.
    retake: PathBuf,
    has_strace: bool,
    has_rr: bool,
}

impl Bench {
    /// Makes the scratch folder and copies `retake` into it.
    ///
    /// # Errors
    /// If that fails.
    pub fn prepare(repository: &Path, scratch: &Path, retake: &Path, keep: bool) -> Result<Self> {
        let scratch = Scratch::create(scratch, keep)?;
        let copy = scratch.path().join("retake");
        fs::copy(retake, &copy).map_err(|error| format!("{}: {error}", retake.display()))?;
        let has_rr = rr_works(&scratch);
        Ok(Self {
            repository: repository.to_path_buf(),
            scratch,
            retake: copy,
            has_strace: is_present("strace"),
            has_rr,
        })
    }

    /// Whether strace can be measured.
    pub fn has_strace(&self) -> bool {
        self.has_strace
    }

    pub fn repository(&self) -> &Path {
        &self.repository
    }

    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The program that is measured.
    pub fn retake(&self) -> &Path {
        &self.retake
    }

    /// Measures one workload.
    ///
    /// # Errors
    /// Only what stops the whole benchmark; what is wrong with the workload is in its outcome.
    pub fn measure(&self, workload: &Workload, pace: Pace) -> Result<Measured> {
        let mut measured = Measured::new(workload);
        let in_memory = match workload.place {
            Place::Memory => self.memory_scratch(workload.disk_mb),
            Place::Disk => None,
        };
        let scratch = in_memory.as_ref().unwrap_or(&self.scratch);
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
        if !self.scratch.keeps() {
            fs::remove_dir_all(&work)?;
        }
        Ok(measured)
    }

    /// A scratch folder in memory, if there is room for `needed_mb`.
    fn memory_scratch(&self, needed_mb: u64) -> Option<Scratch> {
        let path = format!("/dev/shm/retake-bench-{}", std::process::id());
        let scratch = Scratch::create(Path::new(&path), self.scratch.keeps()).ok()?;
        let has_room = scratch.free_mb().is_some_and(|free| free >= needed_mb);
        has_room.then_some(scratch)
    }

    /// The warm-up and the rounds. An error is a failure of the workload.
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
        // Fills the page cache and the store, and finds out early what does not work. Not counted.
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

    /// All modes once, and the recording's figures.
    fn program_round(&self, measured: &mut Measured, with_others: bool) -> Result<()> {
        for mode in Mode::ALL {
            let is_wanted = match mode {
                Mode::Strace => with_others && self.bench.has_strace,
                Mode::RrRecord | Mode::RrReplay => with_others && self.bench.has_rr,
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

/// Whether rr is there and can record: it needs a processor that counts branches.
fn rr_works(scratch: &Scratch) -> bool {
    let recording = scratch.path().join("rr_trial");
    let mut command = Command::new("rr");
    command
        .args(["record", "-o"])
        .arg(recording)
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    is_present("rr") && command.status().is_ok_and(|status| status.success())
}

/// What is missing for a workload, if anything is.
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

/// Whether a command is where commands are looked for, or a path is there.
pub fn is_present(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    find_command(program).is_some()
}

/// Compares two files piece by piece: the harness stays small beside what it measures.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_baseline() {
        let mut measured = Measured::new(&Workload::default());
        assert_eq!(measured.ratio(Mode::Record), None);
        measured.seconds_mut(Mode::Native).push(2.0);
        measured.seconds_mut(Mode::Record).push(3.0);
        assert_eq!(measured.ratio(Mode::Record), Some(1.5));
        measured.workload.baseline = Baseline::OneCore;
        assert_eq!(measured.ratio(Mode::Record), None);
        measured.seconds_mut(Mode::OneCore).push(6.0);
        assert_eq!(measured.ratio(Mode::Record), Some(0.5));
        measured.seconds_mut(Mode::OneCore).push(9.0);
        measured.seconds_mut(Mode::OneCore).push(6.0);
        assert_eq!(measured.ratio(Mode::Record), None, "noisy");
    }

    #[test]
    fn programs_are_found() {
        assert!(is_present("sh") && is_present("/bin/sh"));
        assert!(!is_present("no-such-program") && !is_present("/no/such/program"));
    }
}
