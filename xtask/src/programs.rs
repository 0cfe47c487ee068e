//! `cargo xtask real`, `corpus` and `debugger`: record ordinary programs, and replay or debug the
//! recordings. See docs/REAL_PROGRAMS.md and docs/DEBUG.md.

mod debugged;
mod options;
mod place;
mod program;
mod trial;

use std::path::Path;
use std::time::Duration;

use crate::bench::Result;
use crate::bench::scratch::Scratch;
use crate::selection;
use options::Options;
pub use options::{Debugging, Replaying};
use program::Program;
use trial::{Report, Trial};

/// A list of programs: a folder with a file for each, and defaults for their files.
#[derive(Debug)]
pub struct List {
    /// The command that runs them.
    pub name: &'static str,
    folder: &'static str,
    /// The value of `retake record --check`.
    check: &'static str,
    /// Whether they print the same natively and recorded.
    same_output: bool,
    /// The time limit of a run.
    limit: Duration,
}

/// Ordinary programs, mostly with one thread. Everything is compared.
pub const REAL: List = List {
    name: "real",
    folder: "tests/real",
    check: "full",
    same_output: true,
    limit: Duration::from_secs(60),
};
/// Programs with threads, and servers under load. They are recorded with the cheap default check.
pub const CORPUS: List = List {
    name: "corpus",
    folder: "tests/corpus",
    check: "sampled",
    same_output: false,
    limit: Duration::from_secs(90),
};

/// Programs of all kinds, for the debugger.
pub const DEBUGGER: List = List {
    name: "debugger",
    folder: "tests/debugger",
    check: "sampled",
    same_output: false,
    limit: Duration::from_secs(120),
};

/// A line of the table, and whether the program passed.
type Row = (String, bool);

/// The results of the programs of a list.
#[derive(Debug, Default)]
struct Tally {
    good: usize,
    bad: usize,
    skipped: Vec<String>,
}

/// Records and replays programs of `list`. True if at least one ran, all that ran passed, and all
/// programs asked for by name ran.
///
/// # Errors
/// An unknown name, a mistake in a program's file, and failures of the harness. The failure of a
/// program is a result, not an error.
pub fn replay(list: &List, repository: &Path, options: &Replaying) -> Result<bool> {
    let replays = options.replays;
    run(list, repository, &options.options, &heading(), |trial| {
        let report = trial.run(replays)?;
        Ok((line(trial.program, &report, replays), report.troubles.is_empty()))
    })
}

/// Records programs of [`DEBUGGER`] and debugs the recordings. The result is as for [`replay`].
///
/// # Errors
/// See [`replay`].
pub fn debug(repository: &Path, options: &Debugging) -> Result<bool> {
    let tour = repository.canonicalize()?.join(DEBUGGER.folder).join("tour.py");
    run(&DEBUGGER, repository, &options.options, &debugged::heading(), |trial| {
        let report = debugged::run(trial, &tour, options.seeks)?;
        Ok((report.line(&trial.program.name), report.is_good()))
    })
}

/// Runs programs of `list` with `one`, and prints a table.
fn run<F>(list: &List, repository: &Path, options: &Options, heading: &str, one: F) -> Result<bool>
where
    F: Fn(&Trial<'_>) -> Result<Row>,
{
    let repository = repository.canonicalize()?;
    let folder = repository.join(list.folder);
    let programs = select(program::read_all(list, &folder)?, &options.names())?;
    if options.list {
        for program in &programs {
            println!("{:<16} {}", program.name, program.title);
        }
        return Ok(true);
    }
    let retake = crate::bench::retake(&repository, options.retake.as_deref())?;
    let mut scratch = Scratch::create(&options.scratch(list), options.keep)?;
    println!("{heading}");
    let mut tally = Tally::default();
    for program in &programs {
        let lacking = program.lacking();
        if !lacking.is_empty() {
            println!(
                "{:<16} skipped: no {}; try: apt-get install -y {}",
                program.name,
                lacking.join(", "),
                program.packages
            );
            tally.skipped.push(program.name.clone());
            continue;
        }
        let place = place::Place::new(
            retake.clone(),
            scratch.path().join(&program.name),
            folder.join("programs"),
        );
        let (line, good) = one(&Trial { list, program, place: &place })?;
        println!("{line}");
        *if good { &mut tally.good } else { &mut tally.bad } += 1;
        if good && !options.keep {
            std::fs::remove_dir_all(&place.folder)?;
        } else {
            scratch.keep();
            println!("{:<16} is left in {}", "", place.folder.display());
        }
    }
    println!("{} good, {} bad, {} skipped", tally.good, tally.bad, tally.skipped.len());
    let trouble = tally.trouble(!options.names().is_empty());
    trouble.iter().for_each(|trouble| eprintln!("error: {trouble}"));
    Ok(trouble.is_none() && tally.bad == 0)
}

impl Tally {
    /// Returns why the run fails although no program failed. Programs asked for by name must run.
    fn trouble(&self, are_named: bool) -> Option<String> {
        if self.good + self.bad == 0 {
            return Some("no program ran".to_owned());
        }
        let lacks_named = are_named && !self.skipped.is_empty();
        lacks_named.then(|| format!("asked for, but skipped: {}", self.skipped.join(", ")))
    }
}

fn select(mut programs: Vec<Program>, wanted: &[String]) -> Result<Vec<Program>> {
    let known: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    selection::check("program", wanted, &known)?;
    programs.retain(|program| selection::wants(wanted, &program.name));
    Ok(programs)
}

fn heading() -> String {
    format!(
        "{:<16} {:>8} {:>8} {:>8} {:>9}  ratio result",
        "program", "native", "record", "replay", "replays"
    )
}

fn line(program: &Program, report: &Report, replays: usize) -> String {
    let seconds = |time: Option<Duration>| {
        time.map_or_else(|| "-".to_owned(), |time| format!("{:.2}s", time.as_secs_f64()))
    };
    let ratio = match (report.native, report.recorded) {
        (Some(native), Some(recorded)) => {
            format!("{:.2}x", recorded.as_secs_f64() / native.as_secs_f64().max(0.001))
        }
        _ => "-".to_owned(),
    };
    let result = match report.untried {
        _ if !report.troubles.is_empty() => report.troubles.join("\n    "),
        Some(untried) => format!("ok, but not tried: {untried}"),
        None => "ok".to_owned(),
    };
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
    fn a_list_of_which_nothing_ran_is_not_good() {
        let tally = |good, bad, skipped: &[&str]| {
            let skipped = skipped.iter().map(|&name| name.to_owned()).collect();
            Tally { good, bad, skipped }
        };
        for nothing in [tally(0, 0, &[]), tally(0, 0, &["vim"])] {
            assert_eq!(nothing.trouble(false), Some("no program ran".to_owned()));
        }
        assert_eq!(tally(1, 0, &["vim"]).trouble(false), None);
        let expected = Some("asked for, but skipped: vim, git".to_owned());
        assert_eq!(tally(1, 1, &["vim", "git"]).trouble(true), expected);
        assert_eq!(tally(1, 0, &[]).trouble(true), None);
    }

    #[test]
    fn what_was_not_tried_is_told() {
        let programs =
            program::read_all(&REAL, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/real"))
                .unwrap();
        let result = |report: &Report| {
            line(&programs[0], report, 3).split("  ").last().unwrap().trim().to_owned()
        };
        assert_eq!(result(&Report::default()), "- ok");
        let untried = Report { untried: Some("no network"), ..Report::default() };
        assert_eq!(result(&untried), "- ok, but not tried: no network");
        let bad = Report { troubles: vec!["it crashes".to_owned()], ..untried };
        assert_eq!(result(&bad), "- it crashes");
    }

    #[test]
    fn every_file_of_this_repository_is_valid() {
        for (list, least) in [(REAL, 20), (CORPUS, 20), (DEBUGGER, 13)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(list.folder);
            assert!(program::read_all(&list, &folder).unwrap().len() >= least, "{}", list.name);
        }
    }
}
