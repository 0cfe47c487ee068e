//! `cargo xtask test`: installs what tests need, runs them, and counts those that passed, failed,
//! were skipped, or are known to fail.
//!
//! Cargo's own summary counts a test that returned early as passed. Tests that skip write to a
//! report (crates/testing), which this command reads.

mod again;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use again::Failed;
use clap::Args;
use retake_testing::report::{self, Cause, Kind, Line};

use crate::bench::Result;
use crate::setup::{self, For};
use crate::test_program::{failed_test, running};

/// Options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// Install nothing.
    #[arg(long)]
    no_setup: bool,
    /// Fail if a test was skipped for want of something that can be installed.
    #[arg(long)]
    strict: bool,
    /// Arguments for `cargo test`; everything is tested without any.
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// The counts from the output of `cargo test`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    /// The number of tests with `#[ignore]`. `reasons` has their reasons.
    ignored: usize,
    reasons: Vec<String>,
    /// The program whose output is read.
    program: PathBuf,
    failures: Vec<Failed>,
    /// Programs that ended with an error. A program that crashed names no test.
    programs_failed: BTreeSet<PathBuf>,
}

impl Counts {
    /// Reads one line of the output.
    fn read(&mut self, line: &str) {
        if let Some(program) = running(line) {
            program.clone_into(&mut self.program);
        } else if line.starts_with("error: test failed, to rerun pass") {
            self.programs_failed.insert(self.program.clone());
        } else if let Some(test) = failed_test(line) {
            self.failures.push(Failed { program: self.program.clone(), test });
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            for part in rest.split(['.', ';']).map(str::trim) {
                let Some((count, what)) = part.split_once(' ') else { continue };
                let Ok(count) = count.parse::<usize>() else { continue };
                match what {
                    "passed" => self.passed += count,
                    "failed" => self.failed += count,
                    "ignored" => self.ignored += count,
                    _ => {}
                }
            }
        } else if let Some((test, reason)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ignored, "))
        {
            self.reasons.push(format!("{test}: {reason}"));
        }
    }

    /// Takes back the failures of tests that pass alone. True if no failure is left.
    fn forgive(&mut self, unsteady: &[Failed]) -> bool {
        self.failures.retain(|failed| !unsteady.contains(failed));
        self.failed = self.failed.saturating_sub(unsteady.len());
        let explained: BTreeSet<_> = unsteady.iter().map(|failed| &failed.program).collect();
        self.failures.is_empty()
            && self.failed == 0
            && self.programs_failed.iter().all(|program| explained.contains(program))
    }
}

/// Sets up, runs and counts. True if no test failed.
///
/// # Errors
/// Cargo cannot be run, or the report cannot be read.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    if !options.no_setup {
        // If something is missing, setup prints it, and the tests that need it are skipped.
        setup::prepare(repository, For::Tests)?;
    }
    let report = repository.join("target/test-report.jsonl");
    std::fs::create_dir_all(repository.join("target"))?;
    std::fs::write(&report, "")?;
    let build = cargo_arguments(options);
    let (mut passes, mut counts) = cargo_test(repository, &build, &report)?;
    let unsteady = if options.cargo.iter().any(|argument| argument == "--") {
        Vec::new()
    } else {
        again::pass_alone(repository, &build, &counts.failures, &report)?
    };
    passes |= !unsteady.is_empty() && counts.forgive(&unsteady);
    let text = std::fs::read_to_string(&report)?;
    let lines =
        text.lines().map(serde_json::from_str).collect::<std::result::Result<Vec<Line>, _>>()?;
    println!("\n{}", summary(&counts, &unsteady, &lines));
    let is_whole = !lines.iter().any(|line| line.kind == Kind::Skipped(Cause::NotInstalled));
    if options.strict && !is_whole {
        eprintln!(
            "error: tests were skipped for want of what can be installed, and --strict forbids that"
        );
    }
    Ok(passes && (is_whole || !options.strict))
}

/// Returns the arguments for cargo.
fn cargo_arguments(options: &Options) -> Vec<String> {
    let own = ["test", "--release", "--no-fail-fast"].map(str::to_owned);
    let chosen = match options.cargo.as_slice() {
        [] => vec!["--workspace".to_owned()],
        chosen => chosen.to_vec(),
    };
    own.into_iter().chain(chosen).collect()
}

/// Runs `cargo test`, shows its output, and counts. Output and errors share one pipe, so that each
/// line can be assigned to its program.
fn cargo_test(repository: &Path, arguments: &[String], report: &Path) -> Result<(bool, Counts)> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let report = report.canonicalize()?;
    let (reader, writer) = std::io::pipe()?;
    let mut child = Command::new(cargo)
        .args(arguments)
        .current_dir(repository)
        .env(report::VARIABLE, report)
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let mut counts = Counts::default();
    for line in BufReader::new(reader).lines() {
        let line = line?;
        println!("{line}");
        counts.read(&line);
    }
    Ok((child.wait()?.success(), counts))
}

/// Returns the summary for people.
fn summary(counts: &Counts, unsteady: &[Failed], lines: &[Line]) -> String {
    let named = |is_meant: &dyn Fn(&Kind) -> bool| {
        let mut tests: Vec<&str> = lines
            .iter()
            .filter(|line| is_meant(&line.kind))
            .map(|line| line.test.as_str())
            .collect();
        tests.sort_unstable();
        tests.dedup();
        tests.len()
    };
    let skipped = named(&|kind| matches!(kind, Kind::Skipped(_)));
    let known = named(&|kind| *kind == Kind::KnownFailure);
    let mut text = format!(
        "{} tests passed, {} failed, {skipped} were skipped in whole or in part, {known} failed \
        as is known, {} are not run by default\n",
        (counts.passed + unsteady.len()).saturating_sub(known),
        counts.failed,
        counts.ignored
    );
    let names = |failed: &[Failed]| failed.iter().map(Failed::to_string).collect::<Vec<_>>();
    text += &paragraph("failed", &names(&counts.failures));
    text += &paragraph("unsteady: failed beside others, passed alone", &names(unsteady));
    text += &paragraph("skipped", &by_reason(lines, &|kind| matches!(kind, Kind::Skipped(_))));
    let known: Vec<String> = lines
        .iter()
        .filter(|line| line.kind == Kind::KnownFailure)
        .map(|line| format!("{}: {}", line.test, line.reason))
        .collect();
    text += &paragraph("known failures (tests/known_failures.txt)", &known);
    text + &paragraph("not run by default", &counts.reasons)
}

/// Returns how many tests each reason stopped.
fn by_reason(lines: &[Line], is_meant: &dyn Fn(&Kind) -> bool) -> Vec<String> {
    let mut tests = BTreeMap::<&str, Vec<&str>>::new();
    for line in lines.iter().filter(|line| is_meant(&line.kind)) {
        tests.entry(&line.reason).or_default().push(&line.test);
    }
    let row = |(reason, mut tests): (&str, Vec<&str>)| {
        tests.sort_unstable();
        tests.dedup();
        format!("{reason}: {}, the first is {}", tests.len(), tests[0])
    };
    tests.into_iter().map(row).collect()
}

fn paragraph(heading: &str, rows: &[String]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows: String = rows.iter().map(|row| format!("  {row}\n")).collect();
    format!("{heading}:\n{rows}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut counts = Counts::default();
        for line in [
            "test a ... ok",
            "test b ... ignored, takes long",
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished \
            in 0.10s",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; \
            finished in 1.00s",
        ] {
            counts.read(line);
        }
        let expected = Counts {
            passed: 7,
            failed: 1,
            ignored: 1,
            reasons: vec!["b: takes long".to_owned()],
            ..Counts::default()
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn only_what_passes_alone_is_forgiven() {
        let mut counts = Counts::default();
        for line in [
            "     Running tests/one.rs (target/release/deps/one-1)",
            "test a ... FAILED",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored",
            "error: test failed, to rerun pass `-p retake --test one`",
            "     Running tests/two.rs (target/release/deps/two-2)",
            "test b ... FAILED",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored",
            "error: test failed, to rerun pass `-p retake --test two`",
        ] {
            counts.read(line);
        }
        let failures = counts.failures.clone();
        assert_eq!(failures.iter().map(Failed::to_string).collect::<Vec<_>>(), ["one a", "two b"]);
        assert!(!counts.forgive(&failures[..1]), "another is left");
        assert_eq!((counts.failed, counts.failures.len()), (1, 1));
        // A program that crashes has no result and names no test.
        counts.read("     Running tests/three.rs (target/release/deps/three-3)");
        counts.read("error: test failed, to rerun pass `-p retake --test three`");
        assert!(!counts.forgive(&failures), "a crash is left");
    }

    #[test]
    fn a_skip_is_counted_and_told() {
        let line = |kind, test: &str, reason: &str| Line {
            kind,
            test: test.to_owned(),
            reason: reason.to_owned(),
        };
        let lines = [
            line(Kind::Skipped(Cause::NotInstalled), "debug::a", "no gdb"),
            line(Kind::Skipped(Cause::NotInstalled), "debug::b", "no gdb"),
            line(Kind::KnownFailure, "known::c", "hangs (every program)"),
        ];
        let text = summary(&Counts { passed: 10, ..Counts::default() }, &[], &lines);
        assert!(text.starts_with("9 tests passed, 0 failed, 2 were skipped"), "{text}");
        assert!(
            text.contains("no gdb: 2, the first is debug::a") && text.contains("known::c: hangs"),
            "{text}"
        );
    }
}
