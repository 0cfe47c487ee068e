//! Tries one mutation: applies it to the copy, builds, and runs the tests, nearest first, until one
//! notices.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use super::area;
use super::baseline::Baseline;
use super::mutation::Mutation;
use super::results::{Outcome, Record};
use super::sandbox::Sandbox;
use super::test_programs::{self, Built, Verdict, Which};
use crate::bench::Result;
use crate::test_program::TestProgram;

/// How often a failed test is run again. It must fail once more.
const CONFIRMATIONS: usize = 2;

/// The environment in which mutations are tried.
#[derive(Debug)]
pub struct Ground<'run> {
    pub copy: &'run Path,
    pub target: &'run Path,
    pub sandbox: &'run Sandbox,
    pub baseline: &'run Baseline,
}

impl Ground<'_> {
    /// Tries a mutation and returns the result. Afterwards the copy is without it.
    ///
    /// # Errors
    /// The mutation is not found in the copy, or the harness fails.
    pub fn attempt(&self, mutation: &Mutation) -> Result<Record> {
        let start = Instant::now();
        let mut unsteady = Vec::new();
        let outcome = mutation.while_applied(self.copy, || self.ask(mutation, &mut unsteady))?;
        Ok(Record {
            key: mutation.key(),
            tree: self.baseline.tree,
            mutation: mutation.to_string(),
            outcome,
            seconds: start.elapsed().as_secs_f64(),
            unsteady,
        })
    }

    /// Builds and runs the file's own package, then the nearest test programs, then all. Most
    /// mutations are noticed before the long link of all programs.
    fn ask(&self, mutation: &Mutation, unsteady: &mut Vec<String>) -> Result<Outcome> {
        let own = format!("retake-{}", area::package(&mutation.file));
        let stages =
            [Which::Package(&own), Which::Programs(area::nearest(&mutation.file)), Which::All];
        let mut asked = HashSet::new();
        for stage in stages {
            let programs = match test_programs::build(self.copy, self.target, stage)? {
                Built::Refused(because) => return Ok(Outcome::NotCompiled { because }),
                Built::Tests(programs) => programs,
            };
            for program in self.baseline.order(&mutation.file, &programs) {
                if !asked.insert(program.name.clone()) {
                    continue;
                }
                if let Some(by) = self.notices(program, unsteady)? {
                    return Ok(Outcome::Noticed { by });
                }
            }
        }
        Ok(Outcome::Survived)
    }

    /// Returns the test of a program that notices the mutation, if any does.
    fn notices(&self, program: &TestProgram, unsteady: &mut Vec<String>) -> Result<Option<String>> {
        let limit = self.baseline.limit(program);
        let mut without = self.baseline.failing(program).to_vec();
        loop {
            let (verdict, _) = program.run(self.sandbox, &without, limit)?;
            let test = match verdict {
                Verdict::Passed => return Ok(None),
                Verdict::Late => {
                    return Ok(Some(format!(
                        "{}, which does not end in {} s",
                        program.name,
                        limit.as_secs()
                    )));
                }
                Verdict::Broken(how) => {
                    return Ok(Some(format!("{}, which ends with {how}", program.name)));
                }
                Verdict::Failed(test) => test,
            };
            if self.fails_again(program, &test, limit)? {
                return Ok(Some(format!("{} {test}", program.name)));
            }
            unsteady.push(format!("{} {test}", program.name));
            without.push(test);
        }
    }

    fn fails_again(&self, program: &TestProgram, test: &str, limit: Duration) -> Result<bool> {
        for _ in 0..CONFIRMATIONS {
            if program.run_one(self.sandbox, test, limit)? != Verdict::Passed {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
