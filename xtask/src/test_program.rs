//! The executables with tests that cargo builds, and their output.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// One executable with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgram {
    /// `PACKAGE::TARGET`.
    pub name: String,
    pub executable: PathBuf,
    /// The folder in which cargo would run it.
    pub folder: PathBuf,
}

/// Returns the executables in the output of `cargo test --no-run --message-format json`.
pub fn built(messages: &str) -> Vec<TestProgram> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(|message| test_program(&message))
        .collect()
}

fn test_program(message: &Value) -> Option<TestProgram> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let executable = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    // The package `retake` is in the folder `cli`.
    let id = message["package_id"].as_str()?;
    let package = id
        .rsplit_once('#')?
        .1
        .split('@')
        .next()
        .filter(|name| !name.starts_with(|first: char| first.is_ascii_digit()));
    let package = package.or_else(|| folder.file_name()?.to_str())?;
    let name = format!("{package}::{}", message["target"]["name"].as_str()?);
    Some(TestProgram { name, executable, folder })
}

/// Returns the test's name in a line like `test [kind] NAME - should panic ... FAILED`.
pub fn failed_test(line: &str) -> Option<String> {
    let (before, _) = line.split_once(" ... FAILED")?;
    let name = before.split("test ").last()?;
    let name = name
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
        .map_or(name, |(_, name)| name);
    Some(name.split(" - should panic").next().unwrap_or(name).trim().to_owned())
}

/// Returns the executable in a line like `Running tests/debug.rs (target/release/deps/debug-1f)`.
pub fn running(line: &str) -> Option<&Path> {
    let (_, executable) = line.trim_start().strip_prefix("Running ")?.rsplit_once(" (")?;
    executable.strip_suffix(')').map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_are_read() {
        assert_eq!(failed_test("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert_eq!(failed_test("test [io] replay/a_b ... FAILED").as_deref(), Some("replay/a_b"));
        assert_eq!(failed_test("test a - should panic ... FAILED").as_deref(), Some("a"));
        assert_eq!(failed_test("printed by a program, test a ... FAILED").as_deref(), Some("a"));
        assert!(
            failed_test("test a ... ok").is_none()
                && failed_test("test result: FAILED. 1 passed").is_none()
        );
        let line = "     Running tests/debug.rs (target/release/deps/debug-1f)";
        assert_eq!(running(line), Some(Path::new("target/release/deps/debug-1f")));
        assert!(running("   Doc-tests retake_log").is_none());
    }

    #[test]
    fn messages_of_cargo_are_read() {
        let message = serde_json::json!({
            "reason": "compiler-artifact", "profile": { "test": true },
                "executable": "/t/deps/debug-1", "manifest_path": "/r/crates/cli/Cargo.toml",
            "package_id": "path+file:///r/crates/cli#retake@0.1.0", "target": { "name": "debug" },
        });
        let finished = serde_json::json!({ "reason": "build-finished" });
        let programs = built(&format!("{message}\n{finished}\n"));
        assert_eq!(programs.len(), 1);
        assert_eq!(
            (programs[0].name.as_str(), programs[0].folder.as_path()),
            ("retake::debug", Path::new("/r/crates/cli"))
        );
    }
}
