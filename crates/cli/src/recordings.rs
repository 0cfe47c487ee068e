//! Finding and opening the recordings that the user names.

use std::ffi::OsStr;
use std::path::PathBuf;

use retake_model::Dropped;
use retake_recording::{Checkpoints, Location, Recording, resolve};
use retake_supervisor::dropped;

use crate::failure::Result;
use crate::text;

/// How many warnings about one recording are printed.
const SHOWN_WARNINGS: usize = 5;

/// The path of the recording that `name` means: a name in the folder of recordings, `latest`, or a
/// path.
///
/// # Errors
/// If there is none.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    match Location::from_environment() {
        Ok(location) => Ok(resolve(&location.recordings, name)?),
        // A path needs no folder of recordings.
        Err(_) if PathBuf::from(name).exists() => Ok(PathBuf::from(name)),
        Err(error) => Err(error.into()),
    }
}

/// Opens the recording that `name` means.
///
/// # Errors
/// If there is none, or it cannot be read.
pub fn open(name: &OsStr) -> Result<Recording> {
    Ok(Recording::open(&find(name)?)?)
}

/// Where its checkpoints are kept.
pub fn checkpoints(recording: &Recording) -> Checkpoints {
    Checkpoints::of(recording, Location::from_environment().ok().as_ref())
}

/// What `--keep-last` has left out of a recording. Where that cannot be read, it says so and goes
/// on with nothing.
pub fn dropped(recording: &Recording) -> Dropped {
    dropped::of_recording(recording).unwrap_or_else(|error| {
        eprintln!("warning: what was left out of the recording cannot be read: {error}");
        Dropped::default()
    })
}

/// The same for people; `None` if all is there.
pub fn dropped_text(dropped: &Dropped) -> Option<String> {
    if dropped.is_nothing() {
        return None;
    }
    let [processes, events] = [dropped.processes, dropped.events].map(text::count);
    let (bytes, until) = (text::bytes(dropped.bytes), text::duration(dropped.until_ns / 1_000_000));
    Some(format!(
        "{processes} processes that had ended by {until} (--keep-last), with {events} events, \
        {bytes}"
    ))
}

/// Says on standard error that some processes are not there.
pub fn note_dropped(dropped: &Dropped) {
    if let Some(text) = dropped_text(dropped) {
        eprintln!("note: left out: {text}");
    }
}

/// Says on standard error what is damaged or missing.
pub fn warn(recording: &Recording) {
    let warnings = recording.warnings();
    for warning in warnings.iter().take(SHOWN_WARNINGS) {
        eprintln!("warning: {warning}");
    }
    if let Some(more) = warnings.len().checked_sub(SHOWN_WARNINGS + 1) {
        eprintln!("warning: and {} more: see retake info", more + 1);
    }
}
