//! `cargo xtask corpus`: records real programs and servers under load, and replays what was recorded. tests/corpus/README.md says how a program is added.

mod program;
mod run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use program::Program;
use run::{Place, Run};

/// What goes wrong in the harness itself. A program that fails is a result, not an error.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

pub const USAGE: &str = "cargo xtask corpus [NAME...] [--replays N] [--list] [--keep] [--retake FILE]";

const USUAL_REPLAYS: usize = 3;
const MOST_REPLAYS: usize = 10_000;

#[derive(Debug)]
struct Options {
    /// Empty: all.
    names: Vec<String>,
    replays: usize,
    list: bool,
    /// Leave recordings and outputs behind.
    keep: bool,
    retake: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self { names: Vec::new(), replays: USUAL_REPLAYS, list: false, keep: false, retake: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().copied().ok_or(format!("{argument} needs a value\nusage: {USAGE}"));
            match *argument {
                "--replays" => options.replays = parse_replays(value()?)?,
                "--list" => options.list = true,
                "--keep" => options.keep = true,
                "--retake" => options.retake = Some(PathBuf::from(value()?)),
                name if !name.starts_with('-') => options.names.push(name.to_owned()),
                _ => return Err(format!("no such option: {argument}\nusage: {USAGE}").into()),
            }
        }
        Ok(options)
    }
}

fn parse_replays(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(replays @ 1..=MOST_REPLAYS) => Ok(replays),
        _ => Err(format!("--replays needs a number from 1 to {MOST_REPLAYS}, not {text}").into()),
    }
}

/// What came of one program.
#[derive(Debug, Default)]
struct Outcome {
    native: Option<Duration>,
    recorded: Option<Duration>,
    replayed: Option<Duration>,
    good_replays: usize,
    /// What went wrong first; empty if nothing did.
    trouble: String,
}

/// Runs the command. True if all programs that are installed were recorded and replayed.
///
/// # Errors
/// A mistake in the command line or in a file of the corpus, and failures of the harness.
pub fn run(repository: &Path, arguments: &[&str]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let repository = repository.canonicalize()?;
    let folder = repository.join("tests/corpus");
    let programs = select(program::read_all(&folder)?, &options.names)?;
    if options.list {
        for program in &programs {
            println!("{:<14} {}", program.name, program.title);
        }
        return Ok(true);
    }
    let retake = match &options.retake {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => build(&repository)?,
    };
    let scratch = repository.join("target/corpus-scratch");
    println!("{:<14} {:>8} {:>8} {:>8}  {:>9}  result", "program", "native", "record", "replay", "replays");
    let mut good = true;
    for program in &programs {
        let lacking = program.lacking();
        if !lacking.is_empty() {
            println!("{:<14} skipped: no {}; try: apt-get install {}", program.name, lacking.join(", "), program.packages);
            continue;
        }
        let place = Place { retake: retake.clone(), work: scratch.join(&program.name), programs: folder.join("programs") };
        let outcome = check(program, &place, options.replays)?;
        println!("{}", line(program, &outcome, options.replays));
        good &= outcome.trouble.is_empty();
        if !options.keep && outcome.trouble.is_empty() {
            let _ = fs::remove_dir_all(&place.work);
        }
    }
    Ok(good)
}

fn select(programs: Vec<Program>, names: &[String]) -> Result<Vec<Program>> {
    for name in names {
        if !programs.iter().any(|program| program.name == *name) {
            return Err(format!("no program {name} in the corpus; --list names them").into());
        }
    }
    Ok(programs.into_iter().filter(|program| names.is_empty() || names.contains(&program.name)).collect())
}

fn build(repository: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--release", "--quiet", "--package", "retake"]).current_dir(repository).status()?;
    if !status.success() {
        return Err("retake does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(repository.join(target).join("release/retake"))
}

/// Natively, recorded, and replayed until one replay fails.
fn check(program: &Program, place: &Place, replays: usize) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    if place.work.exists() {
        fs::remove_dir_all(&place.work)?;
    }
    fs::create_dir_all(&place.work)?;
    if let Err(trouble) = steps(program, place, replays, &mut outcome) {
        outcome.trouble = trouble.to_string();
    }
    Ok(outcome)
}

fn steps(program: &Program, place: &Place, replays: usize, outcome: &mut Outcome) -> Result<()> {
    place.script("prepare", &program.prepare, program.limit)?;
    let native = Run::native(program, place)?;
    outcome.native = Some(native.time);
    place.script("reset", &program.reset, program.limit)?;
    let recorded = Run::recorded(program, place)?;
    outcome.recorded = Some(recorded.time);
    if recorded.status != native.status {
        return Err(format!("recorded it ends with {}, natively with {}", recorded.status, native.status).into());
    }
    for _ in 0..replays {
        let replayed = Run::replayed(program, place)?;
        outcome.replayed.get_or_insert(replayed.time);
        recorded.compare(&replayed)?;
        outcome.good_replays += 1;
    }
    Ok(())
}

fn line(program: &Program, outcome: &Outcome, replays: usize) -> String {
    let seconds = |time: Option<Duration>| time.map_or("-".to_owned(), |time| format!("{:.2}s", time.as_secs_f64()));
    let ratio = match (outcome.native, outcome.recorded) {
        (Some(native), Some(recorded)) => format!("{:.2}x", recorded.as_secs_f64() / native.as_secs_f64().max(0.001)),
        _ => "-".to_owned(),
    };
    let result = if outcome.trouble.is_empty() { "ok" } else { &outcome.trouble };
    format!(
        "{:<14} {:>8} {:>8} {:>8}  {:>9}  {ratio} {result}",
        program.name,
        seconds(outcome.native),
        seconds(outcome.recorded),
        seconds(outcome.replayed),
        format!("{}/{replays}", outcome.good_replays)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["redis", "--replays", "20", "nginx"]).unwrap();
        assert_eq!((options.names, options.replays), (vec!["redis".to_owned(), "nginx".to_owned()], 20));
        for wrong in [&["--replays", "0"][..], &["--fast"], &["--retake"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_file_of_the_corpus_is_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus");
        assert!(program::read_all(&folder).unwrap().len() > 10);
    }
}
