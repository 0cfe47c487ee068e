//! Replays that begin at an image of a recorded process, or at those of all processes that share
//! memory. The first process is restored from its image before it executes anything, and so are
//! copies of it for the others. Then they run by themselves.

use crate::{Held, Outcome, Purpose, ReplayError, Request, Running, Status, Wanted, finish_or_end};
use retake_kernel::shared::OPTION_DEBUG;
use retake_recording::{CheckpointReader, Recording};
use retake_snapshot::image::{ImageError, Surroundings, restore, summary};
use retake_snapshot::{Process, remote};
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Release};

/// Replays processes from their images to the end, with the processes that they make from there on.
/// Replay ends as the first one ends. Its image has the memory that all share.
///
/// # Errors
/// As [`crate::replay`]; `Image` if a process cannot be restored.
pub fn replay_from(
    recording: &Recording,
    images: &mut [CheckpointReader],
    request: Request,
    folder: &Path,
    observe: &mut dyn FnMut(&Status),
) -> Result<Outcome, ReplayError> {
    let mut console = None;
    for image in images.iter_mut() {
        console = summary::read(image)?.console;
    }
    let purpose = Purpose { wanted: Some(Wanted::first_program()), ..Purpose::default() };
    let running = Running::start(recording.clone(), request, purpose, folder)?;
    let begun = match running.wait_for_wanted() {
        Some(held) => begin(&running, held, recording, images, console),
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
    images: &mut [CheckpointReader],
    console: Option<u64>,
) -> Result<(), ReplayError> {
    let header = running.header();
    let mut processes = vec![Process::attach(held.pid)?];
    for _ in 1..images.len() {
        processes.push(Process::of_stopped(remote::fork(held.pid)?)?);
    }
    for (image, process) in images.iter_mut().zip(&mut processes) {
        let around = Surroundings {
            header,
            scratch: running.scratch().to_owned(),
            recording,
            other: &mut |_, _| Ok(true), // only a debugger uses these
        };
        restore(image, process, around).map_err(|error| match error {
            ImageError::Recording(error) => ReplayError::Recording(error),
            error => ReplayError::Image(error.to_string()),
        })?;
    }
    if let Some(console) = console {
        header.console_printed.store(console, Release);
    }
    // Processes that they make from here on are replayed, too.
    header.options.fetch_and(!OPTION_DEBUG, AcqRel);
    processes.iter_mut().try_for_each(Process::let_all_go)?;
    Ok(())
}
