//! `cargo xtask bench --tracing`: the cost of tracing a program with all its data, by each method,
//! and of running its trace again. The program's own time counts. The time of `retake trace` after
//! the program's end has a column of its own.

use std::fs;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Result;
use super::attach::{self, Attached};
use super::figures::Outcome;
use super::gate::{self, Finding};
use super::harness::Bench;
use super::machine::Machine;
use super::stopwatch::Stopwatch;
use super::table::Table;
use super::tracing_loads::LOADS;
use super::tracing_point::{Figures, HEADINGS, Lacking, Point, WAYS};
use super::workload::Workload;

/// A script that writes the seconds, user and system time of a command. It is traced together with
/// the command, so that it measures exactly until the program's end.
const TIMED: &str = "#!/bin/bash\nout=$1\nshift\nTIMEFORMAT='%R %U \
%S'\n{ time \"$@\" > output 2> errors || touch failed; } 2> \"$out\"\n";

/// All results.
pub struct Tracing {
    machine: Machine,
    rounds: usize,
    lacking: Vec<Lacking>,
    points: Vec<Point>,
    attached: Vec<Attached>,
}

/// Returns the names of everything that is traced, with titles: programs, and servers of the
/// workloads.
pub fn names(workloads: &[Workload]) -> impl Iterator<Item = (&str, &str)> {
    let servers = attach::servers(workloads).map(Workload::name_and_title);
    LOADS.iter().map(|load| (load.name, load.title)).chain(servers)
}

/// Measures everything, and noisy loads up to `most` times.
///
/// # Errors
/// Failures of the harness. The failure of a load is a result.
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

/// Returns the ways that cannot be measured: strace if it is not installed, and tracing from the
/// kernel if that is impossible or forbidden. If its trial works, its failures count.
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
        // The first round fills the page cache and the store.
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

/// Returns text quoted for a shell.
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
    // The traced shell makes the files, so that the trace accounts for all of them.
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

/// Runs the in-process trace again.
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
    // Leaves out the time to make what the traced program had found.
    let report: Reanimated = serde_json::from_str(&said)?;
    point.again.add([report.replay_seconds, report.replay_user_seconds, 0.0]);
    Ok(())
}

/// The needed part of the report of `retake reanimate --json`.
#[derive(Debug, Deserialize)]
struct Reanimated {
    replay_seconds: f64,
    replay_user_seconds: f64,
}

impl Tracing {
    /// Returns the results for the gate: of each program and server, and of ways that cannot be
    /// measured.
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

    /// Returns all figures, for programs.
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
    fn reports_are_read_and_commands_quoted() {
        let said = r#"{"calls": 3, "replay_seconds": 0.25, "x": 1, "replay_user_seconds": 2}"#;
        let report: Reanimated = serde_json::from_str(said).unwrap();
        assert_eq!((report.replay_seconds, report.replay_user_seconds), (0.25, 2.0));
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn a_way_that_lacks_is_a_row_of_its_own() {
        let lacking = vec![("ebpf", "not allowed".to_owned())];
        let mut point = Point::new(&LOADS[0], &lacking);
        for ((name, _), figures) in WAYS.iter().zip(&mut point.ways) {
            if !point.lacking.contains(name) {
                figures.push("1 1 1").unwrap();
            }
        }
        let points = vec![point];
        let tracing =
            Tracing { machine: Machine::look(), rounds: 1, lacking, points, attached: Vec::new() };
        let findings = tracing.findings();
        assert_eq!(findings[0], ("dd".to_owned(), Finding::Good));
        assert_eq!(findings[1], ("ebpf".to_owned(), Finding::Skipped("not allowed".to_owned())));
        assert_eq!(gate::complaints(&findings, &[]).len(), 1);
        assert!(gate::complaints(&findings, &["ebpf".to_owned()]).is_empty());
    }
}
