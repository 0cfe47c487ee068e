//! `cargo xtask bench`: runs the workloads of `benches/workloads` natively, under strace, recorded and replayed, and says what
//! that costs. docs/BENCHMARKS.md tells how to read the numbers.

mod json;
mod machine;
mod measure;
pub mod process;
mod report;
pub mod scratch;
mod statistics;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;

use machine::Machine;
use measure::{Bench, Measured};
use workload::Workload;

/// What goes wrong in the harness itself. A workload that fails is a result, not an error.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

pub const USAGE: &str = "cargo xtask bench [--quick] [--rounds N] [--only NAME[,NAME]] [--list] [--update] [--gate] [--keep] \
                         [--scratch DIR] [--retake FILE]";

const QUICK_ROUNDS: usize = 5;
const FULL_ROUNDS: usize = 15;

/// strace is a hundred times slower than what it is compared with, and need not be known as well.
const QUICK_STRACE_ROUNDS: usize = 1;
const FULL_STRACE_ROUNDS: usize = 5;

/// Nobody waits for more, and every round's figures are kept.
const MAXIMUM_ROUNDS: usize = 1000;

/// The command line.
#[derive(Debug, Default)]
struct Options {
    quick: bool,
    rounds: Option<usize>,
    /// Names of workloads; empty for all.
    only: Vec<String>,
    list: bool,
    /// Write the table into docs/BENCHMARKS.md.
    update: bool,
    /// Fail if a limit is exceeded, not only if a workload fails.
    gate: bool,
    /// Leave the scratch folder behind.
    keep: bool,
    scratch: Option<PathBuf>,
    retake: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().copied().ok_or(format!("{argument} needs a value\nusage: {USAGE}"));
            match *argument {
                "--quick" => options.quick = true,
                "--list" => options.list = true,
                "--update" => options.update = true,
                "--gate" => options.gate = true,
                "--keep" => options.keep = true,
                "--rounds" => options.rounds = Some(parse_rounds(value()?)?),
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--scratch" => options.scratch = Some(PathBuf::from(value()?)),
                "--retake" => options.retake = Some(PathBuf::from(value()?)),
                _ => return Err(format!("no such option: {argument}\nusage: {USAGE}").into()),
            }
        }
        Ok(options)
    }

    fn rounds(&self) -> usize {
        let usual = if self.quick { QUICK_ROUNDS } else { FULL_ROUNDS };
        self.rounds.unwrap_or(usual)
    }

    fn strace_rounds(&self) -> usize {
        let usual = if self.quick { QUICK_STRACE_ROUNDS } else { FULL_STRACE_ROUNDS };
        usual.min(self.rounds())
    }
}

fn parse_rounds(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(rounds @ 1..=MAXIMUM_ROUNDS) => Ok(rounds),
        _ => Err(format!("--rounds needs a number from 1 to {MAXIMUM_ROUNDS}, not {text}").into()),
    }
}

/// Runs the command. True if all workloads succeeded, and with `--gate` kept within their limits.
///
/// # Errors
/// A mistake in the command line or a workload file, and failures of the harness.
pub fn run(repository: &Path, arguments: &[&str]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let repository = repository.canonicalize()?;
    let workloads = select(workload::read_all(&repository.join("benches/workloads"))?, &options)?;
    if options.list {
        for workload in &workloads {
            println!("{:<20} {}", workload.name, workload.title);
        }
        return Ok(true);
    }
    let retake = retake(&repository, options.retake.as_deref())?;
    let machine = Machine::look();
    machine.warn();
    let scratch = options.scratch.clone().unwrap_or_else(|| repository.join("target/bench-scratch"));
    let bench = Bench::prepare(&repository, &scratch, &retake, options.keep)?;
    let measured = measure_all(&bench, &workloads, &options)?;
    drop(bench);

    let report = report::Report { machine, rounds: options.rounds(), strace_rounds: options.strace_rounds(), measured };
    println!("\n{}", report.terminal());
    let json = repository.join("target/bench.json");
    std::fs::write(&json, report.json())?;
    println!("all figures: target/bench.json");
    if options.update {
        report::update(&repository.join("docs/BENCHMARKS.md"), &report.markdown())?;
        println!("wrote docs/BENCHMARKS.md");
    }
    Ok(report.succeeded(options.gate))
}

fn select(workloads: Vec<Workload>, options: &Options) -> Result<Vec<Workload>> {
    for name in &options.only {
        if !workloads.iter().any(|workload| workload.name == *name) {
            return Err(format!("no workload {name}; --list names them").into());
        }
    }
    let wanted = |workload: &Workload| options.only.is_empty() || options.only.contains(&workload.name);
    Ok(workloads.into_iter().filter(wanted).collect())
}

/// The program to measure: the one that was asked for, else a release build of this repository.
///
/// # Errors
/// If there is none, or it does not build.
pub fn retake(repository: &Path, wanted: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = wanted {
        let found = path.canonicalize();
        return found.map_err(|error| format!("{}: {error}", path.display()).into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--release", "--quiet", "--package", "retake"]).current_dir(repository).status()?;
    if !status.success() {
        return Err("retake does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(repository.join(target).join("release/retake"))
}

fn measure_all(bench: &Bench, workloads: &[Workload], options: &Options) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for workload in workloads {
        println!("{} ...", workload.title);
        let measured = bench.measure(workload, options.rounds(), options.strace_rounds())?;
        println!("    {}", report::line(&measured));
        all.push(measured);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["--quick", "--only", "a,b", "--rounds", "3"]).unwrap();
        assert!(options.quick && !options.update);
        assert_eq!(options.only, ["a", "b"]);
        assert_eq!((options.rounds(), options.strace_rounds()), (3, 1));
        assert_eq!(Options::parse(&[]).unwrap().rounds(), FULL_ROUNDS);
    }

    #[test]
    fn wrong_options_are_refused() {
        for arguments in [&["--fast"][..], &["--rounds"], &["--rounds", "0"], &["--rounds", "many"]] {
            assert!(Options::parse(arguments).is_err(), "{arguments:?}");
        }
    }
}
