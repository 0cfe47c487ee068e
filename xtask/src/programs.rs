//! `cargo xtask real`, `corpus` and `debugger`: record programs as they are, and replay or debug what was recorded. docs/REAL_PROGRAMS.md and
//! docs/DEBUG.md tell more.

mod debugged;
mod options;
mod place;
mod program;
mod trial;

use std::path::Path;
use std::time::Duration;

use crate::bench::Result;
use crate::bench::scratch::Scratch;
use options::Options;
use program::Program;
use trial::{Report, Trial};

pub use options::OPTIONS;

/// Programs that belong together: a folder with a file for each, and what holds for them unless their file says something else.
#[derive(Debug)]
pub struct List {
    /// The command that runs them.
    pub name: &'static str,
    folder: &'static str,
    /// What is noted for comparison, as `retake record --check` calls it.
    check: &'static str,
    /// Natively and recorded they print the same.
    same_output: bool,
    /// No run takes longer.
    limit: Duration,
}

/// Programs as people start them, mostly with one thread; everything is compared.
pub const REAL: List = List { name: "real", folder: "tests/real", check: "full", same_output: true, limit: Duration::from_secs(60) };
/// Programs with threads and servers under load, recorded as cheaply as they are by default.
pub const CORPUS: List = List { name: "corpus", folder: "tests/corpus", check: "sampled", same_output: false, limit: Duration::from_secs(90) };

/// Programs of all kinds, gone about in with a debugger.
pub const DEBUGGER: List = List { name: "debugger", folder: "tests/debugger", check: "sampled", same_output: false, limit: Duration::from_secs(120) };

impl List {
    /// The list with this name.
    pub fn named(name: &str) -> Option<Self> {
        [REAL, CORPUS, DEBUGGER].into_iter().find(|list| list.name == name)
    }

    /// Recordings are debugged, not only replayed.
    fn is_debugged(&self) -> bool {
        self.name == DEBUGGER.name
    }
}

/// Runs programs of `list` and prints a table. True if all that are installed did as they should.
///
/// # Errors
/// A mistake in the command line or in a program's file, and failures of the harness. A program that fails is a result, not an error.
pub fn run(list: &List, repository: &Path, arguments: &[&str]) -> Result<bool> {
    let options = Options::parse(list, arguments)?;
    let repository = repository.canonicalize()?;
    let folder = repository.join(list.folder);
    let programs = select(list, program::read_all(list, &folder)?, &options.names)?;
    if options.list {
        for program in &programs {
            println!("{:<16} {}", program.name, program.title);
        }
        return Ok(true);
    }
    let retake = crate::bench::retake(&repository, options.retake.as_deref())?;
    let mut scratch = Scratch::create(&options.scratch, options.keep)?;
    println!("{}", if list.is_debugged() { debugged::heading() } else { heading() });
    let mut all_good = true;
    for program in &programs {
        let lacking = program.lacking();
        if !lacking.is_empty() {
            println!("{:<16} skipped: no {}; try: apt-get install -y {}", program.name, lacking.join(", "), program.packages);
            continue;
        }
        let place = place::Place::new(retake.clone(), scratch.path().join(&program.name), folder.join("programs"));
        let trial = Trial { list, program, place: &place, replays: options.replays };
        let good = if list.is_debugged() {
            let report = debugged::run(&trial, &folder.join("tour.py"), options.seeks)?;
            println!("{}", report.line(&program.name));
            report.is_good()
        } else {
            let report = trial.run()?;
            println!("{}", line(program, &report, options.replays));
            report.troubles.is_empty()
        };
        all_good &= good;
        if good && !options.keep {
            std::fs::remove_dir_all(&place.folder)?;
        } else {
            scratch.keep();
            println!("{:<16} is left in {}", "", place.folder.display());
        }
    }
    Ok(all_good)
}

fn select(list: &List, programs: Vec<Program>, names: &[String]) -> Result<Vec<Program>> {
    if let Some(unknown) = names.iter().find(|name| !programs.iter().any(|program| program.name == **name)) {
        return Err(format!("no program {unknown} in {}; --list names them", list.folder).into());
    }
    Ok(programs.into_iter().filter(|program| names.is_empty() || names.contains(&program.name)).collect())
}

fn heading() -> String {
    format!("{:<16} {:>8} {:>8} {:>8} {:>9}  ratio result", "program", "native", "record", "replay", "replays")
}

fn line(program: &Program, report: &Report, replays: usize) -> String {
    let seconds = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| format!("{:.2}s", time.as_secs_f64()));
    let ratio = match (report.native, report.recorded) {
        (Some(native), Some(recorded)) => format!("{:.2}x", recorded.as_secs_f64() / native.as_secs_f64().max(0.001)),
        _ => "-".to_owned(),
    };
    let result = if report.troubles.is_empty() { "ok".to_owned() } else { report.troubles.join("\n    ") };
    format!(
        "{:<16} {:>8} {:>8} {:>8} {:>9}  {ratio} {result}",
        program.name,
        seconds(report.native),
        seconds(report.recorded),
        seconds(report.replayed),
        format!("{}/{replays}", report.good_replays)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_this_repository_is_valid() {
        for (list, least) in [(REAL, 20), (CORPUS, 20), (DEBUGGER, 13)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(list.folder);
            assert!(program::read_all(&list, &folder).unwrap().len() >= least, "{}", list.name);
        }
    }
}
