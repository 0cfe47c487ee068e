//! `retake unpack`: makes a folder of a packed recording.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;
use retake_recording::Store;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress::Bar;
use crate::recordings;

/// Options of `retake unpack`.
#[derive(Debug, Args)]
#[command(after_help = "\
Replaying needs no unpacking. Unpacked, a recording shares its files with the others and starts a little faster.

Examples:
  retake unpack build.retake             to the folder of recordings, as `build`
  retake unpack build.retake -o ./build
")]
pub struct Options {
    /// The packed file: a path, or a name
    #[arg(value_name = "FILE")]
    recording: OsString,

    /// The folder to make; it must not exist
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Unpacks, and prints the path of the folder.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    let location = recordings::prepared_location()?;
    let target = match &options.output {
        Some(output) => output.clone(),
        None => location.recordings.join(default_name(&recording)),
    };
    let store = Store::open(&location.store)?;
    let bar = Bar::new("unpacking");
    let unpacked = retake_recording::unpack(&recording, &target, Some(&store), &mut |progress| {
        bar.show(progress);
    });
    drop(bar);
    match unpacked {
        Err(error @ retake_recording::Error::AlreadyExists { .. }) => {
            return Err(Failure::from(error).attempt("another folder, with -o"));
        }
        result => result?,
    }
    let mut output = Output::new();
    output.line(target.display())?;
    output.finish()
}

/// The name of the packed file without `.retake`.
fn default_name(recording: &retake_recording::Recording) -> OsString {
    let path = recording.path();
    let has_suffix = path.extension() == Some(OsStr::new("retake"));
    let name = if has_suffix { path.file_stem() } else { path.file_name() };
    name.unwrap_or(OsStr::new("unpacked")).to_owned()
}
