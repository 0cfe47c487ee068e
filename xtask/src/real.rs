//! `cargo xtask real`: records the programs of `tests/real` with all checks and replays each many times. docs/REAL_PROGRAMS.md tells more.

mod case;
mod trial;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bench::Result;
use crate::bench::scratch::Scratch;
use case::Case;
use trial::{Report, Trial};

pub const USAGE: &str = "cargo xtask real [NAME...] [--replays N] [--list] [--keep] [--scratch DIR] [--retake FILE]";

const USUAL_REPLAYS: usize = 3;

/// The command line.
#[derive(Debug)]
struct Options {
    /// Names of programs; empty for all.
    names: Vec<String>,
    replays: usize,
    list: bool,
    /// Leave recordings and outputs behind.
    keep: bool,
    scratch: PathBuf,
    retake: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let scratch = std::env::temp_dir().join(format!("retake-real-{}", std::process::id()));
        let mut options = Self { names: Vec::new(), replays: USUAL_REPLAYS, list: false, keep: false, scratch, retake: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().copied().ok_or(format!("{argument} needs a value\nusage: {USAGE}"));
            match *argument {
                "--replays" => options.replays = value()?.parse().map_err(|_| "--replays needs a number")?,
                "--list" => options.list = true,
                "--keep" => options.keep = true,
                "--scratch" => options.scratch = PathBuf::from(value()?),
                "--retake" => options.retake = Some(PathBuf::from(value()?)),
                _ if argument.starts_with('-') => return Err(format!("no such option: {argument}\nusage: {USAGE}").into()),
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Runs the programs and prints a table. Whether all of them did as they should.
///
/// # Errors
/// Mistakes in the command line or in the files, or a scratch folder that cannot be used.
pub fn run(repository: &Path, arguments: &[&str]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let cases = choose(case::read_all(&repository.join("tests/real"))?, &options.names)?;
    if options.list {
        for case in &cases {
            println!("{:<16}{}", case.name, case.title);
        }
        return Ok(true);
    }
    let retake = match &options.retake {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => build(repository)?,
    };
    let scratch = Scratch::create(&options.scratch, options.keep)?;
    println!("{:<16}{:>9}{:>9}{:>9}  replays", "program", "native", "record", "replay");
    let mut all_good = true;
    for case in &cases {
        if let Some(lacking) = case.requires.iter().find(|name| !exists(name)) {
            println!("{:<16}skipped: no {lacking} here; try: apt-get install -y {}", case.name, case.packages);
            continue;
        }
        let trial = Trial { case, retake: &retake, folder: scratch.path().join(&case.name), replays: options.replays };
        let report = trial.run()?;
        print_report(case, &report);
        all_good &= report.complaints.is_empty();
        if report.complaints.is_empty() && !options.keep {
            std::fs::remove_dir_all(&trial.folder)?;
        } else if !report.complaints.is_empty() {
            println!("    `cargo xtask real {} --keep --scratch DIR` leaves everything in DIR", case.name);
        }
    }
    Ok(all_good)
}

fn choose(cases: Vec<Case>, names: &[String]) -> Result<Vec<Case>> {
    if let Some(unknown) = names.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        return Err(format!("no program {unknown} in tests/real; --list shows them").into());
    }
    Ok(cases.into_iter().filter(|case| names.is_empty() || names.contains(&case.name)).collect())
}

fn build(repository: &Path) -> Result<PathBuf> {
    let status = Command::new("cargo").args(["build", "--release", "--package", "retake"]).current_dir(repository).status()?;
    if !status.success() {
        return Err("retake does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    Ok(target.join("release/retake").canonicalize()?)
}

/// Whether a command or a file is there.
fn exists(name: &str) -> bool {
    if name.starts_with('/') {
        return Path::new(name).exists();
    }
    let found = Command::new("sh").args(["-c", "command -v -- \"$0\"", name]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn print_report(case: &Case, report: &Report) {
    let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2} s"));
    println!(
        "{:<16}{:>9}{:>9}{:>9}  {} of {}",
        case.name,
        seconds(report.native_seconds),
        seconds(report.record_seconds),
        seconds(report.replay_seconds),
        report.good_replays,
        report.replays
    );
    for complaint in &report.complaints {
        println!("    {complaint}");
    }
}
