//! Runs the tests without any mutation, to find those that fail on this machine anyway, and the
//! time of each program.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::area;
use super::copy;
use super::sandbox::Sandbox;
use super::test_programs::Verdict;
use crate::bench::Result;
use crate::test_program::TestProgram;

/// The time limit of a program, long enough for a busy machine.
const LONGEST: Duration = Duration::from_secs(3600);
/// A mutated program may take `PATIENCE` times its usual time, plus `MORE_PATIENCE`.
const PATIENCE: u32 = 3;
const MORE_PATIENCE: Duration = Duration::from_secs(60);

/// The results of all test programs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Baseline {
    /// The hash of all files. Another tree has another baseline.
    pub tree: u64,
    programs: BTreeMap<String, Known>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Known {
    milliseconds: u64,
    /// Tests that fail without a mutation, so they cannot notice one.
    failing: Vec<String>,
}

impl Baseline {
    /// Runs all test programs, or reads the results of an earlier run with the same tree.
    ///
    /// # Errors
    /// A program does not end as tests do.
    pub fn measure(
        repository: &Path,
        file: &Path,
        sandbox: &Sandbox,
        programs: &[TestProgram],
    ) -> Result<Self> {
        let tree = tree_hash(repository)?;
        let known: Option<Self> =
            std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let mut baseline = known
            .filter(|known| known.tree == tree)
            .unwrap_or(Self { tree, programs: BTreeMap::new() });
        for program in programs {
            if !baseline.programs.contains_key(&program.name) {
                let known = look(program, sandbox)?;
                println!(
                    "{:<40} passes without mutations in {:.1} s",
                    program.name,
                    known.milliseconds as f64 / 1000.0
                );
                baseline.programs.insert(program.name.clone(), known);
                std::fs::write(file, serde_json::to_vec(&baseline)?)?;
            }
        }
        for (name, test) in baseline
            .programs
            .iter()
            .flat_map(|(name, known)| known.failing.iter().map(move |test| (name, test)))
        {
            println!("left out: {name} {test} fails without a mutation");
        }
        Ok(baseline)
    }

    /// Returns the tests of a program that are left out.
    pub fn failing(&self, program: &TestProgram) -> &[String] {
        self.programs.get(&program.name).map_or(&[], |known| &known.failing)
    }

    /// Returns the time limit of a mutated program.
    pub fn limit(&self, program: &TestProgram) -> Duration {
        self.usual(program) * PATIENCE + MORE_PATIENCE
    }

    fn usual(&self, program: &TestProgram) -> Duration {
        Duration::from_millis(
            self.programs.get(&program.name).map_or(0, |known| known.milliseconds),
        )
    }

    /// Returns all programs, those first that are likely to notice a mutation in `file` soon.
    pub fn order<'all>(&self, file: &str, programs: &'all [TestProgram]) -> Vec<&'all TestProgram> {
        let nearest: HashMap<&str, usize> = area::nearest(file)
            .iter()
            .enumerate()
            .map(|(place, name)| (*name, place + 1))
            .collect();
        let own = format!("retake-{}::", area::package(file));
        let rank = |program: &TestProgram| match nearest.get(program.name.as_str()) {
            _ if program.name.starts_with(&own) => 0,
            Some(place) => *place,
            None => usize::MAX,
        };
        let mut order: Vec<&TestProgram> = programs.iter().collect();
        order.sort_by_key(|program| (rank(program), self.usual(program)));
        order
    }
}

/// Runs a test program. Tests that fail are tried once more, alone.
fn look(program: &TestProgram, sandbox: &Sandbox) -> Result<Known> {
    let (failed, took) = program.failing(sandbox, LONGEST)?;
    let mut failing = Vec::new();
    for test in failed {
        if program.run_one(sandbox, &test, LONGEST)? != Verdict::Passed {
            failing.push(test);
        }
    }
    Ok(Known { milliseconds: took.as_millis() as u64, failing })
}

fn tree_hash(repository: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for file in copy::files(repository)? {
        // Documents and the lists of mutations do not affect tests.
        if !file.ends_with(".md")
            && !file.starts_with("tests/mutants/")
            && !file.starts_with("xtask/")
        {
            (&file, std::fs::read(repository.join(&file))?).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}
