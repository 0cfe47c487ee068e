//! Checks that this build can replay a recording on this machine.

use retake_recording::{Metadata, Recording};
use retake_supervisor::runtime;

use crate::failure::{Failure, Result};
use crate::machine;

/// Refuses a recording that cannot be replayed here.
pub fn check_replayable(recording: &Recording) -> Result<()> {
    check_build(recording)?;
    check_machine(recording.metadata())
}

/// Refuses a recording that begins at an image, for `what`, which needs all of it.
pub fn check_whole(recording: &Recording, what: &str) -> Result<()> {
    if !recording.begins_late() {
        return Ok(());
    }
    let why = match recording.metadata().attached {
        true => "the program ran before it was recorded",
        false => "--keep-last left that out",
    };
    let error = format!("{what} needs the recording from its beginning on: {why}");
    Err(Failure::new(error).attempt("retake dump, which shows the events that are kept"))
}

/// Refuses a recording whose runtime is not there, or needs another supervisor.
pub fn check_build(recording: &Recording) -> Result<()> {
    runtime::check(recording).map_err(|error| Failure::new(error.to_string()))
}

fn check_machine(metadata: &Metadata) -> Result<()> {
    let missing = machine::missing_features(&metadata.machine.features_needed);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(" ").escape_default().to_string();
    let model = metadata.machine.cpu_model.escape_default();
    Err(Failure::new(format!(
        "this machine's processor lacks features that the recorded program could use: {missing}"
    ))
    .likely(format!("it was recorded on another kind of processor: {model}"))
    .attempt("replaying on a machine that has them"))
}
