//! Runs failed tests again, alone.
//!
//! Two thousand tests start programs on two cores, several at once. A test that fails there and
//! passes alone met an overloaded machine, or a rare fault. Neither may hide, so it is counted and
//! reported as unsteady, with its output.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use retake_testing::report;

use crate::bench::Result;
use crate::test_program::{self, TestProgram};
use crate::watched::Watched;

/// The most failed tests that are run again. More do not fail for want of time.
const MOST: usize = 8;

/// How often a test is run again.
const TRIES: usize = 2;

/// The time limit of one test.
const LIMIT: Duration = Duration::from_secs(300);

/// A test that failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failed {
    /// The executable, as cargo names it.
    pub program: PathBuf,
    pub test: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The hash that cargo appends is left out.
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
        write!(formatter, "{name} {}", self.test)
    }
}

/// Returns the tests that pass alone. None is run if too many failed.
///
/// # Errors
/// Cargo cannot be run.
pub fn pass_alone(
    repository: &Path,
    build: &[String],
    failed: &[Failed],
    report: &Path,
) -> Result<Vec<Failed>> {
    if failed.is_empty() || failed.len() > MOST {
        return Ok(Vec::new());
    }
    let programs = programs(repository, build)?;
    let mut passed = Vec::new();
    for one in failed {
        // Cargo names the file once relative to its folder and once relative to the root. Its name
        // has a hash.
        let name = one.program.file_name();
        let found = programs.iter().find(|program| program.executable.file_name() == name);
        let Some(program) = found else {
            println!("{one}: its program is not found, so it is not asked again");
            continue;
        };
        if passes(program, &one.test, repository, report)? {
            passed.push(one.clone());
        }
    }
    Ok(passed)
}

/// Returns cargo's test programs, with the folder in which each one runs.
fn programs(repository: &Path, build: &[String]) -> Result<Vec<TestProgram>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(build)
        .args(["--no-run", "--message-format", "json"])
        .current_dir(repository)
        .output()?;
    Ok(test_program::built(&String::from_utf8_lossy(&output.stdout)))
}

fn passes(program: &TestProgram, test: &str, repository: &Path, report: &Path) -> Result<bool> {
    let output = repository.join("target/test-again.txt");
    for attempt in 1..=TRIES {
        let mut command = Command::new(&program.executable);
        command.args(["--exact", test]).current_dir(&program.folder).env(report::VARIABLE, report);
        let errors = output.with_extension("errors.txt");
        let status = Watched::start(command, &output, &errors)?.wait(LIMIT);
        let text = std::fs::read_to_string(&output)?;
        let passed = status.is_some_and(|status| status.success()) && text.contains("ok. 1 passed");
        let how = match (passed, status) {
            (true, _) => "passes",
            (false, Some(_)) => "fails",
            (false, None) => "does not end",
        };
        println!("{} {test}: {how} by itself (try {attempt} of {TRIES})", program.name);
        if passed {
            return Ok(true);
        }
        println!("{text}");
    }
    Ok(false)
}
