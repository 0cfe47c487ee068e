//! What tests say about themselves beside passing and failing.
//!
//! The file is named by `RETAKE_TEST_REPORT`; each line is one [`Line`] as JSON. Lines are appended
//! with one write each, so that tests of many processes can share it.

use std::fs::OpenOptions;
use std::io::Write;

use serde::{Deserialize, Serialize};

/// Names the file.
pub const VARIABLE: &str = "RETAKE_TEST_REPORT";

/// Why a test was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Something that could be installed is not.
    NotInstalled,
    /// The kernel, the processor or the user's rights forbid it.
    Machine,
}

/// What a test says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It did not run, or only in part.
    Skipped(Cause),
    /// It failed, as a fault that is known makes it.
    KnownFailure,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Line {
    pub kind: Kind,
    /// `BINARY::TEST`.
    pub test: String,
    pub reason: String,
}

/// Notes that the running test did nothing, or left out a part.
pub fn skip(cause: Cause, reason: &str) {
    skip_test(&running_test(), cause, reason);
}

/// The same about another test, for harnesses that know before they start one.
pub fn skip_test(test: &str, cause: Cause, reason: &str) {
    say(&Line { kind: Kind::Skipped(cause), test: test.to_owned(), reason: reason.to_owned() });
}

/// Notes that a test failed, as was known.
pub fn known_failure(test: &str, reason: &str) {
    say(&Line { kind: Kind::KnownFailure, test: test.to_owned(), reason: reason.to_owned() });
}

/// The binary and the name of the running test. Cargo's harness names the thread after it.
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
    // Not by `eprintln!`, which the harness keeps to itself when a test passes.
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
