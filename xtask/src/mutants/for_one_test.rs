//! `cargo xtask mutants --for-one-test`: mutations made for tests that once could not fail. Only
//! that test runs. It must fail with the mutation and pass without it.

use std::path::Path;
use std::time::Duration;

use super::list::ForOneTest;
use super::sandbox::Sandbox;
use super::test_programs::{self, Built, Verdict, Which};
use crate::bench::Result;

const LIMIT: Duration = Duration::from_secs(300);

/// Returns whether each test notices the mutation made for it.
///
/// # Errors
/// A program does not compile, a test fails without its mutation, or the harness fails.
pub fn all_notice(
    list: &[ForOneTest],
    sandbox: &Sandbox,
    copy: &Path,
    target: &Path,
) -> Result<bool> {
    let verdict = |one: &ForOneTest| -> Result<Verdict> {
        match test_programs::build(copy, target, Which::Programs(&[&one.program]))? {
            Built::Refused(because) => Err(format!("{}: {because}", one.mutation).into()),
            Built::Tests(programs) => match &programs[..] {
                [program] => program.run_one(sandbox, &one.test, LIMIT),
                _ => Err(format!("{} is {} programs", one.program, programs.len()).into()),
            },
        }
    };
    let mut survivors = 0;
    for one in list {
        let before = verdict(one)?;
        if before != Verdict::Passed {
            return Err(format!("{} {} fails by itself", one.program, one.test).into());
        }
        let after = one.mutation.while_applied(copy, || verdict(one))?;
        survivors += usize::from(after == Verdict::Passed);
        let noticed = if after == Verdict::Passed { "SURVIVED" } else { "noticed by" };
        println!("{}\n    {noticed} {} {}", one.mutation, one.program, one.test);
    }
    println!("{} of {} noticed", list.len() - survivors, list.len());
    Ok(survivors == 0)
}
