//! The report of tests that neither simply passed nor failed.
//!
//! `RETAKE_TEST_REPORT` names its file. Each line is one [`Line`] as JSON, appended by a single
//! write, so that tests in many processes can share the file.

use std::fs::OpenOptions;
use std::io::Write;

use serde::{Deserialize, Serialize};

/// The environment variable that names the file.
pub const VARIABLE: &str = "RETAKE_TEST_REPORT";

/// Why a test was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Something that could be installed is missing.
    NotInstalled,
    /// The kernel, the processor or the user's rights prevent it.
    Machine,
}

/// The kind of a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The test did not run, or only in part.
    Skipped(Cause),
    /// The test failed because of a known fault.
    KnownFailure,
}

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Line {
    pub kind: Kind,
    /// `BINARY::TEST`.
    pub test: String,
    pub reason: String,
}

/// Reports that the running test did nothing, or left out a part.
pub fn skip(cause: Cause, reason: &str) {
    skip_test(&running_test(), cause, reason);
}

/// The same for another test. Harnesses use it that know before a test starts.
pub fn skip_test(test: &str, cause: Cause, reason: &str) {
    say(&Line { kind: Kind::Skipped(cause), test: test.to_owned(), reason: reason.to_owned() });
}

/// Reports that a test failed as expected.
pub fn known_failure(test: &str, reason: &str) {
    say(&Line { kind: Kind::KnownFailure, test: test.to_owned(), reason: reason.to_owned() });
}

/// The binary and the name of the running test. Cargo's harness gives the thread the test's name.
pub fn running_test() -> String {
    let thread = std::thread::current();
    format!("{}::{}", binary(), thread.name().unwrap_or("unnamed"))
}

/// The name of the test binary, without the hash that cargo appends.
pub fn binary() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.rsplit_once('-').map_or(name.clone(), |(name, _)| name.to_owned())
}

fn say(line: &Line) {
    let what = match line.kind {
        Kind::Skipped(_) => "skipped",
        Kind::KnownFailure => "known failure",
    };
    // `eprintln!` is no use here, because the harness hides its text when a test passes.
    let _ = writeln!(std::io::stderr(), "{what}: {}: {}", line.test, line.reason);
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let mut text = serde_json::to_string(line).expect("a report line is JSON");
    text.push('\n');
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.unwrap_or_else(|error| panic!("{VARIABLE}={}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        for kind in [Kind::Skipped(Cause::Machine), Kind::KnownFailure] {
            let line = Line { kind, test: running_test(), reason: "no \"gdb\"".to_owned() };
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
        }
        assert_eq!(
            running_test(),
            "retake_testing::report::tests::lines_are_read_as_they_were_written"
        );
    }
}
