//! Tests of known faults that are not fixed yet.
//!
//! Each such test states what must hold one day. `tests/known_failures.txt` lists it, with the
//! piece of work that will fix its fault. A listed test must fail. When its fault is fixed, the
//! test says that its line must be removed. So the list only shrinks, which
//! `xtask/tests/known_failures.rs` enforces.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::report;

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// `BINARY::TEST`.
    pub test: String,
    /// The piece of work that will fix the fault.
    pub mended_by: String,
}

/// Reads the list. A line is `BINARY::TEST: PIECE OF WORK`, and `#` begins a comment.
///
/// # Panics
/// The list cannot be read, or a line has no colon and space.
pub fn list() -> Vec<Known> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/known_failures.txt");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse(line).unwrap_or_else(|| panic!("not `TEST: WORK`: {line}"))).collect()
}

fn parse(line: &str) -> Option<Known> {
    let (test, mended_by) = line.split_once(": ")?;
    Some(Known { test: test.to_owned(), mended_by: mended_by.to_owned() })
}

/// Runs the body of a test whose fault is known: `known_failure!(tries, body)`. It must be the last
/// thing that the test does.
///
/// The body may pass by chance. It is run until it fails, at most `tries` times.
#[macro_export]
macro_rules! known_failure {
    ($tries:expr, $body:expr $(,)?) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here);
        $crate::known::fails(name.trim_end_matches("::here"), $tries, $body)
    }};
}

/// The implementation of `known_failure!` for the test with this name.
///
/// # Panics
/// The test is not in the list, or none of the runs failed.
pub fn fails(test: &str, tries: u32, body: impl Fn()) {
    let Some(known) = list().into_iter().find(|known| known.test == test) else {
        panic!("{test} is not in tests/known_failures.txt");
    };
    for _ in 0..tries {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(&body)) {
            let literal = panic.downcast_ref::<&str>().copied();
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or(literal)
                .unwrap_or("it failed");
            let first = said.lines().next().unwrap_or_default();
            report::known_failure(
                test,
                &format!("{} ({})", first.chars().take(100).collect::<String>(), known.mended_by),
            );
            return;
        }
    }
    panic!(
        "{test} passed {tries} times: its fault is repaired. Call its body directly, and remove it \
        from tests/known_failures.txt"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_test_and_what_will_mend_it() {
        let known = parse("known_failures::a::b: every program").unwrap();
        assert_eq!(
            (known.test.as_str(), known.mended_by.as_str()),
            ("known_failures::a::b", "every program")
        );
        assert!(parse("known_failures::b").is_none());
    }

    #[test]
    #[should_panic(expected = "is not in tests/known_failures.txt")]
    fn who_is_not_listed_may_not_fail() {
        crate::known_failure!(1, || panic!("a fault"));
    }
}
