//! One program of `cargo xtask debugger`: records it, and runs gdb on the recording with the steps
//! of `tests/debugger/tour.py`.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use super::trial::{Trial, last_line};
use crate::bench::Result;
use crate::bench::process::describe;

/// The time limit of a tour. `SEEK_LIMIT` is added for each seek.
const TOUR_LIMIT: Duration = Duration::from_secs(600);
const SEEK_LIMIT: Duration = Duration::from_secs(2);
/// The interval of kept checkpoints, in seconds.
const KEPT_EVERY: &str = "0.2";
/// The most seeks from kept checkpoints. Their mistakes show soon.
const MOST_KEPT_SEEKS: usize = 60;
/// The most troubles that are shown. Further ones are of the same kind.
const MOST_TROUBLES: usize = 8;

/// The result of a program.
#[derive(Debug, Default)]
pub struct Report {
    recorded: Duration,
    toured: Duration,
    checks: String,
    seeks: String,
    slowest: String,
    /// Troubles, for people. Empty if everything was right.
    troubles: Vec<String>,
}

/// The output of a tour.
#[derive(Debug, Default, PartialEq)]
struct Told {
    facts: Vec<String>,
    wrong: Vec<String>,
    checks: String,
    seeks: String,
    slowest: String,
}

/// Records the program, and runs the tour with gdb: in the recording, and in the program itself if
/// that behaves the same each time.
///
/// # Errors
/// The folder cannot be used. Mistakes of the program or of retake are in the report.
pub fn run(trial: &Trial<'_>, script: &Path, seeks: usize) -> Result<Report> {
    let mut report = Report::default();
    if let Err(trouble) = steps(trial, script, seeks, &mut report) {
        report.troubles.push(trouble.to_string());
    }
    Ok(report)
}

fn steps(trial: &Trial<'_>, script: &Path, seeks: usize, report: &mut Report) -> Result<()> {
    let (program, place) = (trial.program, trial.place);
    report.recorded = trial.prepare_and_record()?;
    fs::write(place.path("tour"), &program.tour)?;
    let script = script.to_str().ok_or("the path of the repository is no text")?;
    let start = Instant::now();
    let mut command = place.command(&place.retake, 0);
    command
        .args(["debug", "--at", "begin"])
        .arg(place.path("recording"))
        .args(["--", "-nx", "-batch", "-x", script]);
    command.env("RETAKE_SEEKS", seeks.to_string()).env("RETAKE_STATES", place.path("states"));
    let told =
        tour(trial, "tour-recording", command, TOUR_LIMIT + SEEK_LIMIT * u32::try_from(seeks)?)?;
    report.toured = start.elapsed();
    report.troubles.clone_from(&told.wrong);
    if !program.live.is_empty() {
        let mut command = place.command("gdb", 0);
        command
            .args(["-nx", "-batch", "-x", script, "--args"])
            .args(program.live.split_whitespace())
            .env("RETAKE_LIVE", "1");
        let live = tour(trial, "tour-live", command, TOUR_LIMIT)?;
        report.troubles.extend(live.wrong.iter().map(|wrong| format!("without Retake: {wrong}")));
        report.troubles.extend(difference(&told.facts, &live.facts));
    }
    if seeks > 0 {
        report.troubles.extend(from_kept(trial, script, seeks)?);
    }
    (report.checks, report.seeks, report.slowest) = (told.checks, told.seeks, told.slowest);
    Ok(())
}

/// Goes to the same places in another session, which begins at a kept checkpoint. Returns what is
/// wrong there. Empty if no checkpoint can be kept.
fn from_kept(trial: &Trial<'_>, script: &str, seeks: usize) -> Result<Vec<String>> {
    let place = trial.place;
    let mut command = place.command(&place.retake, 0);
    command.arg("checkpoint").arg(place.path("recording")).args(["--every", KEPT_EVERY]);
    let kept = place.start("checkpoint", command)?.wait(TOUR_LIMIT);
    let printed = fs::read_to_string(place.path("checkpoint.out"))?;
    let kept =
        kept.ok_or_else(|| format!("to keep checkpoints takes longer than {TOUR_LIMIT:?}"))?;
    if !kept.success() {
        let errors = fs::read(place.path("checkpoint.err"))?;
        return Err(format!(
            "to keep checkpoints ends with {}: {}",
            describe(kept),
            last_line(&errors)
        )
        .into());
    }
    if printed.is_empty() {
        return Ok(Vec::new());
    }
    fs::write(place.path("tour"), "")?;
    let mut command = place.command(&place.retake, 0);
    command
        .args(["debug", "--at", "exit"])
        .arg(place.path("recording"))
        .args(["--", "-nx", "-batch", "-x", script]);
    command
        .env("RETAKE_SEEKS", seeks.min(MOST_KEPT_SEEKS).to_string())
        .env("RETAKE_STATES", place.path("states"));
    let told = tour(trial, "tour-kept", command, TOUR_LIMIT + SEEK_LIMIT * u32::try_from(seeks)?)?;
    let errors = fs::read_to_string(place.path("tour-kept.err"))?;
    let not_begun = (!errors.contains("begins at checkpoint"))
        .then(|| format!("no kept checkpoint was of use: {}", errors.trim()));
    Ok(told
        .wrong
        .iter()
        .map(|wrong| format!("from a kept checkpoint: {wrong}"))
        .chain(not_begun)
        .collect())
}

fn tour(trial: &Trial<'_>, what: &str, mut command: Command, limit: Duration) -> Result<Told> {
    let place = trial.place;
    command.env("RETAKE_TOUR", place.path("tour"));
    let ended = place.start(what, command)?.wait(limit);
    let told = Told::read(&String::from_utf8_lossy(&fs::read(place.path(&format!("{what}.out")))?));
    let status = ended.ok_or_else(|| format!("{what} takes longer than {limit:?}"))?;
    told.ended(status).map_err(|trouble| {
        format!("{what} {trouble}: see {}", place.path(&format!("{what}.err")).display()).into()
    })
}

/// Returns the first fact that differs.
fn difference(recorded: &[String], live: &[String]) -> Option<String> {
    let index = (0..recorded.len().max(live.len()))
        .find(|&index| recorded.get(index) != live.get(index))?;
    let fact =
        |facts: &[String]| facts.get(index).map_or("nothing more", String::as_str).to_owned();
    Some(format!("in the recording: {}; without Retake: {}", fact(recorded), fact(live)))
}

impl Told {
    /// Adds how the debugger ended. A bad end is a trouble, even if all facts were right.
    ///
    /// # Errors
    /// The tour did not reach its end.
    fn ended(mut self, status: ExitStatus) -> std::result::Result<Self, String> {
        let how = describe(status);
        if self.checks.is_empty() {
            return Err(format!("breaks off with {how}"));
        }
        if !status.success() {
            self.wrong.push(format!("the debugger ends with {how}"));
        }
        Ok(self)
    }

    fn read(output: &str) -> Self {
        let mut told = Self::default();
        for line in output.lines().filter_map(|line| line.strip_prefix("tour: ")) {
            let (kind, text) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "fact" => told.facts.push(text.to_owned()),
                "wrong" => told.wrong.push(text.to_owned()),
                "checks" => text.clone_into(&mut told.checks),
                "seeks" => text.clone_into(&mut told.seeks),
                "slowest" => text.clone_into(&mut told.slowest),
                _ => {}
            }
        }
        told
    }
}

/// Returns the first line of the table.
pub fn heading() -> String {
    format!(
        "{:<16} {:>8} {:>8} {:>6}  {:<36} {:<34} result",
        "program", "record", "tour", "checks", "seeks", "slowest, s"
    )
}

impl Report {
    pub fn is_good(&self) -> bool {
        self.troubles.is_empty()
    }

    /// Returns the line of a program.
    pub fn line(&self, name: &str) -> String {
        let seconds = |time: Duration| format!("{:.2}s", time.as_secs_f64());
        let troubles = self.troubles.len();
        let result = if self.is_good() {
            "ok".to_owned()
        } else {
            format!(
                "{troubles} wrong\n    {}",
                self.troubles[..troubles.min(MOST_TROUBLES)].join("\n    ")
            )
        };
        let (recorded, toured) = (seconds(self.recorded), seconds(self.toured));
        format!(
            "{name:<16} {recorded:>8} {toured:>8} {:>6}  {:<36} {:<34} {result}",
            self.checks, self.seeks, self.slowest
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_a_tour_tells_is_read() {
        let told = Told::read(
            "noise\ntour: fact next main:3 a = 1\n\ntour: wrong all\ntour: checks 7\ntour: seeks\n",
        );
        let expected = Told {
            facts: vec!["next main:3 a = 1".to_owned()],
            wrong: vec!["all".to_owned()],
            checks: "7".to_owned(),
            ..Told::default()
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn how_a_tour_ends_counts() {
        let told = || Told { checks: "7".to_owned(), ..Told::default() };
        assert_eq!(told().ended(ExitStatus::from_raw(0)), Ok(told()));
        let wrong = |raw| told().ended(ExitStatus::from_raw(raw)).unwrap().wrong;
        assert_eq!(wrong(3 << 8), ["the debugger ends with status 3"]);
        assert_eq!(wrong(11), ["the debugger ends with signal 11"]);
        let broken_off = Told::default().ended(ExitStatus::from_raw(0));
        assert_eq!(broken_off, Err("breaks off with status 0".to_owned()));
    }

    #[test]
    fn the_first_difference_is_told() {
        let facts = |all: &[&str]| all.iter().map(|&fact| fact.to_owned()).collect::<Vec<_>>();
        assert_eq!(difference(&facts(&["a", "b"]), &facts(&["a", "b"])), None);
        assert_eq!(
            difference(&facts(&["a"]), &facts(&["a", "b"])).unwrap(),
            "in the recording: nothing more; without Retake: b"
        );
    }
}
