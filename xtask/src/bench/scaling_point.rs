//! One size on an axis: its time natively, recorded and replayed, and the cost of opening its
//! recording.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::Result;
use super::process::kill_group;
use super::stage::environment;
use super::statistics::Series;
use super::stopwatch::Stopwatch;

/// The free space that must remain beside the largest recording.
const SPARE_DISK_MB: u64 = 4000;

/// How often short runs are timed.
const REPETITIONS: usize = 5;

/// Runs that take longer are made once.
const STEADY_SECONDS: f64 = 1.0;

/// One size on one axis.
#[derive(Debug, Clone)]
pub struct Point {
    pub size: u64,
    pub native: f64,
    pub record: f64,
    pub replay: f64,
    pub record_peak_kb: u64,
    pub replay_peak_kb: u64,
    pub log_bytes: u64,
    pub opening: Option<Opening>,
}

/// Costs that must not depend on the length of a recording.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Seconds until replay's first output.
    pub first_output: Series,
    pub info: Series,
    pub info_peak_kb: Option<u64>,
    /// Seconds for a dump of ten events from the middle.
    pub dump: Series,
    pub dump_peak_kb: Option<u64>,
}

/// Measures one size. `middle` is the number of an event in the middle, if sizes are lengths of
/// recordings.
///
/// # Errors
/// A run fails, or the disk is too small.
pub fn measure(
    stopwatch: &Stopwatch<'_>,
    axis: &str,
    size: u64,
    middle: Option<u64>,
) -> Result<Point> {
    if axis == "payload" {
        let free = stopwatch.bench().scratch().free_mb().unwrap_or(0);
        if free < size + SPARE_DISK_MB {
            return Err(
                format!("needs {} MB of disk, {free} are free", size + SPARE_DISK_MB).into()
            );
        }
    }
    let program = stopwatch.folder().join("growth").display().to_string();
    let command = [program, axis.to_owned(), size.to_string()];
    let recording = stopwatch.folder().join("recording");
    let mut times = [Series::default(), Series::default(), Series::default()];
    let (mut record_peak_kb, mut replay_peak_kb) = (0, 0);
    // Long runs are steady enough. Times of short runs are mostly chance.
    for _ in 0..REPETITIONS {
        times[0].push(stopwatch.native(&command)?);
        let recorded = stopwatch.record_watched(&command, &recording)?;
        let replayed = stopwatch.run(&stopwatch.retake(&["replay"], &recording))?;
        times[1].push(recorded.seconds);
        times[2].push(replayed.seconds);
        record_peak_kb = recorded.peak_kb.max(record_peak_kb);
        replay_peak_kb = replayed.peak_kb.max(replay_peak_kb);
        if recorded.seconds > STEADY_SECONDS {
            break;
        }
    }
    let [native, record, replay] = times.map(|series| series.median().unwrap_or(0.0));
    let opening =
        middle.map(|middle| Opening::measure(stopwatch, &recording, middle)).transpose()?;
    let log_bytes = stopwatch.log_bytes(&recording);
    fs::remove_dir_all(&recording)?;
    Ok(Point { size, native, record, replay, record_peak_kb, replay_peak_kb, log_bytes, opening })
}

impl Opening {
    fn measure(stopwatch: &Stopwatch<'_>, recording: &Path, middle: u64) -> Result<Self> {
        let range = format!("{middle}..{}", middle + 10);
        let info = stopwatch.retake(&["info"], recording);
        let dump = stopwatch.retake(&["dump", "--stream", "0", "--range", &range], recording);
        let mut opening = Self {
            first_output: Series::default(),
            info: Series::default(),
            info_peak_kb: stopwatch.peak_kb(&info)?,
            dump: Series::default(),
            dump_peak_kb: stopwatch.peak_kb(&dump)?,
        };
        for _ in 0..REPETITIONS {
            opening.first_output.push(first_output(stopwatch, recording)?);
            opening.info.push(stopwatch.native(&info)?);
            opening.dump.push(stopwatch.native(&dump)?);
        }
        Ok(opening)
    }
}

/// Returns the seconds until a replay's first output, and then stops the replay.
fn first_output(stopwatch: &Stopwatch<'_>, recording: &Path) -> Result<f64> {
    let words = stopwatch.retake(&["replay"], recording);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .envs(environment(stopwatch.bench()))
        .current_dir(stopwatch.folder())
        .process_group(0);
    let start = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut first = [0];
    let read = child.stdout.as_mut().map(|output| output.read(&mut first));
    let seconds = start.elapsed().as_secs_f64();
    kill_group(child.id());
    child.wait()?;
    match read {
        Some(Ok(1)) => Ok(seconds),
        _ => Err("replay printed nothing".into()),
    }
}

impl Point {
    /// Returns all figures, for programs.
    pub fn json(&self) -> Value {
        let mut figures = json!({
            "size": self.size,
            "native": self.native,
            "record": self.record,
            "replay": self.replay,
            "record_peak_kb": self.record_peak_kb,
            "replay_peak_kb": self.replay_peak_kb,
            "log_bytes": self.log_bytes,
        });
        if let Some(opening) = &self.opening {
            figures["first_output"] = json!(opening.first_output.median());
            figures["info"] = json!(opening.info.median());
            figures["info_peak_kb"] = json!(opening.info_peak_kb);
            figures["dump"] = json!(opening.dump.median());
            figures["dump_peak_kb"] = json!(opening.dump_peak_kb);
        }
        figures
    }
}
