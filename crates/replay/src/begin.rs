//! Replays that begin at images of recorded processes. The first process is restored from its
//! image before it executes anything, and so are copies of it for the others. Then they run by
//! themselves.

use crate::{Held, Outcome, Purpose, ReplayError, Request, Running, Status, Wanted, finish_or_end};
use retake_recording::{CheckpointReader, Recording};
use retake_snapshot::image::{ImageError, Surroundings, restore, summary};
use retake_snapshot::{Process, remote};
use std::path::Path;

/// Where replay begins.
pub struct Begin {
    /// The image of each process that begins at one, those of processes that began first first.
    /// Where processes share memory, the first of them has that memory in its image.
    pub images: Vec<CheckpointReader>,
    /// Whether the first process of the recording begins at its start.
    pub has_start: bool,
}

/// Replays processes from where they begin to the end, with the processes that they make from there
/// on. Replay ends as the first one ends.
///
/// # Errors
/// As [`crate::replay`]; `Image` if a process cannot be restored.
pub fn replay_from(
    recording: &Recording,
    mut begin: Begin,
    request: Request,
    folder: &Path,
    observe: &mut dyn FnMut(&Status),
) -> Result<Outcome, ReplayError> {
    let mut console = Vec::new();
    for image in &mut begin.images {
        console.extend(summary::read(image)?.console);
    }
    let printed = console.iter().min().filter(|_| !begin.has_start);
    let console = (printed.copied().unwrap_or(0), console.into_iter().max().unwrap_or(0));
    let purpose = Purpose { wanted: Some(Wanted::first_program()), ..Purpose::default() };
    let running = Running::start(recording.clone(), request, purpose, folder)?;
    let begun = match running.wait_for_wanted() {
        Some(held) => let_begin(&running, held, recording, begin, console),
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

/// `console`: the first number on the console that is printed, and the one from which on all are.
fn let_begin(
    running: &Running,
    held: Held,
    recording: &Recording,
    Begin { mut images, has_start }: Begin,
    console: (u64, u64),
) -> Result<(), ReplayError> {
    let mut first = Process::attach(held.pid)?;
    let mut others = if has_start {
        restore_beside(running, recording, &first, &mut images)?
    } else {
        restore_all(running, recording, &mut first, &mut images)?
    };
    running.begin_console(console);
    // Processes that they make from here on are replayed, too.
    running.want_all();
    first.let_all_go()?;
    others.iter_mut().try_for_each(Process::let_all_go)?;
    if has_start {
        running.release(held);
    }
    Ok(())
}

/// Restores the first image in a process that has executed nothing, and the other ones in copies of
/// it. The images' summaries have been read. Returns the copies. All are stopped.
///
/// # Errors
/// `Image` if a process cannot be restored.
pub fn restore_all(
    running: &Running,
    recording: &Recording,
    first: &mut Process,
    images: &mut [CheckpointReader],
) -> Result<Vec<Process>, ReplayError> {
    let Some((image, rest)) = images.split_first_mut() else { return Ok(Vec::new()) };
    let mut copies = copies(first, rest.len())?;
    restore_other(running, recording, image, first)?;
    restore_in(running, recording, rest, &mut copies)?;
    Ok(copies)
}

fn restore_beside(
    running: &Running,
    recording: &Recording,
    first: &Process,
    images: &mut [CheckpointReader],
) -> Result<Vec<Process>, ReplayError> {
    let mut copies = copies(first, images.len())?;
    restore_in(running, recording, images, &mut copies)?;
    Ok(copies)
}

/// Returns copies of a process that has executed nothing. All are stopped.
///
/// # Errors
/// No copy can be made.
pub fn copies(of: &Process, count: usize) -> Result<Vec<Process>, ReplayError> {
    let copy = || Ok(Process::of_stopped(remote::fork(of.pid)?)?);
    std::iter::repeat_with(copy).take(count).collect()
}

fn restore_in(
    running: &Running,
    recording: &Recording,
    images: &mut [CheckpointReader],
    processes: &mut [Process],
) -> Result<(), ReplayError> {
    let mut both = images.iter_mut().zip(processes);
    both.try_for_each(|(image, process)| restore_other(running, recording, image, process))
}

/// Restores an image whose summary has been read, of a process that is not debugged.
///
/// # Errors
/// `Image` if it cannot be restored.
pub fn restore_other(
    running: &Running,
    recording: &Recording,
    image: &mut CheckpointReader,
    process: &mut Process,
) -> Result<(), ReplayError> {
    let around = Surroundings {
        header: running.header(),
        scratch: running.scratch().to_owned(),
        recording,
        other: &mut |_, _| Ok(true), // only a debugger uses these
    };
    restore(image, process, around).map_err(|error| match error {
        ImageError::Recording(error) => ReplayError::Recording(error),
        error => ReplayError::Image(error.to_string()),
    })?;
    Ok(())
}
