//! `retake pack`: makes one file of a recording, which replays anywhere.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress::Bar;
use crate::recordings;
use crate::text;

/// Options of `retake pack`.
#[derive(Debug, Args)]
#[command(after_help = "\
The packed file holds the events and every file the program needed, compressed. It can be replayed and examined as it is, also \
on another machine with the same kind of processor. The recording itself stays; `retake rm` removes it.

Examples:
  retake pack                          the latest recording, to NAME.retake in this folder
  retake pack make-1 -o /mnt/build.retake
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// The file to make; it must not exist
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Packs, and prints the path of the file.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    let target = options.output.clone().unwrap_or_else(|| {
        let mut name = recording.path().file_name().unwrap_or_default().to_owned();
        name.push(".retake");
        name.into()
    });
    let bar = Bar::new("packing");
    let packed = retake_recording::pack(&recording, &target, &mut |progress| bar.show(progress));
    drop(bar);
    match packed {
        Err(error @ retake_recording::Error::AlreadyExists { .. }) => {
            return Err(Failure::from(error).attempt("another file for -o"));
        }
        result => result?,
    }
    let size = std::fs::metadata(&target).map_or(0, |metadata| metadata.len());
    let mut output = Output::new();
    output.line(format!("{} ({})", target.display(), text::bytes(size)))?;
    output.finish()
}
