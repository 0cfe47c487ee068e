//! `cargo xtask setup`: installs what tests need in addition to what the build needs. It asks no
//! questions. If it may not install, it prints what is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use retake_testing::needs::{
    self, COMMANDS, PYTHON_MODULES, find_command, python_environment, python_with,
};

use crate::bench::Result;

/// The tests to prepare for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum For {
    /// `cargo xtask test`.
    Tests,
    /// `cargo xtask real`.
    Real,
    /// `cargo xtask debugger`.
    Debugger,
    /// `cargo xtask corpus`.
    Corpus,
}

/// Options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The tests to prepare for.
    #[arg(value_delimiter = ',', default_value = "tests")]
    what: Vec<For>,
}

impl For {
    /// Returns the folder below `tests/` with program files, which name their packages.
    fn folder(self) -> &'static str {
        match self {
            Self::Tests => "reanimate",
            Self::Real => "real",
            Self::Debugger => "debugger",
            Self::Corpus => "corpus",
        }
    }
}

/// Installs missing packages. True if nothing is missing afterwards.
///
/// # Errors
/// A program file cannot be read.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    let mut whole = true;
    for what in &options.what {
        whole &= prepare(repository, *what)?;
    }
    Ok(whole)
}

/// Installs the missing packages for one kind of tests.
///
/// # Errors
/// As for [`run`].
pub fn prepare(repository: &Path, what: For) -> Result<bool> {
    let missing = missing_packages(repository, what)?;
    let has_packages = missing.is_empty() || install(&missing);
    if !has_packages {
        let names = missing.into_iter().collect::<Vec<_>>().join(" ");
        eprintln!("missing: {names}\n  try     sudo apt-get install -y {names}");
    }
    let lacking = |module: &&&str| what == For::Tests && python_with(module).is_none();
    let modules: Vec<&str> = PYTHON_MODULES.iter().filter(lacking).copied().collect();
    let has_modules = modules.is_empty() || install_modules(&modules);
    if !has_modules {
        eprintln!(
            "missing: the Python modules {}, which could not be installed",
            modules.join(", ")
        );
    }
    Ok(has_packages && has_modules)
}

/// Returns the Debian packages of missing commands and files.
fn missing_packages(repository: &Path, what: For) -> Result<BTreeSet<String>> {
    let mut missing = BTreeSet::new();
    if what == For::Tests {
        let lacking = COMMANDS.iter().filter(|(command, _)| find_command(command).is_none());
        missing.extend(lacking.map(|(_, package)| (*package).to_owned()));
    }
    for path in program_files(&repository.join("tests").join(what.folder()))? {
        let text = std::fs::read_to_string(&path)?;
        let words = |key: &str| {
            let lines = text
                .lines()
                .filter_map(|line| line.split_once('=').filter(|(name, _)| name.trim() == key));
            lines
                .flat_map(|(_, value)| value.split_whitespace())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let is_part = what != For::Tests || !words("quick").is_empty();
        if is_part && words("requires").iter().any(|name| find_command(name).is_none()) {
            missing.extend(words("packages"));
        }
    }
    Ok(missing)
}

fn program_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|ending| ending == "program"));
    files.sort();
    Ok(files)
}

/// Installs Debian packages. False without permission, or if it fails.
fn install(packages: &BTreeSet<String>) -> bool {
    if needs::lacking("root").is_some() || find_command("apt-get").is_none() {
        return false;
    }
    println!("installing {}", packages.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args([
            "-q",
            "-o",
            "DPkg::Lock::Timeout=120",
        ]);
        command.args(arguments).stdout(std::process::Stdio::null());
        command
    };
    let mut install = apt(&["install", "-y", "--no-install-recommends"]);
    install.args(packages);
    // A machine may have no package list, or an old one.
    succeeds(&mut install) || succeeds(&mut apt(&["update"])) && succeeds(&mut install)
}

/// Installs Python modules into an environment for tests only.
fn install_modules(modules: &[&str]) -> bool {
    println!("installing the Python modules {}", modules.join(", "));
    let environment = python_environment();
    let pip = environment.join("bin/pip");
    let is_made =
        pip.exists() || succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    is_made
        && succeeds(
            Command::new(pip)
                .args(["install", "--quiet", "--disable-pip-version-check"])
                .args(modules),
        )
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_need_is_found_in_their_files() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for what in For::value_variants() {
            assert!(
                !program_files(&repository.join("tests").join(what.folder())).unwrap().is_empty(),
                "{what:?}"
            );
            missing_packages(&repository, *what).unwrap();
        }
        assert!(["sh", "/etc/passwd"].iter().all(|name| find_command(name).is_some()));
    }
}
