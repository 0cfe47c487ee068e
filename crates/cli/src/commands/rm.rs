//! `retake rm`: removes recordings, and nothing but recordings.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::Args;
use retake_recording::{Error, Location, Recording, Store};

use crate::failure::{Failure, Result, STATUS_FAILED};
use crate::recordings;

/// Patched copies of files are made again when needed; until then they are kept this long.
const KEEP_DERIVED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Options of `retake rm`.
#[derive(Debug, Args)]
#[command(after_help = "\
What is not a recording, holds anything else, or is being recorded is left alone. Files in the store that no recording needs any \
more go too.

Examples:
  retake rm ls-1 make-3
  retake rm latest
")]
pub struct Options {
    /// Names, paths, or `latest`
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<OsString>,
}

/// Removes them all, or as many as possible.
pub fn run(options: &Options) -> Result<()> {
    let mut failed_count = 0;
    let mut failure = None;
    for name in &options.recordings {
        let removed = remove(name);
        if let Err(error) = removed {
            failed_count += 1;
            // The last one is told by the caller.
            if let Some(earlier) = failure.replace(error) {
                eprintln!("error: {earlier}");
            }
        }
    }
    if failed_count < options.recordings.len() {
        collect()?;
    }
    match failure {
        Some(failure) => Err(failure.with_status(STATUS_FAILED)),
        None => Ok(()),
    }
}

/// With the checkpoints that are kept elsewhere, because it is packed or was not to be written to.
fn remove(name: &OsStr) -> Result<()> {
    let path = recordings::find(name)?;
    let checkpoints =
        Recording::open(&path).ok().map(|recording| recordings::checkpoints(&recording));
    retake_recording::remove(&path)?;
    Ok(checkpoints.map_or(Ok(()), |checkpoints| checkpoints.remove_elsewhere())?)
}

fn collect() -> Result<()> {
    // Without a folder of recordings there is no store.
    let Ok(location) = Location::from_environment() else {
        return Ok(());
    };
    match Store::collect(&location.store, KEEP_DERIVED) {
        // Somebody records: the next removal will do it.
        Err(Error::StoreBusy { .. }) | Ok(_) => Ok(()),
        Err(error) => Err(Failure::from(error)),
    }
}
