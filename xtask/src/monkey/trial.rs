//! One run: a program that is recorded, what disturbs it, and what must hold afterwards.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitStatus};
use serde::{Deserialize, Serialize};

use super::disturbance::{Disturbance, Surroundings};
use super::members::{self, Ended};
use super::programs::Program;
use crate::bench::Result;
use crate::random::Random;

/// The file in a run's folder that has its [`Trial`].
pub const FILE: &str = "trial.json";
/// The sizes of the small disk.
const DISKS: [&str; 3] = ["2m", "16m", "256m"];
const MOST_DISTURBANCES: usize = 6;
/// A program that has not ended by itself after this time is ended.
const ALLOWED: Duration = Duration::from_secs(3);
/// A recording of a few seconds is read and replayed within this time, on a busy machine too.
const READING: Duration = Duration::from_secs(60);
/// `retake replay` ends with this where it noticed a divergence.
const DIVERGED: i32 = 120;
/// A killed thread may have printed a line that it could not log.
const LONGEST_LINE: usize = 64;

/// What a run does. All of it is drawn.
#[derive(Debug, Serialize, Deserialize)]
pub struct Trial {
    program: String,
    command: Vec<String>,
    disk: String,
    disturbances: Vec<Disturbance>,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.program, self.disk)?;
        self.disturbances.iter().try_for_each(|disturbance| write!(f, ", {disturbance}"))
    }
}

impl Trial {
    /// The run of that number.
    pub fn draw(seed: u64, number: u64, programs: &[&Program]) -> Self {
        let mut random = Random::new(seed.wrapping_shl(32) ^ number);
        let program = random.pick(programs);
        let count = random.below(MOST_DISTURBANCES).unwrap_or_default() + 1;
        let mut disturbances: Vec<_> = (0..count).map(|_| Disturbance::draw(&mut random)).collect();
        disturbances.sort_by_key(Disturbance::moment);
        Self {
            program: program.name.clone(),
            command: program.command.clone(),
            disk: (*random.pick(&DISKS)).to_owned(),
            disturbances,
        }
    }

    /// Does the run, as the first process of namespaces. Returns what is wrong.
    ///
    /// # Errors
    /// The harness fails.
    pub fn run(&self, folder: &Path, retake: &Path, patience: Duration) -> Result<Vec<String>> {
        let disk = folder.join("disk");
        let mut surroundings = Surroundings::new(&disk, &self.disk)?;
        let place = Place { folder, retake, recording: disk.join("recording") };
        let mut ended = Ended::default();
        let mut complaints = Vec::new();
        let status = self.record(&place, &mut surroundings, &mut ended, patience);
        let Some(status) = status? else {
            complaints.push("the recorder hangs after SIGTERM".to_owned());
            complaints.extend(members::all().into_iter().map(members::describe));
            return Ok(complaints);
        };
        for left in ended.wait_for_all(patience) {
            complaints.push(format!("left behind: {}", members::describe(left)));
        }
        let segments = fs::read_to_string("/proc/sysvipc/shm")?.lines().count() - 1;
        if segments > 0 {
            complaints.push(format!("{segments} segments are left behind"));
        }
        place.check(status, surroundings.may_lack_end, &mut ended, &mut complaints)?;
        if !complaints.is_empty() && place.recording.exists() {
            let kept = folder.join("recording");
            Command::new("cp").arg("-r").arg(&place.recording).arg(kept).status()?;
        }
        Ok(complaints)
    }

    /// Records, and disturbs. `None`: the recorder does not end.
    fn record(
        &self,
        place: &Place<'_>,
        surroundings: &mut Surroundings,
        ended: &mut Ended,
        patience: Duration,
    ) -> Result<Option<WaitStatus>> {
        let mut command = place.retake(&["record", "-o"], "printed")?;
        command.arg(&place.recording).arg("--").args(&self.command);
        let start = Instant::now();
        let recorder = command.spawn()?.id();
        let pid = Pid::from_raw(recorder as i32).ok_or("no process")?;
        for disturbance in &self.disturbances {
            std::thread::sleep(disturbance.moment().saturating_sub(start.elapsed()));
            surroundings.disturb(disturbance, pid);
        }
        surroundings.relieve();
        if let Some(status) = ended.wait(recorder, ALLOWED) {
            return Ok(Some(status));
        }
        members::send(pid, Signal::TERM);
        Ok(ended.wait(recorder, patience))
    }
}

/// Where a run happens.
struct Place<'run> {
    folder: &'run Path,
    retake: &'run Path,
    recording: PathBuf,
}

impl Place<'_> {
    /// A command of retake, whose output goes to the named file.
    fn retake(&self, arguments: &[&str], output: &str) -> Result<Command> {
        let mut command = Command::new(self.retake);
        command
            .args(arguments)
            .env("RETAKE_DIR", self.folder.join("../store"))
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(File::create(self.folder.join(output))?)
            .stderr(File::create(self.folder.join(format!("{output}-errors")))?)
            .process_group(0);
        Ok(command)
    }

    /// Runs a command over the recording. `None`, and a complaint: it does not end.
    fn over(
        &self,
        subcommand: &str,
        ended: &mut Ended,
        complaints: &mut Vec<String>,
    ) -> Result<Option<WaitStatus>> {
        let mut command = self.retake(&[subcommand], subcommand)?;
        let id = command.arg(&self.recording).spawn()?.id();
        let status = ended.wait(id, READING);
        if status.is_none() {
            complaints.push(format!("{subcommand} hangs"));
            complaints.extend(members::all().into_iter().map(members::describe));
        }
        Ok(status)
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the recording can be read, and replays to where it was cut.
    fn check(
        &self,
        recorded: WaitStatus,
        may_lack_end: bool,
        ended: &mut Ended,
        complaints: &mut Vec<String>,
    ) -> Result<()> {
        if !self.recording.exists() {
            if self.read("printed-errors").is_empty() && recorded.terminating_signal().is_none() {
                complaints.push("no recording, and no reason".to_owned());
            }
            return Ok(());
        }
        let Some(told) = self.over("info", ended, complaints)? else { return Ok(()) };
        if told.exit_status() != Some(0) {
            // A recorder that was killed at once has recorded nothing, and says so.
            if !may_lack_end || self.read("info-errors").is_empty() {
                complaints.push(format!("info: {told:?}: {}", self.read("info-errors")));
            }
            return Ok(());
        }
        let Some(replayed) = self.over("replay", ended, complaints)? else { return Ok(()) };
        let errors = self.read("replay-errors");
        if replayed.exit_status() == Some(DIVERGED) || errors.contains("panicked") {
            complaints.push(format!("replay: {replayed:?}: {errors}"));
        }
        self.compare(recorded, may_lack_end, complaints);
        Ok(())
    }

    /// Compares what the program has printed with what its replay prints.
    fn compare(&self, recorded: WaitStatus, may_lack_end: bool, complaints: &mut Vec<String>) {
        let [printed, replayed] = ["printed", "replay"].map(|name| self.read(name));
        let was_full = self.read("printed-errors").contains("no space left");
        let was_killed = may_lack_end || recorded.terminating_signal().is_some();
        let may_lack = match (was_full, was_killed) {
            (true, _) => printed.len(),
            (_, true) => LONGEST_LINE,
            _ => 0,
        };
        let lacks = printed.strip_prefix(replayed.as_str()).map(str::len);
        let is_good = lacks.is_some_and(|lacks| lacks <= may_lack)
            || was_killed && replayed.starts_with(&printed);
        if !is_good {
            complaints.push(format!(
                "{} bytes were printed, {} at replay",
                printed.len(),
                replayed.len()
            ));
        }
    }
}
