//! `retake man`: writes the manual pages, for packages of retake.

use std::path::PathBuf;

use clap::{Args, Command};

use crate::failure::{Failure, Result};

/// Options of `retake man`.
#[derive(Debug, Args)]
pub struct Options {
    /// The folder to write the pages to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes a page for each command.
pub fn run(options: &Options, command: Command) -> Result<()> {
    let fail = |action, error| Failure::system(action, options.folder.display(), &error);
    std::fs::create_dir_all(&options.folder).map_err(|error| fail("make", error))?;
    clap_mangen::generate_to(command, &options.folder).map_err(|error| fail("write to", error))
}
