//! `cargo xtask mutants`: breaks the product in small ways, one at a time, and checks whether a
//! test notices. `tests/mutants/README.md` explains the output.

mod area;
mod baseline;
mod copy;
mod draw;
mod for_one_test;
mod hunt;
mod list;
mod mask;
mod mutation;
mod results;
mod sandbox;
mod scan;
mod test_programs;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::bench::Result;
use baseline::Baseline;
use hunt::Ground;
use list::SetAside;
use mutation::Mutation;
use results::{Outcome, Record, Results};
use sandbox::Sandbox;
use test_programs::{Built, Which};

/// The command line.
#[derive(Debug, Args)]
pub struct Options {
    /// The seed for drawn mutations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of drawn mutations.
    #[arg(long, default_value_t = 30)]
    count: usize,
    /// Try only these numbers of the list.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    only: Vec<usize>,
    /// Print the mutations; build and run nothing.
    #[arg(long)]
    list: bool,
    /// Try the mutations made for one test each, and run only that test.
    #[arg(long, conflicts_with_all = ["only", "list", "json", "resume"])]
    for_one_test: bool,
    /// Write all results as one JSON document.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Go on with the results in this file, and add to it.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// The folder for the copy, the build, and all files of tests. It is kept for the next run.
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
}

/// A place in the list: the mutation to try, and others in case it does not compile.
struct Slot {
    number: usize,
    choices: Vec<Mutation>,
}

/// Runs the command. True if every mutation was noticed.
///
/// # Errors
/// A mutation in the lists is not found in the sources, a test program fails without one, or there
/// can be no namespaces.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    let repository = repository.canonicalize()?;
    let set_aside = list::set_aside(&repository)?;
    let slots = slots(&repository, options)?;
    if options.list {
        for slot in &slots {
            if let Some(mutation) =
                slot.choices.iter().find(|mutation| reason(&set_aside, mutation).is_none())
            {
                println!("{:>3} {mutation}", slot.number);
            }
        }
        return Ok(true);
    }
    let scratch = options.scratch.clone().unwrap_or_else(|| repository.join("target/mutants"));
    let [copy, target] = ["tree", "target"].map(|name| scratch.join(name));
    fs::create_dir_all(&copy)?;
    let (scratch, copy) = (scratch.canonicalize()?, copy.canonicalize()?);
    // Another run would change the copy under this one.
    let lock = File::create(scratch.join("lock"))?;
    lock.try_lock().map_err(|_| format!("another run uses {}", scratch.display()))?;

    let sandbox = Sandbox::new(&scratch)?;
    copy::refresh(&repository, &copy)?;
    if options.for_one_test {
        return for_one_test::all_notice(
            &list::for_one_test(&repository)?,
            &sandbox,
            &copy,
            &target,
        );
    }
    println!("building all tests in {}", scratch.display());
    let programs = match test_programs::build(&copy, &target, Which::All)? {
        Built::Tests(programs) => programs,
        Built::Refused(because) => {
            return Err(format!("without a mutation it does not compile: {because}").into());
        }
    };
    let baseline =
        Baseline::measure(&repository, &scratch.join("baseline.json"), &sandbox, &programs)?;
    let results = options.resume.clone().unwrap_or_else(|| scratch.join("results.jsonl"));
    let mut results = Results::open(&results, options.resume.is_some())?;
    let ground = Ground { copy: &copy, target: &target, sandbox: &sandbox, baseline: &baseline };
    let mut tried = Vec::new();
    for slot in &slots {
        tried.push((slot.number, try_slot(slot, &set_aside, &ground, &mut results)?));
    }
    summarise(options, &tried)
}

fn slots(repository: &Path, options: &Options) -> Result<Vec<Slot>> {
    let written = list::written(repository)?.into_iter().map(|mutation| vec![mutation]);
    let drawn = draw::orders(&draw::candidates(repository)?, options.seed, options.count);
    let numbered = written
        .chain(drawn)
        .enumerate()
        .map(|(index, choices)| Slot { number: index + 1, choices });
    let slots: Vec<Slot> = numbered
        .filter(|slot| options.only.is_empty() || options.only.contains(&slot.number))
        .collect();
    if slots.is_empty() {
        return Err("there are no such numbers; --list shows them".into());
    }
    Ok(slots)
}

/// Returns why a mutation is set aside, if it is.
fn reason<'list>(set_aside: &'list [SetAside], mutation: &Mutation) -> Option<&'list str> {
    set_aside.iter().find(|entry| entry.covers(mutation)).map(|entry| entry.reason.as_str())
}

/// Tries the first choice that is not set aside and compiles.
fn try_slot(
    slot: &Slot,
    set_aside: &[SetAside],
    ground: &Ground<'_>,
    results: &mut Results,
) -> Result<Record> {
    for mutation in &slot.choices {
        if let Some(reason) = reason(set_aside, mutation) {
            println!("{:>3} {mutation}\n    set aside: {reason}", slot.number);
            continue;
        }
        let record = match results.known(&mutation.key(), ground.baseline.tree) {
            Some(record) => record.clone(),
            None => {
                let record = ground.attempt(mutation)?;
                results.add(&record)?;
                record
            }
        };
        println!("{:>3} {mutation}\n    {}", slot.number, describe(&record));
        if !matches!(record.outcome, Outcome::NotCompiled { .. }) {
            return Ok(record);
        }
    }
    Err(format!("{}: nothing is left to try", slot.number).into())
}

fn describe(record: &Record) -> String {
    let outcome = match &record.outcome {
        Outcome::Noticed { by } => format!("noticed by {by} after {:.0} s", record.seconds),
        Outcome::Survived => format!("SURVIVED all tests, {:.0} s", record.seconds),
        Outcome::NotCompiled { because } => {
            format!("does not compile, and another is drawn: {because}")
        }
    };
    let unsteady = record
        .unsteady
        .iter()
        .map(|test| format!("; {test} failed once only, which does not count"));
    std::iter::once(outcome).chain(unsteady).collect()
}

fn summarise(options: &Options, tried: &[(usize, Record)]) -> Result<bool> {
    let noticed = tried.iter().filter(|(_, record)| record.outcome != Outcome::Survived).count();
    println!("{noticed} of {} noticed; seed {}", tried.len(), options.seed);
    if let Some(file) = &options.json {
        let mutants: Vec<_> = tried
            .iter()
            .map(|(number, record)| json!({ "number": number, "record": record }))
            .collect();
        let document = json!({ "seed": options.seed, "noticed": noticed, "of": tried.len(),
            "mutants": mutants });
        fs::write(file, serde_json::to_vec_pretty(&document)?)?;
    }
    Ok(noticed == tried.len())
}

#[cfg(test)]
mod option_tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        CommandLine::try_parse_from(["mutants"].iter().chain(arguments)).unwrap().options
    }

    #[test]
    fn sixty_are_tried_by_default() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let numbers = |arguments: &[&str]| {
            let slots = slots(&repository, &options(arguments)).unwrap();
            slots.iter().map(|slot| slot.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&[]), (1..=60).collect::<Vec<_>>());
        assert_eq!(numbers(&["--only", "2,60", "--seed", "9"]), [2, 60]);
        assert_eq!(numbers(&["--count", "0"]).len(), 30);
    }
}
