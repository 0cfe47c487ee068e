//! Tries one mutation: applies it to the copy, builds, and asks the tests, nearest first, until
//! one notices.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::baseline::Baseline;
use super::mutation::Mutation;
use super::results::{Outcome, Record};
use super::sandbox::Sandbox;
use super::test_programs::{self, Built, TestProgram, Verdict};
use crate::bench::Result;

/// A test that failed is asked again so often: it must fail once more.
const CONFIRMATIONS: usize = 2;

/// Where mutations are tried.
#[derive(Debug)]
pub struct Ground<'run> {
    pub copy: &'run Path,
    pub target: &'run Path,
    pub sandbox: &'run Sandbox,
    pub baseline: &'run Baseline,
}

impl Ground<'_> {
    /// What comes of a mutation. The copy is without it afterwards.
    ///
    /// # Errors
    /// It has no place in the copy, or the harness fails.
    pub fn attempt(&self, mutation: &Mutation) -> Result<Record> {
        let path = self.copy.join(&mutation.file);
        let (original, mutated) = (fs::read(&path)?, mutation.applied(self.copy)?);
        fs::write(&path, mutated)?;
        let attempt = test_programs::build(self.copy, self.target)
            .and_then(|built| self.ask(mutation, built));
        fs::write(&path, original)?;
        attempt
    }

    fn ask(&self, mutation: &Mutation, built: Built) -> Result<Record> {
        let start = Instant::now();
        let mut unsteady = Vec::new();
        let outcome = match built {
            Built::Refused(because) => Outcome::NotCompiled { because },
            Built::Tests(programs) => {
                let mut outcome = Outcome::Survived;
                for program in self.baseline.order(&mutation.file, &programs) {
                    if let Some(by) = self.notices(program, &mut unsteady)? {
                        outcome = Outcome::Noticed { by };
                        break;
                    }
                }
                outcome
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        Ok(Record {
            key: mutation.key(),
            tree: self.baseline.tree,
            mutation: mutation.to_string(),
            outcome,
            seconds,
            unsteady,
        })
    }

    /// What in a test program notices, if anything does.
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
