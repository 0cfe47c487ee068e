//! `cargo xtask`: the tasks of this repository. The options of each task are in its own module.

#![forbid(unsafe_code)]

mod bench;
mod dist;
mod draw;
mod monkey;
mod mutants;
mod programs;
mod random;
mod scrambled;
mod selection;
mod setup;
mod suite;
mod test_program;
mod watched;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::Result;
use clap::{Parser, Subcommand};
use xtask::{generate, tidy};

/// The tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate code and documents from tables/.
    Gen(generate::Options),
    /// Check the style of all sources.
    Tidy,
    /// Draw the crates and the floors of the runtime in docs/DESIGN.md.
    Draw(draw::Options),
    /// Build packages: a tarball, and a .deb.
    Dist(dist::Options),
    /// Set up what tests need, run them all, and count what was skipped.
    Test(suite::Options),
    /// Install what tests need.
    Setup(setup::Options),
    /// Measure what recording and replaying cost.
    Bench(bench::Options),
    /// Record ordinary programs, and replay them.
    Real(programs::Replaying),
    /// The same for programs with threads, and for servers under load.
    Corpus(programs::Replaying),
    /// Step through recordings with a debugger.
    Debugger(programs::Debugging),
    /// Test the product with fields of structures in another order.
    Scrambled(scrambled::Options),
    /// Break the product in small ways, one at a time; each must make a test fail.
    Mutants(mutants::Options),
    /// Disturb recordings at random: signals, full disks, missing segments.
    Monkey(monkey::Options),
}

impl Command {
    /// Runs the task. True on success; otherwise it has reported the failures.
    fn run(&self, repository: &Path) -> Result<bool> {
        match self {
            Self::Gen(options) => generate::run(repository, options),
            Self::Tidy => tell(&tidy::check(repository)?),
            Self::Draw(options) => draw::run(repository, options),
            Self::Dist(options) => dist::run(repository, options),
            Self::Test(options) => suite::run(repository, options),
            Self::Setup(options) => setup::run(repository, options),
            Self::Bench(options) => bench::run(repository, options),
            Self::Real(options) => programs::replay(&programs::REAL, repository, options),
            Self::Corpus(options) => programs::replay(&programs::CORPUS, repository, options),
            Self::Debugger(options) => programs::debug(repository, options),
            Self::Scrambled(options) => scrambled::run(repository, options),
            Self::Mutants(options) => mutants::run(repository, options),
            Self::Monkey(options) => monkey::run(repository, options),
        }
    }
}

fn tell(complaints: &[String]) -> Result<bool> {
    for complaint in complaints {
        eprintln!("{complaint}");
    }
    Ok(complaints.is_empty())
}

fn main() -> ExitCode {
    // Cargo sets this for the checkout that it runs. The build may come from another checkout that
    // shares the target folder.
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let repository = PathBuf::from(package).join("..");
    match CommandLine::parse().command.run(&repository) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_declared_without_contradiction() {
        <CommandLine as clap::CommandFactory>::command().debug_assert();
    }
}
