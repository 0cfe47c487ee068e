//! Checks that this build can replay a recording on this machine.

use retake_recording::{Metadata, Recording};
use retake_replay::ReplayError;
use retake_supervisor::runtime_image;

use crate::failure::{Failure, Result};
use crate::machine;

/// Refuses a recording that cannot be replayed here.
pub fn check_replayable(metadata: &Metadata) -> Result<()> {
    check_build(metadata)?;
    check_machine(metadata)
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

/// Refuses a recording of another runtime, contract or system-call table.
pub fn check_build(metadata: &Metadata) -> Result<()> {
    let hashes = [
        ("system-call table", &metadata.table_hash, retake_model::TABLE_HASH.to_string()),
        ("contract", &metadata.contract_hash, retake_contract::HASH.to_string()),
        ("runtime", &metadata.runtime_hash, runtime_image::hash()),
    ];
    for (what, recorded, here) in hashes {
        if *recorded != here {
            let error = ReplayError::OtherBuild {
                what,
                recorded: shown_hash(recorded),
                here: shown_hash(&here),
            };
            return Err(Failure::new(error.to_string()));
        }
    }
    Ok(())
}

/// The beginning of a hash, enough to recognise it. A hostile recording may have any text instead.
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
    Err(Failure::new(format!(
        "this machine's processor lacks features that the recorded program could use: {missing}"
    ))
    .likely(format!("it was recorded on another kind of processor: {model}"))
    .attempt("replaying on a machine that has them"))
}
