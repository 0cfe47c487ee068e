//! `cargo xtask monkey`: disturbs recordings at random moments. Each run records a program in
//! namespaces of its own, sends signals to random members of its process tree and to the recorder,
//! fills the disk, and uses up the shared memory segments. Then the recorder must end in time,
//! nothing may be left behind, and the recording must replay. `tests/monkey/README.md` tells more.

mod cage;
mod disturbance;
mod members;
mod programs;
mod trial;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::bench::Result;
use crate::bench::scratch::Scratch;
use programs::Program;
use trial::Trial;

/// The command line.
#[derive(Debug, Args)]
pub struct Options {
    /// The number of runs.
    #[arg(long, default_value_t = 100)]
    runs: u64,
    /// The number of the first run. A run is the same again with the same seed and number.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this program.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Seconds within which the recorder must end after SIGTERM, and all others after it.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    patience: u64,
    /// The folder for recordings. Those of runs that failed stay there.
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// The program to test; without it, one is built.
    #[arg(long, value_name = "FILE")]
    retake: Option<PathBuf>,
    /// Do one run in this folder; for the command's own use, in namespaces that it made.
    #[arg(long, hide = true, value_name = "FOLDER")]
    inside: Option<PathBuf>,
}

/// Does all runs, and prints a line for each that failed. True if none did.
///
/// # Errors
/// The namespaces or the programs cannot be made.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    if let Some(folder) = &options.inside {
        return inside(folder, options);
    }
    let retake = crate::bench::retake(&repository.canonicalize()?, options.retake.as_deref())?;
    let path = options.scratch.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("retake-monkey-{}", std::process::id()))
    });
    let mut scratch = Scratch::create(&path, false)?;
    let programs = programs::make(repository, scratch.path())?;
    let mut failed = 0;
    for number in options.first..options.first + options.runs {
        let folder = scratch.path().join(format!("run-{number}"));
        std::fs::create_dir(&folder)?;
        let trial = trial(options, number, &programs)?;
        std::fs::write(folder.join(trial::FILE), serde_json::to_vec(&trial)?)?;
        let told = cage::run(&folder, &retake, options.patience)?;
        if told.is_empty() {
            std::fs::remove_dir_all(&folder)?;
            continue;
        }
        failed += 1;
        scratch.keep();
        println!("run {number}: {trial}");
        told.lines().for_each(|line| println!("    {line}"));
        println!("    left in {}", folder.display());
    }
    println!("{} runs, {failed} failed", options.runs);
    Ok(failed == 0 && options.runs > 0)
}

fn trial(options: &Options, number: u64, programs: &[Program]) -> Result<Trial> {
    let wanted: Vec<&Program> = programs
        .iter()
        .filter(|program| options.only.as_ref().is_none_or(|name| *name == program.name))
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        return Err(format!("no such program; there are {}", names.join(", ")).into());
    }
    Ok(Trial::draw(options.seed, number, &wanted))
}

/// The run itself, as the first process of its namespaces. What is wrong goes to standard output.
fn inside(folder: &Path, options: &Options) -> Result<bool> {
    let trial: Trial = serde_json::from_slice(&std::fs::read(folder.join(trial::FILE))?)?;
    let retake = options.retake.as_deref().ok_or("--inside wants --retake")?;
    let patience = Duration::from_secs(options.patience);
    for complaint in trial.run(folder, retake, patience)? {
        println!("{complaint}");
    }
    Ok(true)
}
