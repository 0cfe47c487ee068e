//! `retake replay`: runs the recorded execution again, from the recording alone.

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::Args;
use retake_recording::{CheckLevel, Metadata};
use retake_replay::{Outcome, ReplayError};
use retake_supervisor::runtime_image;

use crate::check::Check;
use crate::failure::{Failure, Result, STATUS_DIVERGED};
use crate::machine;
use crate::recordings;
use crate::scratch::Scratch;

/// Options of `retake replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing outside is touched or needed: no file, process or network of the original. What the program printed is printed again, \
byte for byte and in the recorded order, and replay ends as the program ended.

Every system call, its input and the noted states of memory are compared with the recording. Should anything differ, replay \
stops, says where and what, and ends with status 120.

Examples:
  retake replay                      the latest recording
  retake replay make-3               one by name
  retake replay ./build.retake       a packed one, by path
  retake replay --quiet && echo same whether it still replays
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// Do not print what the program printed
    #[arg(short, long)]
    quiet: bool,

    /// Whether to compare the state of memory where the recording notes it; `full` and `sampled` compare all that is noted
    #[arg(long, value_enum, value_name = "LEVEL")]
    check: Option<Check>,
}

/// Replays, and ends this process as the program ended. Returns only if that fails.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    let metadata = recording.metadata();
    check_build(metadata)?;
    check_machine(metadata)?;
    if options.check == Some(Check::Full) && metadata.check_level != CheckLevel::Full && std::io::stderr().is_terminal() {
        eprintln!("note: only what was noted while recording can be compared; see retake record --check=full");
    }
    let request = retake_replay::Request { quiet: options.quiet, check_off: options.check == Some(Check::Off) };
    let scratch = Scratch::create()?;
    let outcome = retake_replay::replay(recording, request, scratch.path());
    drop(scratch);
    match outcome.map_err(failure_of)? {
        Outcome::Finished(status) => retake_kernel::signals::end_as(status),
        Outcome::Diverged(report) => Err(Failure::new(report.to_string()).with_status(STATUS_DIVERGED)),
    }
}

fn failure_of(error: ReplayError) -> Failure {
    match error {
        ReplayError::Recording(error) => error.into(),
        error => Failure::new(error.to_string()),
    }
}

/// Refuses a recording whose events another runtime wrote, or that another table describes.
pub fn check_build(metadata: &Metadata) -> Result<()> {
    let hashes = [
        ("system-call table", &metadata.table_hash, retake_model::TABLE_HASH.to_string()),
        ("runtime", &metadata.runtime_hash, runtime_image::hash()),
    ];
    for (what, recorded, here) in hashes {
        if *recorded != here {
            let error = ReplayError::OtherBuild { what, recorded: shown_hash(recorded), here: shown_hash(&here) };
            return Err(Failure::new(error.to_string()));
        }
    }
    Ok(())
}

/// Enough of a hash to tell it from others. Hostile recordings have anything in place of one.
fn shown_hash(hash: &str) -> String {
    const SHOWN_DIGITS: usize = 12;
    match hash.chars().take(SHOWN_DIGITS).collect::<String>() {
        shown if shown.is_empty() => "none".to_owned(),
        shown => shown.escape_default().to_string(),
    }
}

fn check_machine(metadata: &Metadata) -> Result<()> {
    let missing = machine::missing_features(&metadata.machine.features_needed);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(" ").escape_default().to_string();
    let model = metadata.machine.cpu_model.escape_default();
    Err(Failure::new(format!("this machine's processor lacks what the recorded program could use: {missing}"))
        .likely(format!("it was recorded on another kind of processor: {model}"))
        .attempt("replaying on a machine that has it"))
}
