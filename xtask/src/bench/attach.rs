//! Tracing of running servers: its cost while it lasts, and a check that nothing of it remains.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Result;
use super::figures::Outcome;
use super::gate::{self, Finding};
use super::harness::Bench;
use super::mode::Mode;
use super::stage::{Stage, environment, tail};
use super::statistics::Series;
use super::table::{Table, number};
use super::workload::{self, Workload};
use crate::watched::{POLL, Watched};

/// The names of the workloads. They are servers.
const SERVERS: [&str; 2] = ["redis", "mariadb"];
/// The duration of each load.
const LOAD_SECONDS: u64 = 3;
/// The time that a tracer has to attach, and to write its trace after it is told to end.
const TRACER_LIMIT: Duration = Duration::from_secs(60);
/// The share of the earlier throughput that a server must reach again after tracing.
const AFTERWARDS: f64 = 0.9;

/// The figures of one server: requests a second before, during and after tracing.
pub struct Attached {
    name: String,
    title: String,
    before: Series,
    during: Series,
    after: Series,
    outcome: Outcome,
}

/// Returns the workloads that are traced.
pub fn servers(workloads: &[Workload]) -> impl Iterator<Item = &Workload> {
    workloads.iter().filter(|workload| SERVERS.contains(&workload.name.as_str()))
}

/// Measures the selected servers, and a noisy one up to `most` times. `lacking` is the reason if
/// tracing from the kernel is not possible.
///
/// # Errors
/// Failures of the harness. The failure of a server is a result.
pub fn run(
    bench: &Bench,
    rounds: usize,
    most: usize,
    lacking: Option<&str>,
    wants: impl Fn(&str) -> bool,
) -> Result<Vec<Attached>> {
    let workloads = workload::read_all(&bench.repository().join("benches/workloads"))?;
    let mut all = Vec::new();
    for workload in servers(&workloads).filter(|workload| wants(&workload.name)) {
        println!("{}, traced while it runs ...", workload.title);
        all.push(gate::until_quiet(most, Attached::is_noisy, || {
            let mut attached = Attached::new(workload);
            let skipped = lacking
                .map(|reason| Outcome::Skipped(reason.to_owned()))
                .or_else(|| Outcome::without(&workload.requires));
            attached.outcome = skipped
                .unwrap_or_else(|| Outcome::of(measure(bench, workload, &mut attached, rounds)));
            Ok(attached)
        })?);
    }
    Ok(all)
}

fn measure(
    bench: &Bench,
    workload: &Workload,
    attached: &mut Attached,
    rounds: usize,
) -> Result<()> {
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
        _ => {
            return Err(format!(
                "the tracer did not end well: {}",
                tail(&fs::read(stage.work.join("tracer.errors"))?)
            )
            .into());
        }
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

/// Starts a tracer, and returns when it has attached to the process.
fn attach(stage: &Stage<'_>, process: u32) -> Result<Watched> {
    let mut command = Command::new(stage.bench.retake());
    command
        .args(["trace", "--method", "ebpf", "-p", &process.to_string(), "-o", "x.ds"])
        .current_dir(&stage.work)
        .envs(environment(stage.bench));
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
    status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))
        .is_some_and(|tracer| tracer.trim() != "0")
}

impl Attached {
    fn new(workload: &Workload) -> Self {
        let (before, during, after) = Default::default();
        Self {
            name: workload.name.clone(),
            title: workload.title.clone(),
            before,
            during,
            after,
            outcome: Outcome::Done,
        }
    }

    fn share(&self, of: &Series) -> Option<f64> {
        Some(of.median()? / self.before.median()?)
    }

    fn is_noisy(&self) -> bool {
        self.outcome == Outcome::Done && self.before.is_noisy()
    }

    /// Returns the result for the gate. A tracer must leave nothing behind.
    pub fn finding(&self) -> gate::Row {
        let finding = self.outcome.finding().unwrap_or_else(|| match self.share(&self.after) {
            None => Finding::Failed("no figure".to_owned()),
            Some(_) if self.is_noisy() => Finding::Noisy,
            Some(share) if share < AFTERWARDS => Finding::Over("afterwards".to_owned()),
            Some(_) => Finding::Good,
        });
        (self.name.clone(), finding)
    }

    fn cells(&self) -> Vec<String> {
        let after = format!("{} (≥ {AFTERWARDS})", number(self.share(&self.after), 2));
        vec![
            self.title.clone(),
            number(self.before.median(), 0),
            number(self.share(&self.during), 2),
            after,
        ]
    }

    /// Returns all figures, for programs.
    pub fn json(&self) -> Value {
        json!({"name": self.name, "before": self.before, "during": self.during,
            "after": self.after})
    }
}

/// Returns the table of all servers. Empty without any.
pub fn text(all: &[Attached], print: fn(&Table) -> String) -> String {
    if all.is_empty() {
        return String::new();
    }
    let headings = [
        "server, traced from the kernel while it runs",
        "requests/s before",
        "meanwhile ×",
        "afterwards ×",
    ];
    let mut table = Table::new("", &headings);
    all.iter().for_each(|attached| table.push(attached.cells()));
    let troubles = all.iter().filter_map(|attached| {
        Some(format!("\n{}: {}\n", attached.title, attached.outcome.trouble()?))
    });
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
        let mut attached = Attached {
            name: String::new(),
            title: "it".to_owned(),
            before,
            during,
            after: series(950.0),
            outcome: Outcome::Done,
        };
        assert_eq!(attached.cells(), ["it", "1000", "0.60", "0.95 (≥ 0.9)"]);
        assert_eq!(attached.finding().1, Finding::Good);
        attached.after = series(500.0);
        assert_eq!(attached.finding().1, Finding::Over("afterwards".to_owned()));
        attached.before.push(3000.0);
        assert_eq!(attached.finding().1, Finding::Noisy);
        attached.before = Series::default();
        assert_eq!(attached.finding().1, Finding::Failed("no figure".to_owned()));
        attached.outcome = Outcome::Skipped("no redis".to_owned());
        assert_eq!(attached.finding().1, Finding::Skipped("no redis".to_owned()));
    }
}
