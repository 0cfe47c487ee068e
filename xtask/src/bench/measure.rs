//! Prepares a workload and runs it in rounds: each round is native, strace, record, replay, one after the other, so that what
//! drifts on the machine drifts for all of them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Result;
use super::process::{Ran, Run, describe};
use super::scratch::{Scratch, folder_bytes};
use super::statistics::Series;
use super::workload::{Baseline, Place, Workload};

/// How long the first native run may take.
const FIRST_TIME_LIMIT: Duration = Duration::from_secs(120);

/// How long others may take: this, and some times what the first took.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const TIME_LIMIT_RATIO: f64 = 30.0;

/// How much of a program's complaint is repeated.
const SHOWN_ERROR_BYTES: usize = 300;

/// A way to run a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Native,
    /// On one core.
    OneCore,
    Strace,
    Record,
    Replay,
}

impl Mode {
    pub const ALL: [Self; 5] = [Self::Native, Self::OneCore, Self::Strace, Self::Record, Self::Replay];

    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::OneCore => "one_core",
            Self::Strace => "strace",
            Self::Record => "record",
            Self::Replay => "replay",
        }
    }
}

/// Whether there are figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Not tried, and why.
    Skipped(String),
    /// A run failed, and how. Figures are those until then.
    Failed(String),
}

/// The figures of a workload.
#[derive(Debug, Clone)]
pub struct Measured {
    pub workload: Workload,
    pub outcome: Outcome,
    /// Seconds, by mode, in the order of `Mode::ALL`.
    seconds: [Series; Mode::ALL.len()],
    /// The highest resident memory of the `retake` process seen in any round, in KB.
    pub record_peak_kb: u64,
    pub replay_peak_kb: u64,
    /// What one recording takes for itself, in bytes: all but `file_bytes`.
    pub log_bytes: u64,
    /// The files that one recording needs, in bytes: once in the store, however many recordings need them.
    pub file_bytes: u64,
}

impl Measured {
    /// No figures yet.
    pub fn new(workload: &Workload) -> Self {
        Self {
            workload: workload.clone(),
            outcome: Outcome::Done,
            seconds: std::array::from_fn(|_| Series::default()),
            record_peak_kb: 0,
            replay_peak_kb: 0,
            log_bytes: 0,
            file_bytes: 0,
        }
    }

    pub fn seconds(&self, mode: Mode) -> &Series {
        &self.seconds[mode as usize]
    }

    pub fn seconds_mut(&mut self, mode: Mode) -> &mut Series {
        &mut self.seconds[mode as usize]
    }

    /// What ratios are to.
    pub fn baseline(&self) -> &Series {
        match self.workload.baseline {
            Baseline::Native => self.seconds(Mode::Native),
            Baseline::OneCore => self.seconds(Mode::OneCore),
        }
    }

    /// The median as a multiple of the baseline's. Nothing if there are no figures, or the baseline is too noisy.
    pub fn ratio(&self, mode: Mode) -> Option<f64> {
        if self.baseline().is_noisy() {
            return None;
        }
        Some(self.seconds(mode).median()? / self.baseline().median()?)
    }
}

/// What all workloads share.
#[derive(Debug)]
pub struct Bench {
    repository: PathBuf,
    scratch: Scratch,
    /// A copy: a build during the measurements must not change what is measured, nor make recordings of another build.
    retake: PathBuf,
    has_strace: bool,
}

/// Where one workload lives, and how long it may take.
struct Stage<'a> {
    bench: &'a Bench,
    workload: &'a Workload,
    work: PathBuf,
    folder: PathBuf,
    command: Vec<String>,
    time_limit: Duration,
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
        Ok(Self { repository: repository.to_path_buf(), scratch, retake: copy, has_strace: is_present("strace") })
    }

    /// Measures one workload.
    ///
    /// # Errors
    /// Only what stops the whole benchmark; what is wrong with the workload is in its outcome.
    pub fn measure(&self, workload: &Workload, rounds: usize, strace_rounds: usize) -> Result<Measured> {
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
        fs::create_dir(&work)?;
        if let Err(error) = self.rounds(&mut measured, &work, rounds, strace_rounds) {
            measured.outcome = Outcome::Failed(error.to_string());
        }
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
    fn rounds(&self, measured: &mut Measured, work: &Path, rounds: usize, strace_rounds: usize) -> Result<()> {
        let workload = measured.workload.clone();
        let mut stage = self.stage(&workload, work)?;
        stage.time_limit = FIRST_TIME_LIMIT;
        let first = stage.run_once(Mode::Native)?;
        stage.time_limit = TIME_LIMIT + Duration::from_secs_f64(first.seconds * TIME_LIMIT_RATIO);
        // Fills the page cache and the store, and finds out early what does not work. Not counted.
        stage.round(&mut Measured::new(&workload), false)?;
        for round in 0..rounds {
            stage.round(measured, self.has_strace && round < strace_rounds)?;
        }
        Ok(())
    }

    /// Compiles and prepares what the workload needs.
    fn stage<'a>(&'a self, workload: &'a Workload, work: &Path) -> Result<Stage<'a>> {
        let mut stage =
            Stage { bench: self, workload, work: work.to_path_buf(), folder: work.to_path_buf(), command: Vec::new(), time_limit: FIRST_TIME_LIMIT };
        for program in &workload.compile {
            let source = format!("{{programs}}/{program}.c");
            let output = format!("{{work}}/{program}");
            stage.script(&format!("${{CC:-gcc}} -O2 -pthread -o '{output}' '{source}'"))?;
        }
        stage.script(&workload.prepare)?;
        if !workload.folder.is_empty() {
            stage.folder = PathBuf::from(stage.fill(&workload.folder)?);
        }
        for argument in &workload.command {
            let argument = stage.fill(argument)?;
            stage.command.push(argument);
        }
        Ok(stage)
    }
}

impl Stage<'_> {
    /// Replaces the names of folders in text of a workload file.
    fn fill(&self, text: &str) -> Result<String> {
        let programs = self.bench.repository.join("benches/programs");
        let mut filled = text.to_owned();
        for (name, path) in [("{work}", &self.work), ("{repository}", &self.bench.repository), ("{programs}", &programs)] {
            let path = path.to_str().ok_or("the path of a folder is not UTF-8")?;
            filled = filled.replace(name, path);
        }
        Ok(filled)
    }

    /// Runs a bash script that is not measured.
    fn script(&self, script: &str) -> Result<()> {
        if script.is_empty() {
            return Ok(());
        }
        let output = Command::new("bash").args(["-euc", &self.fill(script)?]).current_dir(&self.work).output()?;
        if output.status.success() {
            return Ok(());
        }
        let complaint = tail(&output.stderr);
        let status = describe(output.status);
        Err(format!("its preparation ended with {status}: {complaint}").into())
    }

    fn recording(&self) -> PathBuf {
        self.bench.scratch.path().join("recording")
    }

    fn output_of(&self, mode: Mode) -> PathBuf {
        self.work.join(format!("{}.output", mode.name()))
    }

    /// All modes once, and the recording's figures.
    fn round(&self, measured: &mut Measured, with_strace: bool) -> Result<()> {
        for mode in Mode::ALL {
            let is_wanted = match mode {
                Mode::Strace => with_strace,
                Mode::OneCore => self.workload.baseline == Baseline::OneCore,
                Mode::Native | Mode::Record | Mode::Replay => true,
            };
            if !is_wanted {
                continue;
            }
            let ran = match self.run_once(mode) {
                Ok(ran) => ran,
                // Only a comparison: what strace cannot do is not our failure.
                Err(_) if mode == Mode::Strace => continue,
                Err(error) => return Err(error),
            };
            measured.seconds_mut(mode).push(ran.seconds);
            match mode {
                Mode::Record => {
                    measured.record_peak_kb = measured.record_peak_kb.max(ran.peak_kb);
                    measured.file_bytes = folder_bytes(&self.recording().join("files"));
                    measured.log_bytes = folder_bytes(&self.recording()) - measured.file_bytes;
                }
                Mode::Replay => measured.replay_peak_kb = measured.replay_peak_kb.max(ran.peak_kb),
                Mode::Native | Mode::OneCore | Mode::Strace => {}
            }
        }
        if !same_bytes(&self.output_of(Mode::Record), &self.output_of(Mode::Replay))? {
            return Err("replay printed something else than was recorded".into());
        }
        fs::remove_dir_all(self.recording())?;
        Ok(())
    }

    /// One timed run, from a clean state.
    fn run_once(&self, mode: Mode) -> Result<Ran> {
        self.script(&self.workload.reset)?;
        if mode == Mode::Record && self.recording().exists() {
            // What a failed workload left.
            fs::remove_dir_all(self.recording())?;
        }
        self.bench.scratch.settle();
        let errors = self.work.join("errors");
        let command = self.command_for(mode)?;
        let run = Run {
            command: &command,
            folder: &self.folder,
            environment: &[("RETAKE_DIR".to_owned(), self.bench.scratch.path().join("recordings")), ("LC_ALL".to_owned(), PathBuf::from("C"))],
            output: &self.output_of(mode),
            errors: &errors,
            time_limit: self.time_limit,
            watched_name: matches!(mode, Mode::Record | Mode::Replay).then_some("retake"),
        };
        let name = mode.name();
        let ran = run.run().map_err(|error| format!("{name}: {error}"))?;
        if ran.was_stopped {
            let limit = self.time_limit.as_secs();
            return Err(format!("{name} did not end within {limit} s").into());
        }
        if !ran.status.success() {
            let complaint = tail(&fs::read(&errors)?);
            return Err(format!("{name} ended with {}: {complaint}", describe(ran.status)).into());
        }
        Ok(ran)
    }

    fn command_for(&self, mode: Mode) -> Result<Vec<String>> {
        let text = |path: &Path| -> Result<String> {
            let text = path.to_str().ok_or("the path of a folder is not UTF-8")?;
            Ok(text.to_owned())
        };
        let retake = text(&self.bench.retake)?;
        let recording = text(&self.recording())?;
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let mut command: Vec<String> = match mode {
            Mode::Native => Vec::new(),
            Mode::OneCore => words(&["taskset", "-c", "0"]),
            Mode::Strace => words(&["strace", "-f", "-o", &text(&self.work.join("strace"))?]),
            Mode::Record => words(&[&retake, "record", "-o", &recording, "--"]),
            Mode::Replay => return Ok(words(&[&retake, "replay", &recording])),
        };
        command.extend_from_slice(&self.command);
        Ok(command)
    }
}

/// What is missing for a workload, if anything is.
fn reason_to_skip(workload: &Workload, scratch: &Scratch) -> Option<String> {
    for program in &workload.requires {
        if !is_present(program) {
            let packages = &workload.packages;
            return Some(format!("needs {program} (Debian: {packages})"));
        }
    }
    match scratch.free_mb() {
        Some(free) if free < workload.disk_mb => Some(format!("needs {} MB of disk, {free} are free", workload.disk_mb)),
        _ => None,
    }
}

/// Whether a command is in `PATH`, or a path is there.
fn is_present(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The end of what a program wrote, in one line.
fn tail(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(SHOWN_ERROR_BYTES);
    let text = String::from_utf8_lossy(&bytes[start..]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
    fn modes_index_their_series() {
        for (index, mode) in Mode::ALL.into_iter().enumerate() {
            assert_eq!(mode as usize, index);
        }
    }

    #[test]
    fn complaints_are_short() {
        assert_eq!(tail(b"one\n two\n"), "one two");
        assert_eq!(tail(&[b'a'; 1000]).len(), SHOWN_ERROR_BYTES);
    }

    #[test]
    fn programs_are_found() {
        assert!(is_present("sh") && is_present("/bin/sh"));
        assert!(!is_present("no-such-program") && !is_present("/no/such/program"));
    }
}
