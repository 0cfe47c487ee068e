//! `cargo xtask dist`: builds packages that need neither Rust nor a source tree: a tarball, and a
//! package for Debian and Ubuntu. The command is linked statically, so it runs on any distribution.

mod build;
mod pack;
mod roots;
mod twice;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::bench::Result;
use build::Clang;

/// Options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The folder for the packages, and for what the other options make.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// Install both packages in fresh Debian systems, and try them there. Needs root and
    /// debootstrap.
    #[arg(long)]
    prove: bool,

    /// Build once more in another folder: the packages must be the same, byte by byte.
    #[arg(long)]
    twice: bool,
}

/// The packages.
struct Packages {
    tarball: PathBuf,
    debian: PathBuf,
}

/// Builds the packages, and prints where they are. True unless a proof fails.
///
/// # Errors
/// A command fails, or is not there: `dpkg-deb`, `tar`, `gzip`, `strip`; or what a proof needs.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    if options.prove {
        roots::check_needs()?;
    }
    if options.twice {
        twice::check_needs(repository)?;
    }
    let repository = repository.canonicalize()?;
    let output = options.output.clone().unwrap_or_else(|| repository.join("target/dist"));
    fs::create_dir_all(&output)?;
    let output = output.canonicalize()?;
    let retake = build::build(&repository, Clang::IfThere)?;
    let packages = pack::packages(&repository, &retake, &output)?;
    for file in [&packages.tarball, &packages.debian] {
        println!("{} ({} bytes)", file.display(), fs::metadata(file)?.len());
    }
    let is_same = !options.twice || twice::prove(&repository, &retake, &packages, &output)?;
    let works = !options.prove || roots::prove(&packages, &output.join("roots"))?;
    Ok(is_same && works)
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}

fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
