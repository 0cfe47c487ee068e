//! Builds the copy with all its tests, and runs one test program at a time.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::sandbox::{self, Ending, Sandbox};
use crate::bench::Result;
use crate::test_program::{self, TestProgram, failed_test};

/// The package whose tests say nothing about the product.
const OWN_PACKAGE: &str = "retake-xtask";

/// Tests that measure time. They fail without a mutation on a busy machine.
const OF_TIME: [&str; 4] = [
    "a_line_that_takes_long_is_one_step",
    "a_line_with_many_calls_is_one_step_back",
    "a_user_does_not_wait_long",
    "threads_run_side_by_side",
];

/// The result of a build.
#[derive(Debug)]
pub enum Built {
    Tests(Vec<TestProgram>),
    /// The first error.
    Refused(String),
}

/// The result of a test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// The first test that failed.
    Failed(String),
    /// It ended in another way than with a failed test.
    Broken(String),
    Late,
}

/// A selection of tests to build.
#[derive(Debug, Clone, Copy)]
pub enum Which<'name> {
    /// All tests of the product.
    All,
    Package(&'name str),
    /// Programs `PACKAGE::TARGET` of one package. The target `bin` is a program with tests of its
    /// own.
    Programs(&'name [&'name str]),
}

impl Which<'_> {
    fn arguments(self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        match self {
            Self::All => words(&["--workspace", "--exclude", OWN_PACKAGE]),
            Self::Package(package) => words(&["--package", package]),
            Self::Programs(names) => {
                let names = names.iter().filter_map(|name| name.split_once("::"));
                let of_one = |(package, target)| match target {
                    "bin" => words(&["--package", package, "--bins"]),
                    _ => words(&["--package", package, "--test", target]),
                };
                names.flat_map(of_one).collect()
            }
        }
    }
}

/// Builds tests of the copy.
///
/// # Errors
/// Cargo cannot be run.
pub fn build(copy: &Path, target: &Path, which: Which<'_>) -> Result<Built> {
    let mut command = Command::new("nice");
    command.args(["-n", "5", "cargo", "test", "--no-run"]).args(which.arguments());
    command
        .args(["--profile", "mutants", "--message-format", "json", "--target-dir"])
        .arg(target)
        .current_dir(copy);
    let output = command.output()?;
    let messages = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(Built::Tests(test_program::built(&messages)));
    }
    let messages: Vec<Value> =
        messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let errors = messages.iter().filter(|message| message["message"]["level"] == "error");
    let told = String::from_utf8_lossy(&output.stderr);
    // Cargo's own message contains the errors of the C compiler.
    let first = errors.filter_map(|error| error["message"]["message"].as_str()).next();
    let first = first.or_else(|| told.lines().find(|line| line.contains("error: ")));
    Ok(Built::Refused(first.unwrap_or("for a reason that cargo does not tell").trim().to_owned()))
}

impl TestProgram {
    /// Runs all tests but those named, up to the first failure.
    ///
    /// # Errors
    /// The sandbox cannot be used.
    pub fn run(
        &self,
        sandbox: &Sandbox,
        without: &[String],
        limit: Duration,
    ) -> Result<(Verdict, Duration)> {
        let without = without.iter().map(String::as_str).chain(OF_TIME);
        let skips = without.flat_map(|name| ["--skip", name]);
        let arguments: Vec<&str> = ["--exact"].into_iter().chain(skips).collect();
        let start = Instant::now();
        let ending = sandbox.run(&self.executable, &arguments, &self.folder, limit, failed_test)?;
        Ok((verdict(ending), start.elapsed()))
    }

    /// Runs one test.
    ///
    /// # Errors
    /// The sandbox cannot be used.
    pub fn run_one(&self, sandbox: &Sandbox, test: &str, limit: Duration) -> Result<Verdict> {
        Ok(verdict(sandbox.run(
            &self.executable,
            &["--exact", test],
            &self.folder,
            limit,
            failed_test,
        )?))
    }

    /// Runs all tests to their end. Returns the names of those that fail.
    ///
    /// # Errors
    /// The sandbox cannot be used, or the program does not end as tests do.
    pub fn failing(&self, sandbox: &Sandbox, limit: Duration) -> Result<(Vec<String>, Duration)> {
        let failing = std::cell::RefCell::new(Vec::new());
        let note = |line: &str| {
            failing.borrow_mut().extend(failed_test(line));
            None
        };
        let start = Instant::now();
        let skips: Vec<&str> = ["--exact"]
            .into_iter()
            .chain(OF_TIME.into_iter().flat_map(|name| ["--skip", name]))
            .collect();
        let ending = sandbox.run(&self.executable, &skips, &self.folder, limit, note)?;
        let failing = failing.into_inner();
        match verdict(ending) {
            Verdict::Broken(how) if failing.is_empty() => {
                Err(format!("{} ends with {how} although nothing is mutated", self.name).into())
            }
            Verdict::Late => Err(format!(
                "{} takes longer than {limit:?} although nothing is mutated",
                self.name
            )
            .into()),
            _ => Ok((failing, start.elapsed())),
        }
    }
}

fn verdict(ending: Ending) -> Verdict {
    match ending {
        Ending::Ended(status) if status.success() => Verdict::Passed,
        Ending::Ended(status) => Verdict::Broken(sandbox::describe(status)),
        Ending::Stopped(test) => Verdict::Failed(test),
        Ending::Late => Verdict::Late,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_told_what_to_build() {
        let programs = Which::Programs(&["a::bin", "a::one"]).arguments().join(" ");
        assert_eq!(programs, "--package a --bins --package a --test one");
    }
}
