//! `retake mv`: renames a recording.

use std::ffi::OsString;

use clap::Args;
use retake_recording::Error;

use crate::failure::{Failure, Result};
use crate::recordings;

/// Options of `retake mv`.
#[derive(Debug, Args)]
#[command(after_help = "\
The recording stays in its folder. Checkpoints that were kept stay with it.

Examples:
  retake mv latest before-the-fix
  retake mv make-17 broken-build
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING")]
    old: OsString,

    /// The new name
    #[arg(value_name = "NAME")]
    new: OsString,
}

/// Renames the recording.
pub fn run(options: &Options) -> Result<()> {
    let path = recordings::find(&options.old)?;
    match retake_recording::rename(&path, &options.new) {
        Ok(_) => Ok(()),
        Err(error @ Error::AlreadyExists { .. }) => Err(Failure::from(error)
            .attempt("another name; or retake rm NAME, if that one is no longer needed")),
        Err(error @ Error::BadName { .. }) => Err(Failure::from(error).attempt(
            "a plain name, such as before-the-fix; mv moves a recording's folder elsewhere",
        )),
        Err(error) => Err(error.into()),
    }
}
