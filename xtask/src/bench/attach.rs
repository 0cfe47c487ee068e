//! Tracing of servers that run already: what it costs while it lasts, and that nothing is left of it.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Result;
use super::measure::{Bench, is_present};
use super::mode::Mode;
use super::stage::{Stage, environment, tail};
use super::statistics::Series;
use super::table::{Table, number};
use super::workload::{self, Workload};
use crate::watched::{POLL, Watched};

/// The workloads, which are servers.
const SERVERS: [&str; 2] = ["redis", "mariadb"];
/// How long each load is.
const LOAD_SECONDS: u64 = 3;
/// A tracer has this long to attach, and to write its trace once it is told to end.
const TRACER_LIMIT: Duration = Duration::from_secs(60);
/// What a server does again afterwards, of what it did before.
const AFTERWARDS: f64 = 0.9;

/// One server: requests a second before, while it is traced, and afterwards.
pub struct Attached {
    name: String,
    title: String,
    before: Series,
    during: Series,
    after: Series,
    trouble: Option<String>,
}

/// Those of the workloads that are traced.
pub fn servers(workloads: &[Workload]) -> impl Iterator<Item = &Workload> {
    workloads.iter().filter(|workload| SERVERS.contains(&workload.name.as_str()))
}

/// Measures those that are wanted.
///
/// # Errors
/// Failures of the harness; a server that fails is told.
pub fn run(bench: &Bench, rounds: usize, wants: impl Fn(&str) -> bool) -> Result<Vec<Attached>> {
    let workloads = workload::read_all(&bench.repository().join("benches/workloads"))?;
    let mut all = Vec::new();
    for workload in servers(&workloads).filter(|workload| wants(&workload.name)) {
        println!("{}, traced while it runs ...", workload.title);
        let mut attached = Attached::new(workload);
        attached.trouble = match workload.requires.iter().find(|what| !is_present(what)) {
            Some(missing) => Some(format!("skipped: {missing} is not there")),
            None => measure(bench, workload, &mut attached, rounds).err().map(|error| error.to_string()),
        };
        all.push(attached);
    }
    Ok(all)
}

fn measure(bench: &Bench, workload: &Workload, attached: &mut Attached, rounds: usize) -> Result<()> {
    let work = bench.scratch().path().join(format!("attach-{}", workload.name));
    fs::create_dir_all(&work)?;
    let stage = Stage::prepare(bench, workload, &work)?;
    for _ in 0..rounds {
        one_round(&stage, attached)?;
    }
    fs::remove_dir_all(&work).map_err(Into::into)
}

fn one_round(stage: &Stage<'_>, attached: &mut Attached) -> Result<()> {
    let mut server = stage.start_server(Mode::Native)?;
    stage.drive(0.0, 1)?;
    attached.before.push(stage.drive(0.0, LOAD_SECONDS)?.throughput());
    let mut tracer = attach(stage, server.id())?;
    attached.during.push(stage.drive(0.0, LOAD_SECONDS)?.throughput());
    tracer.signal("INT");
    match tracer.wait(TRACER_LIMIT) {
        Some(status) if status.success() => {}
        _ => return Err(format!("the tracer did not end well: {}", tail(&fs::read(stage.work.join("tracer.errors"))?)).into()),
    }
    if is_traced(server.id()) {
        return Err("the server is still traced".into());
    }
    stage.bench.scratch().settle();
    attached.after.push(stage.drive(0.0, LOAD_SECONDS)?.throughput());
    server.signal(&stage.workload.stop);
    stage.ended(&mut server, "the server")?;
    fs::remove_file(stage.work.join("x.ds")).map_err(Into::into)
}

/// Begins to trace a process, and returns when that has come about.
fn attach(stage: &Stage<'_>, process: u32) -> Result<Watched> {
    let mut command = Command::new(stage.bench.retake());
    command.args(["trace", "--method", "ebpf", "-p", &process.to_string(), "-o", "x.ds"]).current_dir(&stage.work).envs(environment(stage.bench));
    let errors = stage.work.join("tracer.errors");
    let mut tracer = Watched::start(command, &stage.work.join("tracer.output"), &errors)?;
    let start = Instant::now();
    while !is_traced(process) {
        if tracer.wait(POLL).is_some() || start.elapsed() > TRACER_LIMIT {
            return Err(format!("it is not attached to: {}", tail(&fs::read(errors)?)).into());
        }
    }
    Ok(tracer)
}

fn is_traced(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("TracerPid:")).is_some_and(|tracer| tracer.trim() != "0")
}

impl Attached {
    fn new(workload: &Workload) -> Self {
        let (before, during, after) = Default::default();
        Self { name: workload.name.clone(), title: workload.title.clone(), before, during, after, trouble: None }
    }

    fn share(&self, of: &Series) -> Option<f64> {
        Some(of.median()? / self.before.median()?)
    }

    /// Whether nothing failed, and nothing is left of it.
    pub fn is_good(&self) -> bool {
        self.trouble.is_none() && self.share(&self.after).is_some_and(|share| share >= AFTERWARDS)
    }

    fn cells(&self) -> Vec<String> {
        let after = format!("{} (≥ {AFTERWARDS})", number(self.share(&self.after), 2));
        vec![self.title.clone(), number(self.before.median(), 0), number(self.share(&self.during), 2), after]
    }

    /// All figures, for programs.
    pub fn json(&self) -> Value {
        json!({"name": self.name, "before": self.before, "during": self.during, "after": self.after})
    }
}

/// The table of all; nothing without any.
pub fn text(all: &[Attached], print: fn(&Table) -> String) -> String {
    if all.is_empty() {
        return String::new();
    }
    let headings = ["server, traced from the kernel while it runs", "requests/s before", "meanwhile ×", "afterwards ×"];
    let mut table = Table::new("", &headings);
    all.iter().for_each(|attached| table.push(attached.cells()));
    let troubles = all.iter().filter_map(|attached| Some(format!("\n{}: {}\n", attached.title, attached.trouble.as_ref()?)));
    format!("\n{}{}", print(&table), troubles.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_before() {
        let series = |figure| {
            let mut series = Series::default();
            series.push(figure);
            series
        };
        let (before, during) = (series(1000.0), series(600.0));
        let mut attached = Attached { name: String::new(), title: "it".to_owned(), before, during, after: series(950.0), trouble: None };
        assert_eq!(attached.cells(), ["it", "1000", "0.60", "0.95 (≥ 0.9)"]);
        assert!(attached.is_good());
        attached.after = series(500.0);
        assert!(!attached.is_good());
    }
}
