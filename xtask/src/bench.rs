//! `cargo xtask bench`: runs the workloads of `benches/workloads` natively, under strace, recorded
//! and replayed, and reports the cost. docs/BENCHMARKS.md explains the numbers.

mod attach;
mod charts;
mod counts;
#[cfg(test)]
mod end_to_end_tests;
mod figures;
mod gate;
mod harness;
mod machine;
mod measure;
mod micro;
mod micro_extras;
mod mode;
mod options;
mod pace;
pub mod process;
mod profile;
mod report;
mod scaling;
mod scaling_point;
pub mod scratch;
mod server;
mod stage;
mod statistics;
mod stopwatch;
mod svg;
pub mod table;
mod tracing;
mod tracing_loads;
mod tracing_point;
mod verdict;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;

use figures::Measured;
use harness::Bench;
use machine::Machine;
pub use options::Options;
use options::Subject;
use pace::Clock;
use svg::Chart;
use workload::Workload;

use crate::selection;

/// The result of the harness's own work. A failed workload is not an error here.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The document with all results.
const DOCUMENT: &str = "docs/BENCHMARKS.md";

/// Runs the command. True if all workloads succeeded, and with `--gate` if all were measured and
/// kept within their limits.
///
/// # Errors
/// An unknown name, a mistake in a workload file, and failures of the harness.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    let repository = &repository.canonicalize()?;
    let workloads = workload::read_all(&repository.join("benches/workloads"))?;
    let known = known(options.subject(), &workloads);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    selection::check("benchmark", &options.only, &names)?;
    if options.list {
        for (name, title) in known.iter().filter(|(name, _)| options.wants(name)) {
            println!("{}", format!("{name:<20} {title}").trim_end());
        }
        return Ok(true);
    }
    match options.subject() {
        Subject::Workloads => run_workloads(repository, options, &workloads),
        Subject::Micro => run_micro(repository, options),
        Subject::Scaling => run_scaling(repository, options),
        Subject::Tracing => run_tracing(repository, options),
        Subject::Counts => run_counts(repository, options),
    }
}

/// Returns the names that `--only` can select, each with a title if it has one.
fn known(subject: Subject, workloads: &[Workload]) -> Vec<(&str, &str)> {
    match subject {
        Subject::Workloads => workloads.iter().map(Workload::name_and_title).collect(),
        Subject::Micro => micro::names().map(|name| (name, "")).collect(),
        Subject::Scaling => scaling::names().collect(),
        Subject::Tracing => tracing::names(workloads).collect(),
        Subject::Counts => counts::names().map(|name| (name, "")).collect(),
    }
}

fn run_workloads(repository: &Path, options: &Options, known: &[Workload]) -> Result<bool> {
    let workloads: Vec<_> = known.iter().filter(|it| options.wants(&it.name)).cloned().collect();
    let bench = prepare(repository, options)?;
    let machine = Machine::look();
    machine.warn();
    let measured = measure_all(&bench, &workloads, options)?;
    drop(bench);

    let pace = options.pace(None);
    let report = report::Report {
        machine,
        rounds: pace.rounds,
        strace_rounds: pace.strace_rounds,
        measured,
    };
    println!("\n{}", report.terminal());
    write_json(repository, "bench.json", &report.json())?;
    if options.update {
        write_document(repository, "bench", &report.markdown(), &charts::charts(&report.measured))?;
    }
    Ok(report.succeeded() && is_open(options, &report.findings()))
}

fn run_micro(repository: &Path, options: &Options) -> Result<bool> {
    let bench = prepare(repository, options)?;
    let most = options.most_measurements();
    let micro = micro::run(&bench, options.quick, most, |name| options.wants(name))?;
    drop(bench);
    println!("\n{}", micro.terminal());
    write_json(repository, "bench-micro.json", &micro.json())?;
    if options.update {
        write_document(
            repository,
            "micro",
            &micro.markdown(),
            &[("bench-micro.svg", micro.chart())],
        )?;
    }
    Ok(is_open(options, &micro.findings()))
}

fn run_scaling(repository: &Path, options: &Options) -> Result<bool> {
    let bench = prepare(repository, options)?;
    let most = options.most_measurements();
    let scaling = scaling::run(&bench, options.quick, most, |name| options.wants(name))?;
    drop(bench);
    println!("\n{}", scaling.terminal());
    write_json(repository, "bench-scaling.json", &scaling.json())?;
    if options.update {
        write_document(
            repository,
            "scaling",
            &scaling.markdown(),
            &[("bench-scaling.svg", scaling.chart())],
        )?;
    }
    Ok(is_open(options, &scaling.findings()))
}

fn run_tracing(repository: &Path, options: &Options) -> Result<bool> {
    let bench = prepare(repository, options)?;
    let most = options.most_measurements();
    let tracing = tracing::run(&bench, options.rounds(), most, |name| options.wants(name))?;
    drop(bench);
    println!("\n{}", tracing.terminal());
    write_json(repository, "bench-tracing.json", &tracing.json())?;
    if options.update {
        write_document(repository, "tracing", &tracing.markdown(), &[])?;
    }
    Ok(is_open(options, &tracing.findings()))
}

fn run_counts(repository: &Path, options: &Options) -> Result<bool> {
    let bench = prepare(repository, options)?;
    let counts = counts::run(&bench, |name| options.wants(name))?;
    drop(bench);
    println!("\n{}", counts.terminal());
    write_json(repository, "bench-counts.json", &counts.json())?;
    if options.update {
        println!("wrote {}", counts.update(repository, |name| options.wants(name))?);
    }
    Ok(!options.gate || passes(&counts.complaints()))
}

/// Returns whether there is no gate or it opens. If it stays closed, prints why.
fn is_open(options: &Options, rows: &[gate::Row]) -> bool {
    !options.gate || passes(&gate::complaints(rows, &options.may_skip))
}

fn passes(complaints: &[String]) -> bool {
    for complaint in complaints {
        eprintln!("gate: {complaint}");
    }
    complaints.is_empty()
}

/// Builds the measured program and makes the scratch folder.
fn prepare(repository: &Path, options: &Options) -> Result<Bench> {
    let retake = retake(repository, options.retake.as_deref())?;
    let scratch =
        options.scratch.clone().unwrap_or_else(|| repository.join("target/bench-scratch"));
    Bench::prepare(repository, &scratch, &retake, options.keep)
}

fn write_json(repository: &Path, name: &str, figures: &serde_json::Value) -> Result<()> {
    std::fs::write(repository.join("target").join(name), format!("{figures:#}\n"))?;
    println!("all figures: target/{name}");
    Ok(())
}

fn write_profile(repository: &Path, measured: &Measured) -> Result<()> {
    if measured.profile.is_empty() {
        return Ok(());
    }
    let name = format!("target/bench-profiles/{}.txt", measured.workload.name);
    std::fs::create_dir_all(repository.join("target/bench-profiles"))?;
    std::fs::write(repository.join(&name), &measured.profile)?;
    println!("    where its time goes: {name}");
    Ok(())
}

/// Puts tables and charts into docs/.
fn write_document(
    repository: &Path,
    name: &str,
    text: &str,
    charts: &[(&str, Chart)],
) -> Result<()> {
    table::update(&repository.join(DOCUMENT), name, text)?;
    println!("wrote {DOCUMENT}");
    for (file, chart) in charts {
        std::fs::write(repository.join("docs").join(file), chart.svg())?;
        println!("wrote docs/{file}");
    }
    Ok(())
}

/// Returns the program to measure: the requested one, or else a release build of this repository.
///
/// # Errors
/// There is no such program, or the build fails.
pub fn retake(repository: &Path, wanted: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = wanted {
        let found = path.canonicalize();
        return found.map_err(|error| format!("{}: {error}", path.display()).into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", "retake"])
        .current_dir(repository)
        .status()?;
    if !status.success() {
        return Err("retake does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(repository.join(target).join("release/retake"))
}

fn measure_all(bench: &Bench, workloads: &[Workload], options: &Options) -> Result<Vec<Measured>> {
    let clock = Clock::start(options.whole_time());
    let mut all = Vec::new();
    for (index, workload) in workloads.iter().enumerate() {
        println!("{} ...", workload.title);
        let pace = options.pace(clock.share(&workloads[index..]));
        let most = options.most_measurements();
        let measured =
            gate::until_quiet(most, Measured::is_noisy, || bench.measure(workload, pace))?;
        println!("    {}", report::line(&measured));
        write_profile(bench.repository(), &measured)?;
        all.push(measured);
    }
    Ok(all)
}
