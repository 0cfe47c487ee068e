//! The tests without any mutation: which of them fail on this machine all the same, and how long
//! each program takes.

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

/// No program takes longer, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(3600);
/// A mutated program may take so many times as long as the others, and this.
const PATIENCE: u32 = 3;
const MORE_PATIENCE: Duration = Duration::from_secs(60);

/// What is known of each test program.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Baseline {
    /// Of all files: another tree has another baseline.
    pub tree: u64,
    programs: BTreeMap<String, Known>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Known {
    milliseconds: u64,
    /// They fail by themselves, so they cannot notice anything.
    failing: Vec<String>,
}

impl Baseline {
    /// Runs all test programs, or reads what came of it when the same tree was run before.
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

    /// Tests of a program that are left out.
    pub fn failing(&self, program: &TestProgram) -> &[String] {
        self.programs.get(&program.name).map_or(&[], |known| &known.failing)
    }

    /// How long a program may take.
    pub fn limit(&self, program: &TestProgram) -> Duration {
        self.usual(program) * PATIENCE + MORE_PATIENCE
    }

    fn usual(&self, program: &TestProgram) -> Duration {
        Duration::from_millis(
            self.programs.get(&program.name).map_or(0, |known| known.milliseconds),
        )
    }

    /// All programs, in the order in which they are likely to notice something in `file` soon.
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

/// What fails is tried once more, alone.
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
        // Documents and these lists change nothing.
        if !file.ends_with(".md")
            && !file.starts_with("tests/mutants/")
            && !file.starts_with("xtask/")
        {
            (&file, std::fs::read(repository.join(&file))?).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}
