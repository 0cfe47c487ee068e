//! The common parts of the tests of all crates.
//!
//! * [`c`]: asks the C compiler.
//! * [`needs`]: what a test needs of the machine, and whether it is there.
//! * [`report`]: reports tests that could not run, and known failures, to `cargo xtask test`.
//! * [`known`]: tests of faults that are not fixed yet.
//! * [`pages`]: the commands that the documentation shows.
//! * [`shown`]: compares their output with the pages.
//! * [`listed`]: the commands that no test runs.
//! * [`repeated`]: memory that makes no sense.
//!
//! Cargo's test harness has no skipped tests. A test that cannot run therefore says so on standard
//! error, past the harness, which would hide it. It also reports that in the file that
//! `RETAKE_TEST_REPORT` names. `cargo xtask test` sets that variable, and counts the reports.

#![forbid(unsafe_code)]

pub mod c;
pub mod known;
pub mod listed;
pub mod needs;
pub mod pages;
pub mod repeated;
pub mod report;
pub mod shown;

/// Ends the test as skipped if the machine lacks one of the needs: see [`needs::lacking`].
///
///     retake_testing::needs!("gdb", "two cores");
#[macro_export]
macro_rules! needs {
    ($($need:expr),+ $(,)?) => {
        $(if $crate::needs::is_lacking($need) {
            return;
        })+
    };
}
