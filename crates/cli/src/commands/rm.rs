//! `retake rm`: removes recordings, and nothing but recordings.

mod choice;

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{ArgGroup, Args};
use retake_recording::{Error, Location, Recording, Store};

use crate::failure::{Failure, Result, STATUS_FAILED};
use crate::quantity;
use crate::recordings;

/// How long patched copies of files are kept. They are made again when needed.
const KEEP_DERIVED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Options of `retake rm`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true)
    .args(["recordings", "older_than", "keep", "all"])))]
#[command(after_help = "\
A folder is left alone if it is not a recording, if it holds anything else, or if it is being \
recorded. Files in the store that no recording needs any more are removed, too.

If recordings are not named but chosen by an option, retake lists them first, and asks. Without a \
terminal it cannot ask, and needs --yes.

Examples:
  retake rm ls-1 make-3
  retake rm latest
  retake rm --older-than 7d
  retake rm --keep 20 --yes         all but the last twenty, without a question
")]
pub struct Options {
    /// Names, paths, or `latest`
    #[arg(value_name = "RECORDING")]
    recordings: Vec<OsString>,

    /// Remove those that were begun longer than TIME ago (30min, 12h, 7d)
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    older_than: Option<Duration>,

    /// Remove all but the last N
    #[arg(long, value_name = "N")]
    keep: Option<usize>,

    /// Remove all
    #[arg(long)]
    all: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Removes the recordings. A failure does not keep it from removing the others.
pub fn run(options: &Options) -> Result<()> {
    if options.recordings.is_empty() {
        let chosen = choice::of(options)?;
        return if choice::is_confirmed(&chosen, options.yes)? {
            remove_all(&choice::names(&chosen))
        } else {
            Ok(())
        };
    }
    remove_all(&options.recordings)
}

fn remove_all(names: &[OsString]) -> Result<()> {
    let mut failed_count = 0;
    let mut failure = None;
    for name in names {
        let removed = remove(name);
        if let Err(error) = removed {
            failed_count += 1;
            // The caller reports the last failure.
            if let Some(earlier) = failure.replace(error) {
                retake_kernel::tell!("error: {earlier}");
            }
        }
    }
    if failed_count < names.len() {
        collect()?;
    }
    match failure {
        Some(failure) => Err(failure.with_status(STATUS_FAILED)),
        None => Ok(()),
    }
}

/// Removes a recording and its checkpoints. Checkpoints are elsewhere if the recording is packed or
/// was not writable.
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
        // A recording is being made. The next removal will collect.
        Err(Error::StoreBusy { .. }) | Ok(_) => Ok(()),
        Err(error) => Err(Failure::from(error)),
    }
}
