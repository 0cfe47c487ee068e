//! `cargo xtask bench --tracing`: what it costs to trace a program with all its data, by each
//! method, and to run its trace again. A program's own time counts; what `retake trace` does once
//! it has ended is a column of its own.

use std::fs;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Result;
use super::attach::{self, Attached};
use super::gate::{self, Finding};
use super::machine::Machine;
use super::measure::{Bench, Outcome};
use super::statistics::Series;
use super::stopwatch::Stopwatch;
use super::table::{NOTHING, Table, number};
use super::tracing_loads::{LOADS, Load};
use super::workload::Workload;

/// Says what a command took: seconds, user and system time. Traced with it, for it must see the
/// program's end and nothing else.
const TIMED: &str = "#!/bin/bash\nout=$1\nshift\nTIMEFORMAT='%R %U \
%S'\n{ time \"$@\" > output 2> errors || touch failed; } 2> \"$out\"\n";

/// Ways to run a load, in the order in which a round takes them.
const WAYS: [(&str, &[&str]); 5] = [
    ("native", &[]),
    ("in-process", &["RETAKE", "trace", "--method", "in-process", "-o", "x.ds", "--"]),
    ("ebpf", &["RETAKE", "trace", "--method", "ebpf", "-o", "ebpf.ds", "--"]),
    ("ptrace", &["RETAKE", "trace", "--method", "ptrace", "-o", "ptrace.ds", "--"]),
    ("strace", &["strace", "-f", "-xx", "-s", "65536", "-o", "strace.txt"]),
];

/// The figures of one way: the program's own seconds, and its user and system time.
#[derive(Debug, Default)]
struct Figures {
    seconds: Series,
    user: Series,
    system: Series,
}

impl Figures {
    /// Takes what [`TIMED`] wrote.
    fn push(&mut self, said: &str) -> Result<f64> {
        let words: Vec<f64> =
            said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [seconds, user, system] = words[..] else {
            return Err(format!("not three times: {said}").into());
        };
        self.add([seconds, user, system]);
        Ok(seconds)
    }

    fn add(&mut self, [seconds, user, system]: [f64; 3]) {
        self.seconds.push(seconds);
        self.user.push(user);
        self.system.push(system);
    }

    fn processor_seconds(&self) -> Option<f64> {
        Some(self.user.median()? + self.system.median()?)
    }
}

/// All figures of a load.
struct Point {
    load: &'static Load,
    ways: [Figures; WAYS.len()],
    /// Seconds and user time of running the trace again, verifying everything.
    again: Figures,
    /// Its user time with what it takes to make what the program had found.
    whole_again: Series,
    /// MB of trace a second, once the program has ended, and the most memory of `retake`.
    conversion: Series,
    peak_kb: u64,
    outcome: Outcome,
    /// Ways for which there are no figures.
    lacking: Vec<&'static str>,
}

/// A way that cannot be measured here, and why.
type Lacking = (&'static str, String);

/// All results.
pub struct Tracing {
    machine: Machine,
    rounds: usize,
    lacking: Vec<Lacking>,
    points: Vec<Point>,
    attached: Vec<Attached>,
}

/// The names of what is traced, with their titles: programs, and servers among the workloads.
pub fn names(workloads: &[Workload]) -> impl Iterator<Item = (&str, &str)> {
    let servers = attach::servers(workloads).map(Workload::name_and_title);
    LOADS.iter().map(|load| (load.name, load.title)).chain(servers)
}

/// Measures what is noisy up to `most` times.
///
/// # Errors
/// Failures of the harness; a load that fails is told.
pub fn run(
    bench: &Bench,
    rounds: usize,
    most: usize,
    wants: impl Fn(&str) -> bool,
) -> Result<Tracing> {
    let machine = Machine::look();
    machine.warn();
    let lacking = lacking(bench);
    let mut points = Vec::new();
    for load in LOADS.iter().filter(|load| wants(load.name)) {
        println!("{} ...", load.title);
        points.push(gate::until_quiet(most, Point::is_noisy, || {
            let mut point = Point::new(load, &lacking);
            let skipped = Outcome::without(load.requires);
            point.outcome =
                skipped.unwrap_or_else(|| Outcome::of(measure(bench, &mut point, rounds)));
            Ok(point)
        })?);
    }
    let reason = lacking.iter().find(|(way, _)| *way == "ebpf").map(|(_, reason)| reason.as_str());
    let attached = attach::run(bench, rounds, most, reason, &wants)?;
    Ok(Tracing { machine, rounds, lacking, points, attached })
}

/// What cannot be measured: strace where it is not installed, and tracing from the kernel where
/// that is not possible or not allowed. Where it once works it must always.
fn lacking(bench: &Bench) -> Vec<Lacking> {
    let stopwatch = Stopwatch::new(bench, bench.scratch().path());
    let retake = bench.retake().display().to_string();
    let trial = ["trace", "--method", "ebpf", "-o", "trial.ds", "--", "true"].map(str::to_owned);
    let from_kernel = stopwatch.run(&[&[retake], &trial[..]].concat());
    let strace = (!bench.has_strace()).then(|| ("strace", "strace is not there".to_owned()));
    let ebpf = from_kernel.err().map(|error| ("ebpf", error.to_string()));
    strace.into_iter().chain(ebpf).collect()
}

fn measure(bench: &Bench, point: &mut Point, rounds: usize) -> Result<()> {
    let folder = bench.scratch().path().join(point.load.name);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("timed"), TIMED)?;
    let stopwatch = Stopwatch::new(bench, &folder);
    let programs = bench.repository().join("benches/programs");
    stopwatch
        .run(&shell(&point.load.prepare.replace("$PROGRAMS", &programs.display().to_string())))?;
    for round in 0..=rounds {
        // The first one fills the page cache and the store.
        let mut unused = Point { lacking: point.lacking.clone(), ..Point::new(point.load, &[]) };
        let point = if round == 0 { &mut unused } else { &mut *point };
        for (way, (name, _)) in WAYS.iter().enumerate() {
            if !point.lacking.contains(name) {
                one_way(&stopwatch, point, way)
                    .map_err(|error| format!("{name} fails: {error}"))?;
            }
        }
        run_again(&stopwatch, point)?;
    }
    if !bench.scratch().keeps() {
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

fn shell(script: &str) -> Vec<String> {
    ["bash", "-c", script].map(str::to_owned).to_vec()
}

/// Quoted for the command line of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn one_way(stopwatch: &Stopwatch<'_>, point: &mut Point, way: usize) -> Result<()> {
    let retake = stopwatch.bench().retake().display().to_string();
    let prefix: Vec<String> = WAYS[way]
        .1
        .iter()
        .map(|word| if *word == "RETAKE" { retake.clone() } else { (*word).to_owned() })
        .collect();
    // Made by the shell that is traced, so that a trace is all there is to its tree.
    let script =
        format!("cd made && exec bash ../timed ../times bash -c {}", quoted(point.load.command));
    stopwatch.run(&shell("rm -rf made x.ds ebpf.ds ptrace.ds strace.txt; mkdir made"))?;
    stopwatch.bench().scratch().settle();
    let start = Instant::now();
    let ran = stopwatch.run(&[prefix, shell(&script)].concat())?;
    let whole = start.elapsed().as_secs_f64();
    let folder = stopwatch.folder();
    if folder.join("made/failed").exists() {
        return Err("the program failed".into());
    }
    let own = point.ways[way].push(&fs::read_to_string(folder.join("times"))?)?;
    if WAYS[way].0 == "in-process" {
        point.peak_kb = point.peak_kb.max(ran.peak_kb);
        let bytes = fs::metadata(folder.join("x.ds"))?.len();
        point.conversion.push(bytes as f64 / 1e6 / (whole - own).max(1e-3));
        fs::rename(folder.join("x.ds"), folder.join("kept.ds"))?;
    }
    Ok(())
}

/// Runs the trace again that was made in-process.
fn run_again(stopwatch: &Stopwatch<'_>, point: &mut Point) -> Result<()> {
    let retake = quoted(&stopwatch.bench().retake().display().to_string());
    stopwatch.run(&shell("rm -rf fresh made; mkdir made"))?;
    stopwatch.bench().scratch().settle();
    stopwatch.run(&shell(&format!(
        "cd made && exec bash ../timed ../times {retake} reanimate \
        ../kept.ds --root ../fresh --json; test ! -e failed"
    )))?;
    let said = fs::read_to_string(stopwatch.folder().join("made/output"))?;
    let times = fs::read_to_string(stopwatch.folder().join("times"))?;
    point.whole_again.push(times.split_whitespace().nth(1).unwrap_or_default().parse()?);
    // Not what it takes to make what the trace has found: that was there before.
    let report: Reanimated = serde_json::from_str(&said)?;
    point.again.add([report.replay_seconds, report.replay_user_seconds, 0.0]);
    Ok(())
}

/// What matters here of the report of `retake reanimate --json`.
#[derive(Debug, Deserialize)]
struct Reanimated {
    replay_seconds: f64,
    replay_user_seconds: f64,
}

impl Point {
    fn new(load: &'static Load, lacking: &[Lacking]) -> Self {
        Self {
            load,
            ways: Default::default(),
            again: Figures::default(),
            whole_again: Series::default(),
            conversion: Series::default(),
            peak_kb: 0,
            outcome: Outcome::Done,
            lacking: lacking.iter().map(|(way, _)| *way).collect(),
        }
    }

    fn is_noisy(&self) -> bool {
        self.outcome == Outcome::Done && self.ways[0].seconds.is_noisy()
    }

    fn ratio(&self, way: &str) -> Option<f64> {
        let native = &self.ways[0].seconds;
        Some(self.way(way).seconds.median()? / native.median()?)
    }

    fn processor_ratio(&self, way: &str) -> Option<f64> {
        Some(self.way(way).processor_seconds()? / self.ways[0].processor_seconds()?)
    }

    fn way(&self, name: &str) -> &Figures {
        let index = WAYS.iter().position(|(way, _)| *way == name);
        &self.ways[index.unwrap_or(0)]
    }

    /// How many times as fast as under strace it is by ptrace.
    fn beside_strace(&self) -> Option<f64> {
        Some(self.way("strace").seconds.median()? / self.way("ptrace").seconds.median()?)
    }

    /// Ways that have a limit and are measured here.
    fn limited(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let kernel = self.load.kernel_limit.filter(|_| !self.lacking.contains(&"ebpf"));
        std::iter::once(("in-process", self.load.in_process_limit))
            .chain(kernel.map(|limit| ("ebpf", limit)))
    }

    /// The ways that exceed their limits.
    fn exceeded(&self) -> Vec<&'static str> {
        let is_over =
            |(way, limit): &(&str, f64)| self.ratio(way).is_some_and(|ratio| ratio > *limit);
        self.limited().filter(is_over).map(|(way, _)| way).collect()
    }

    /// What came of it, for the gate.
    fn finding(&self) -> Finding {
        if let Some(finding) = self.outcome.finding() {
            return finding;
        }
        let exceeded = self.exceeded();
        let missing = WAYS
            .iter()
            .map(|(way, _)| *way)
            .find(|way| !self.lacking.contains(way) && self.ratio(way).is_none());
        match missing {
            Some(way) => Finding::Failed(format!("no figure of {way}")),
            None if self.is_noisy() => Finding::Noisy,
            None if !exceeded.is_empty() => Finding::Over(exceeded.join(", ")),
            None => Finding::Good,
        }
    }

    fn cells(&self) -> Vec<String> {
        let limited = |ratio: Option<f64>, limit: Option<f64>| {
            let limit = limit
                .filter(|limit| limit.is_finite())
                .map_or(String::new(), |limit| format!(" (≤ {limit})"));
            format!("{}{limit}", number(ratio, 2))
        };
        let native = &self.ways[0];
        let again = self
            .again
            .seconds
            .median()
            .zip(native.seconds.median())
            .map(|(again, native)| again / native);
        let beside_system = |user: &Series| {
            user.median().zip(native.system.median()).map(|(user, system)| user / system.max(1e-3))
        };
        vec![
            self.load.title.to_owned(),
            number(native.seconds.median(), 3),
            native
                .seconds
                .spread()
                .map_or(NOTHING.to_owned(), |spread| format!("{:.0} %", spread * 100.0)),
            limited(self.ratio("in-process"), Some(self.load.in_process_limit)),
            number(self.processor_ratio("in-process"), 2),
            limited(self.ratio("ebpf"), self.load.kernel_limit),
            number(self.processor_ratio("ebpf"), 2),
            number(self.ratio("ptrace"), 1),
            number(self.beside_strace(), 1),
            number(self.conversion.median(), 0),
            number((self.peak_kb > 0).then_some(self.peak_kb as f64 * 1.024 / 1e3), 0),
            number(again, 2),
            number(beside_system(&self.again.user), 2),
            number(beside_system(&self.whole_again), 2),
        ]
    }
}

const HEADINGS: [&str; 14] = [
    "program",
    "native s",
    "spread",
    "in-process ×",
    "its CPU ×",
    "kernel ×",
    "its CPU ×",
    "ptrace ×",
    "strace / ptrace (≥ 3)",
    "conversion MB/s",
    "MB",
    "again × (≤ 1)",
    "again user / native system (≤ 1.5)",
    "with preparation",
];

impl Tracing {
    /// What came of each program and server, and of ways that cannot be measured, for the gate.
    pub fn findings(&self) -> Vec<gate::Row> {
        let lacking = self
            .lacking
            .iter()
            .map(|(way, reason)| (String::from(*way), Finding::Skipped(reason.clone())));
        let points = self.points.iter().map(|point| (point.load.name.to_owned(), point.finding()));
        points.chain(self.attached.iter().map(Attached::finding)).chain(lacking).collect()
    }

    fn text(&self, print: fn(&Table) -> String) -> String {
        let mut table = Table::new("", &HEADINGS);
        self.points.iter().for_each(|point| table.push(point.cells()));
        let mut text = format!(
            "{}. Medians of {} rounds.\n\n{}",
            self.machine.describe(),
            self.rounds,
            print(&table)
        );
        for point in &self.points {
            if let Some(trouble) = point.outcome.trouble() {
                text.push_str(&format!("\n{}: {trouble}\n", point.load.title));
            }
        }
        for (way, reason) in &self.lacking {
            text.push_str(&format!("\n{way}: skipped: {reason}\n"));
        }
        text + &attach::text(&self.attached, print)
    }

    pub fn terminal(&self) -> String {
        self.text(Table::terminal)
    }

    pub fn markdown(&self) -> String {
        self.text(Table::markdown)
    }

    /// All figures, for programs.
    pub fn json(&self) -> Value {
        let way = |(name, figures): (&str, &Figures)| {
            json!({
                "way": name,
                "seconds": figures.seconds,
                "user": figures.user,
                "system": figures.system,
            })
        };
        let point = |point: &Point| {
            let ways = WAYS
                .iter()
                .map(|(name, _)| *name)
                .zip(&point.ways)
                .chain([("again", &point.again)]);
            json!({
                "name": point.load.name,
                "ways": ways.map(way).collect::<Value>(),
                "whole_again_user": point.whole_again,
                "conversion": point.conversion,
            })
        };
        json!({
            "machine": self.machine.json(),
            "points": self.points.iter().map(point).collect::<Value>(),
            "attached": self.attached.iter().map(Attached::json).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let mut figures = Figures::default();
        assert_eq!(figures.push("1.5 0.25 0.5\n").unwrap(), 1.5);
        assert_eq!(figures.processor_seconds(), Some(0.75));
        assert!(figures.push("bash: no such file").is_err());
        let said = r#"{"calls": 3, "replay_seconds": 0.25, "x": 1, "replay_user_seconds": 2}"#;
        let report: Reanimated = serde_json::from_str(said).unwrap();
        assert_eq!((report.replay_seconds, report.replay_user_seconds), (0.25, 2.0));
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn ratios_are_to_the_native_runs() {
        let mut point = Point::new(&LOADS[0], &[]);
        assert_eq!((point.ratio("ebpf"), point.exceeded().is_empty()), (None, true));
        for (way, seconds) in [2.0, 3.2, 3.0, 8.0, 32.0].into_iter().enumerate() {
            point.ways[way].push(&format!("{seconds} 1 1")).unwrap();
        }
        assert_eq!(
            (point.ratio("ebpf"), point.beside_strace(), point.processor_ratio("ptrace")),
            (Some(1.5), Some(4.0), Some(1.0))
        );
        assert_eq!(point.exceeded(), ["in-process"]);
        assert_eq!(point.cells().len(), HEADINGS.len());
    }

    /// A point of one round with these seconds for each way; none for ways that lack.
    fn point(seconds: [f64; WAYS.len()], lacking: &[Lacking]) -> Point {
        let mut point = Point::new(&LOADS[0], lacking);
        for ((name, _), (figures, seconds)) in WAYS.iter().zip(point.ways.iter_mut().zip(seconds)) {
            if !point.lacking.contains(name) {
                figures.push(&format!("{seconds} 1 1")).unwrap();
            }
        }
        point
    }

    const GOOD: [f64; WAYS.len()] = [1.0, 1.1, 1.1, 9.0, 30.0];

    #[test]
    fn every_way_that_there_is_must_be_measured() {
        assert_eq!(point(GOOD, &[]).finding(), Finding::Good);
        assert_eq!(
            point([1.0, 1.1, 5.0, 9.0, 30.0], &[]).finding(),
            Finding::Over("ebpf".to_owned())
        );
        let no_ebpf = [("ebpf", "not allowed".to_owned())];
        assert_eq!(point([1.0, 1.1, 5.0, 9.0, 30.0], &no_ebpf).finding(), Finding::Good);
        // It was there when it was tried, so it failed.
        let mut failed = point(GOOD, &no_ebpf);
        failed.lacking.clear();
        assert_eq!(failed.finding(), Finding::Failed("no figure of ebpf".to_owned()));
        failed.outcome = Outcome::of(Err("ebpf fails: x".into()));
        assert_eq!(failed.finding(), Finding::Failed("ebpf fails: x".to_owned()));
        let mut noisy = point([1.0, 9.0, 9.0, 9.0, 9.0], &[]);
        noisy.ways[0].push("2 1 1").unwrap();
        assert_eq!(noisy.finding(), Finding::Noisy);
    }

    #[test]
    fn a_way_that_lacks_is_a_row_of_its_own() {
        let lacking = vec![("ebpf", "not allowed".to_owned())];
        let points = vec![point(GOOD, &lacking)];
        let tracing =
            Tracing { machine: Machine::look(), rounds: 1, lacking, points, attached: Vec::new() };
        let findings = tracing.findings();
        assert_eq!(findings[0], ("dd".to_owned(), Finding::Good));
        assert_eq!(findings[1], ("ebpf".to_owned(), Finding::Skipped("not allowed".to_owned())));
        assert_eq!(gate::complaints(&findings, &[]).len(), 1);
        assert!(gate::complaints(&findings, &["ebpf".to_owned()]).is_empty());
    }
}
