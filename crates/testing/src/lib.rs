//! What the tests of all crates share.
//!
//! * [`c`]: asking the C compiler.
//! * [`needs`]: what a test needs of the machine, and how its absence is found out.
//! * [`report`]: tests that could not run, and failures that are known, written down for `cargo
//!   xtask test`.
//! * [`known`]: tests of faults that are not mended yet.
//! * [`pages`]: the commands that the documentation shows; [`shown`]: whether they print what is
//!   shown; [`listed`]: those that no test runs.
//!
//! Cargo's test harness knows no skipped test. So a test that cannot run says so on standard error,
//! past the harness that would hide it, and in the file that `RETAKE_TEST_REPORT` names. `cargo
//! xtask test` sets that variable, and counts.

#![forbid(unsafe_code)]

pub mod c;
pub mod known;
pub mod listed;
pub mod needs;
pub mod pages;
pub mod report;
pub mod shown;

/// Ends the test as skipped, unless the machine has all that is named: see [`needs::lacking`].
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
