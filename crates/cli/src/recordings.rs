//! Finds and opens the recordings that a user names.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use retake_model::Dropped;
use retake_recording::{
    Checkpoints, LeftOut, Listing, Location, Recording, Warning, list, resolve,
};
use retake_supervisor::dropped;

use crate::failure::{Failure, Result, how_to_keep_elsewhere};
use crate::in_memory::InMemory;
use crate::text;

/// The number of warnings that are printed about one recording.
const SHOWN_WARNINGS: usize = 5;

/// The path of a recording: `name` is a name in the folder of recordings, `latest`, or a path.
///
/// # Errors
/// There is no such recording.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    match Location::from_environment() {
        Ok(location) => resolve(&location.recordings, name).or_else(|error| {
            if let Some(memory) = InMemory::find(name) {
                return Ok(memory.recording);
            }
            let nearest = nearest(&location.recordings, name);
            let failure = Failure::from(error);
            Err(match nearest {
                Some(nearest) => failure.likely(format!("{} was meant", text::quoted(&nearest))),
                None => failure,
            })
        }),
        // A path can be used without a folder of recordings.
        Err(_) if PathBuf::from(name).exists() => Ok(PathBuf::from(name)),
        Err(error) => Err(error.into()),
    }
}

/// The folders for new recordings, which exist afterwards.
///
/// # Errors
/// No variable says where they are, or they cannot be made.
pub fn prepared_location() -> Result<Location> {
    let location = Location::from_environment()?;
    location.prepare().map_err(|error| {
        // A full disk has a better suggestion.
        let is_refused = matches!(error, retake_recording::Error::Io { .. });
        let failure = Failure::from(error);
        if is_refused { failure.attempt(how_to_keep_elsewhere()) } else { failure }
    })?;
    Ok(location)
}

/// The existing recording with the most similar name; `None` if all names are too different.
fn nearest(recordings: &Path, name: &OsStr) -> Option<String> {
    let name = name.to_string_lossy();
    let most = (name.chars().count() / 3).max(1);
    let names = list(recordings).ok()?.into_iter().map(|listing| listing.name);
    let distances = names.map(|known| {
        let short = known.strip_suffix(".retake").unwrap_or(&known);
        let distance = strsim::osa_distance(&name, short).min(strsim::osa_distance(&name, &known));
        (distance, known)
    });
    let (distance, known) = distances.min()?;
    (distance <= most).then_some(known)
}

/// When the recording began, in milliseconds since 1970. Without metadata, when it was last
/// written.
pub fn began_unix_ms(listing: &Listing) -> u64 {
    match &listing.metadata {
        Ok(metadata) => metadata.started_unix_ms,
        Err(_) => {
            let modified = listing.path.metadata().and_then(|metadata| metadata.modified());
            let since = modified.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or(0)
        }
    }
}

/// Whether the recording is still being made.
pub fn is_being_recorded(listing: &Listing) -> bool {
    let is_complete = listing.metadata.as_ref().is_ok_and(|metadata| metadata.outcome.is_some());
    !is_complete
        && Recording::open(&listing.path)
            .is_ok_and(|recording| recording.warnings().contains(&Warning::BeingRecorded))
}

/// Opens the recording that `name` stands for.
///
/// # Errors
/// There is no such recording, or it cannot be read.
pub fn open(name: &OsStr) -> Result<Recording> {
    Ok(Recording::open(&find(name)?)?)
}

/// The kept checkpoints of a recording.
pub fn checkpoints(recording: &Recording) -> Checkpoints {
    Checkpoints::of(recording, Location::from_environment().ok().as_ref())
}

/// What `--keep-last` has dropped from a recording. If that cannot be read, prints a warning and
/// returns the default.
pub fn dropped(recording: &Recording) -> Dropped {
    dropped::of_recording(recording).unwrap_or_else(|error| {
        retake_kernel::tell!("warning: what was left out of the recording cannot be read: {error}");
        Dropped::default()
    })
}

/// Describes what was dropped; `None` if nothing was.
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

/// Prints on standard error what was dropped.
pub fn note_dropped(recording: &Recording) {
    let texts = [dropped_text(&dropped(recording)), left_out_text(recording)];
    for text in texts.into_iter().flatten() {
        retake_kernel::tell!("note: left out: {text}");
    }
}

/// Describes what is left out from before images; `None` if nothing is.
pub fn left_out_text(recording: &Recording) -> Option<String> {
    if recording.metadata().attached {
        return Some("what the program did before it was recorded".to_owned());
    }
    recording.begins_late().then(|| {
        let threads = recording.streams().filter(|stream| stream.left_out.bytes > 0).count();
        let LeftOut { events, bytes } = recording.left_out();
        format!(
            "what {} threads did before the images at which replay begins (--keep-last): {} \
            events, {}",
            text::count(threads as u64),
            text::count(events),
            text::bytes(bytes)
        )
    })
}

/// Prints on standard error what is damaged or missing.
pub fn warn(recording: &Recording) {
    let warnings = recording.warnings();
    for warning in warnings.iter().take(SHOWN_WARNINGS) {
        retake_kernel::tell!("warning: {warning}");
    }
    if let Some(more) = warnings.len().checked_sub(SHOWN_WARNINGS + 1) {
        retake_kernel::tell!("warning: and {} more: see retake info", more + 1);
    }
}
