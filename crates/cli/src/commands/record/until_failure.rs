//! `retake record --until-failure`: runs a program repeatedly until a run fails, and keeps that
//! run.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use retake_kernel::signals;
use retake_recording::{remove, set_latest};

use super::{Ended, Recorder, Run};
use crate::failure::Result;
use crate::text;

/// The time between updates of the progress line.
const TELL_MS: u128 = 500;

/// Runs the program with the seeds from `first_seed` on. If a run fails, ends this process as that
/// run ended. Returns if none fails.
pub fn run(recorder: &Recorder<'_>, first_seed: Option<u64>) -> Result<()> {
    let mut progress = Progress::new(recorder.options.runs);
    for number in 1..=recorder.options.runs {
        let seed = first_seed.map(|first| first.wrapping_add(number - 1));
        let mut run = recorder.run(seed)?;
        let interrupted = signals::asked_to_end();
        if let (Some(signal), 0) = (interrupted, run.ended.status) {
            // A signal asked this process to end. It reports that, even though the program
            // succeeded.
            run.ended.status = signal;
        }
        if interrupted.is_some() || has_failed(run.ended) {
            progress.clear();
            keep(recorder, &run)?;
            tell(recorder, &run, number, seed, interrupted);
            return recorder.end(&run);
        }
        remove(&run.directory)?;
        progress.show(number);
    }
    progress.clear();
    retake_kernel::tell!(
        "retake: {} without a failure; nothing was kept",
        runs(recorder.options.runs)
    );
    Ok(())
}

fn has_failed(ended: Ended) -> bool {
    ended.timed_out || ended.status != 0
}

fn keep(recorder: &Recorder<'_>, run: &Run) -> Result<()> {
    if recorder.options.output.is_none() {
        set_latest(&recorder.location.recordings, &run.directory)?;
    }
    Ok(())
}

fn tell(
    recorder: &Recorder<'_>,
    run: &Run,
    number: u64,
    seed: Option<u64>,
    interrupted: Option<i32>,
) {
    let name = text::quoted(&name_of(recorder, &run.directory));
    let what = match (interrupted, run.ended) {
        (Some(signal), _) => format!("interrupted by {} in", text::signal_name(signal)),
        (None, Ended { timed_out: true, .. }) => "ended after its timeout in".to_owned(),
        (None, Ended { status, .. }) => match (status & 0x7f, status >> 8 & 0xff) {
            (0, status) => format!("failed with status {status} in"),
            (signal, _) => format!("killed by {} in", text::signal_name(signal)),
        },
    };
    let with = seed.map_or_else(String::new, |seed| format!(", with --chaos --seed {seed}"));
    retake_kernel::tell!("retake: {what} run {number} of {}{with}", recorder.options.runs);
    retake_kernel::tell!("  recorded  {name}");
    retake_kernel::tell!("  try       retake replay {name}");
}

/// The recording's name, as other commands accept it.
fn name_of(recorder: &Recorder<'_>, directory: &Path) -> String {
    let shown = if recorder.options.output.is_some() {
        directory
    } else {
        Path::new(directory.file_name().unwrap_or_default())
    };
    shown.to_string_lossy().into_owned()
}

fn runs(count: u64) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{} runs", text::count(count)) }
}

/// A progress line on a terminal, which each update overwrites.
struct Progress {
    runs: u64,
    is_terminal: bool,
    started: Instant,
    told: Option<Instant>,
}

impl Progress {
    fn new(runs: u64) -> Self {
        Self {
            runs,
            is_terminal: std::io::stderr().is_terminal(),
            started: Instant::now(),
            told: None,
        }
    }

    fn show(&mut self, done: u64) {
        if !self.is_terminal || self.told.is_some_and(|told| told.elapsed().as_millis() < TELL_MS) {
            return;
        }
        let rate = done as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        // The runs go on even if the line cannot be written.
        let _ = write!(
            std::io::stderr(),
            "\r\x1b[Kretake: {done} of {} without a failure, {rate:.1} a second",
            self.runs
        );
        self.told = Some(Instant::now());
    }

    fn clear(&mut self) {
        if self.told.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
