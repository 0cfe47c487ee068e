//! Replays that begin at an image of a recorded process. The first process is restored from the
//! image before it executes anything, and then runs by itself.

use crate::{Held, Outcome, Purpose, ReplayError, Request, Running, Status, Wanted, finish_or_end};
use retake_kernel::shared::OPTION_DEBUG;
use retake_recording::{CheckpointReader, Recording};
use retake_snapshot::Process;
use retake_snapshot::image::{ImageError, Surroundings, restore, summary};
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Release};

/// Replays a process from an image to the end, with the processes that it makes from there on.
///
/// # Errors
/// As [`crate::replay`]; `Image` if the process cannot be restored.
pub fn replay_from(
    recording: &Recording,
    image: &mut CheckpointReader,
    request: Request,
    folder: &Path,
    observe: &mut dyn FnMut(&Status),
) -> Result<Outcome, ReplayError> {
    let about = summary::read(image)?;
    let purpose = Purpose { wanted: Some(Wanted::first_program()), ..Purpose::default() };
    let running = Running::start(recording.clone(), request, purpose, folder)?;
    let begun = match running.wait_for_wanted() {
        Some(held) => begin(&running, held, recording, image, about.console),
        None => Err(ReplayError::Empty),
    };
    if let Err(error) = begun {
        running.end_with_children();
        return Err(error);
    }
    let outcome = running.wait(observe);
    finish_or_end(running, &outcome);
    Ok(outcome)
}

fn begin(
    running: &Running,
    held: Held,
    recording: &Recording,
    image: &mut CheckpointReader,
    console: Option<u64>,
) -> Result<(), ReplayError> {
    let header = running.header();
    let mut process = Process::attach(held.pid)?;
    let around = Surroundings {
        header,
        scratch: running.scratch().to_owned(),
        recording,
        other: &mut |_, _| Ok(true), // only a debugger uses these
    };
    restore(image, &mut process, around).map_err(|error| match error {
        ImageError::Recording(error) => ReplayError::Recording(error),
        error => ReplayError::Image(error.to_string()),
    })?;
    if let Some(console) = console {
        header.console_printed.store(console, Release);
    }
    // Processes that it makes from here on are replayed, too.
    header.options.fetch_and(!OPTION_DEBUG, AcqRel);
    Ok(process.let_all_go()?)
}
