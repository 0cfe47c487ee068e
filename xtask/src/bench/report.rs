//! Presents the figures: tables for the terminal and for docs/BENCHMARKS.md, and all figures as
//! JSON.

use serde_json::{Value, json};

use super::figures::{Measured, Outcome};
use super::gate;
use super::machine::Machine;
use super::mode::Mode;
use super::statistics::{NOISY_SPREAD, Series};
use super::table::{NOTHING, Table, megabytes, number};
use super::verdict::{exceeded, finding, verdict};
use super::workload::Baseline;

const PROGRAM_HEADINGS: [&str; 10] = [
    "workload",
    "native s",
    "spread",
    "strace ×",
    "record ×",
    "replay ×",
    "record MB",
    "replay MB",
    "log MB",
    "verdict",
];

const SERVER_HEADINGS: [&str; 11] = [
    "server",
    "native requests/s",
    "on one core",
    "spread",
    "strace ×",
    "recorded: of the throughput",
    "replay ×",
    "99.9 % alone ms",
    "99.9 % recorded ×",
    "log MB",
    "verdict",
];

const PARALLEL_HEADINGS: [&str; 8] = [
    "workload",
    "native s",
    "spread",
    "on one core ×",
    "in turns: record / replay ×",
    "in parallel: record / replay ×",
    "the better of both, limit",
    "another recorder, such a machine",
];

const OTHERS_HEADINGS: [&str; 5] = [
    "workload",
    "record / replay ×",
    "floor",
    "another recorder, such a machine",
    "published, measured elsewhere",
];

/// All results.
#[derive(Debug)]
pub struct Report {
    pub machine: Machine,
    /// The highest number of rounds of a workload.
    pub rounds: usize,
    pub strace_rounds: usize,
    pub measured: Vec<Measured>,
}

impl Report {
    /// Returns all tables: programs, servers, and figures of other recorders.
    pub fn tables(&self) -> Vec<Table> {
        let mut programs = Table::new("Programs", &PROGRAM_HEADINGS);
        let mut servers = Table::new("Servers", &SERVER_HEADINGS);
        let mut parallel = Table::new("Threads on all cores", &PARALLEL_HEADINGS);
        let mut others = Table::new("Beside others", &OTHERS_HEADINGS);
        for measured in &self.measured {
            if measured.workload.is_server() {
                servers.push(server_cells(measured));
            } else {
                programs.push(program_cells(measured));
            }
            parallel.rows.extend(parallel_cells(measured));
            others.rows.extend(others_cells(measured));
        }
        [programs, servers, parallel, others]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .collect()
    }

    /// Returns the text for a terminal.
    pub fn terminal(&self) -> String {
        let tables: Vec<String> = self.tables().iter().map(Table::terminal).collect();
        format!("{}\n{}\n\n{}", self.machine.describe(), self.method(), tables.join("\n"))
    }

    /// Returns the text for docs/BENCHMARKS.md.
    pub fn markdown(&self) -> String {
        let tables: Vec<String> = self.tables().iter().map(Table::markdown).collect();
        format!("{}.\n{}\n\n{}", self.machine.describe(), self.method(), tables.join("\n"))
    }

    fn method(&self) -> String {
        let rounds = |count: usize| {
            if count == 1 { "1 round".to_owned() } else { format!("{count} rounds") }
        };
        let counts = || {
            self.measured
                .iter()
                .map(|measured| measured.baseline().figures.len())
                .filter(|&count| count > 0)
        };
        let (fewest, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let range =
            if fewest == most { rounds(most) } else { format!("{fewest} to {}", rounds(most)) };
        format!("Medians of {range}; strace {}.", rounds(self.strace_rounds))
    }

    /// Returns all figures, for programs.
    pub fn json(&self) -> Value {
        json!({
            "machine": self.machine.json(),
            "rounds": self.rounds,
            "strace_rounds": self.strace_rounds,
            "noisy_spread": NOISY_SPREAD,
            "workloads": self.measured.iter().map(workload_json).collect::<Value>(),
        })
    }

    /// Returns whether no workload failed. Limits and the gate do not matter.
    pub fn succeeded(&self) -> bool {
        !self.measured.iter().any(|measured| matches!(measured.outcome, Outcome::Failed(_)))
    }

    /// Returns the result of each workload, for the gate.
    pub fn findings(&self) -> Vec<gate::Row> {
        let row = |measured: &Measured| (measured.workload.name.clone(), finding(measured));
        self.measured.iter().map(row).collect()
    }
}

/// Returns one workload's line, which is printed while others still run.
pub fn line(measured: &Measured) -> String {
    let (headings, cells): (&[&str], _) = if measured.workload.is_server() {
        (&SERVER_HEADINGS, server_cells(measured))
    } else {
        (&PROGRAM_HEADINGS, program_cells(measured))
    };
    let last = headings.len() - 1;
    let figures: Vec<String> =
        (1..last).map(|column| format!("{} {}", headings[column], cells[column])).collect();
    format!("{}: {}", figures.join(", "), cells[last])
}

/// Returns the workload's title, and its baseline if that is not the whole machine.
pub fn title(measured: &Measured) -> String {
    match measured.workload.baseline {
        Baseline::Native => measured.workload.title.clone(),
        Baseline::OneCore => format!("{} (to one core)", measured.workload.title),
    }
}

fn program_cells(measured: &Measured) -> Vec<String> {
    let workload = &measured.workload;
    vec![
        title(measured),
        number(measured.baseline().median(), 3),
        spread_cell(measured.baseline()),
        strace_cell(measured),
        ratio_cell(measured, Mode::Record, workload.record_limit),
        ratio_cell(measured, Mode::Replay, workload.replay_limit),
        megabytes(measured.record_peak_kb * 1024),
        megabytes(measured.replay_peak_kb * 1024),
        megabytes(measured.log_bytes),
        verdict(measured),
    ]
}

fn server_cells(measured: &Measured) -> Vec<String> {
    let workload = &measured.workload;
    let throughput = measured.ratio(Mode::Record).map(f64::recip);
    let rate = |mode| number(measured.seconds(mode).median().map(f64::recip), 0);
    let alone_ms =
        measured.latency_us(measured.baseline_mode()).median().map(|latency| latency / 1000.0);
    vec![
        title(measured),
        rate(Mode::Native),
        rate(Mode::OneCore),
        spread_cell(measured.baseline()),
        strace_cell(measured),
        if is_hidden(measured, Mode::Record) {
            "noisy".to_owned()
        } else {
            with_limit(throughput, "≥", workload.throughput_limit)
        },
        ratio_cell(measured, Mode::Replay, workload.replay_limit),
        number(alone_ms, 2),
        with_limit(measured.latency_ratio(), "≤", workload.latency_limit),
        megabytes(measured.log_bytes),
        verdict(measured),
    ]
}

/// Returns a row if the workload was measured with threads in parallel.
fn parallel_cells(measured: &Measured) -> Option<Vec<String>> {
    let (record_limit, replay_limit) = measured.workload.parallel_limits?;
    let native = measured.seconds(Mode::Native);
    let pair = |record, replay| {
        let figure = |mode| {
            if native.is_noisy() {
                "noisy".to_owned()
            } else {
                number(measured.ratio_to_all_cores(mode), 2)
            }
        };
        format!("{} / {}", figure(record), figure(replay))
    };
    Some(vec![
        measured.workload.title.clone(),
        number(native.median(), 3),
        spread_cell(native),
        number(measured.ratio_to_all_cores(Mode::OneCore), 2),
        pair(Mode::Record, Mode::Replay),
        pair(Mode::ParallelRecord, Mode::ParallelReplay),
        format!("≤ {record_limit} / {replay_limit}"),
        measured.workload.same_machine.clone(),
    ])
}

/// Returns a row if there are figures of others for such a workload.
fn others_cells(measured: &Measured) -> Option<Vec<String>> {
    let workload = &measured.workload;
    let others = [&workload.floor, &workload.same_machine, &workload.published];
    if others.iter().all(|text| text.is_empty()) && measured.ratio(Mode::RrRecord).is_none() {
        return None;
    }
    let own = format!(
        "{} / {}",
        number(measured.ratio(Mode::Record), 2),
        number(measured.ratio(Mode::Replay), 2)
    );
    let mut cells = vec![title(measured), own];
    cells
        .extend(others.map(|text| if text.is_empty() { NOTHING.to_owned() } else { text.clone() }));
    if let (Some(record), Some(replay)) =
        (measured.ratio(Mode::RrRecord), measured.ratio(Mode::RrReplay))
    {
        cells[3] = format!("rr, here: {record:.2} / {replay:.2}");
    }
    Some(cells)
}

fn spread_cell(series: &Series) -> String {
    series.spread().map_or(NOTHING.to_owned(), |spread| format!("{:.0} %", spread * 100.0))
}

/// Returns whether there are figures, but their ratio is too noisy.
fn is_hidden(measured: &Measured, mode: Mode) -> bool {
    measured.ratio(mode).is_none() && measured.seconds(mode).median().is_some()
}

/// Returns the ratio and its limit: `1.18 (≤ 1.4)`.
fn ratio_cell(measured: &Measured, mode: Mode, limit: Option<f64>) -> String {
    if is_hidden(measured, mode) {
        "noisy".to_owned()
    } else {
        with_limit(measured.ratio(mode), "≤", limit)
    }
}

fn strace_cell(measured: &Measured) -> String {
    let cell = ratio_cell(measured, Mode::Strace, None);
    if measured.strace_was_stopped { format!("> {cell}") } else { cell }
}

fn with_limit(figure: Option<f64>, sign: &str, limit: Option<f64>) -> String {
    match (figure, limit) {
        (Some(figure), Some(limit)) => format!("{figure:.2} ({sign} {limit})"),
        (figure, _) => number(figure, 2),
    }
}

fn workload_json(measured: &Measured) -> Value {
    let workload = &measured.workload;
    let (outcome, reason) = match &measured.outcome {
        Outcome::Done => ("done", None),
        Outcome::Skipped(reason) => ("skipped", Some(reason)),
        Outcome::Failed(reason) => ("failed", Some(reason)),
    };
    let all = |series: fn(&Measured, Mode) -> &Series| {
        let of = |mode: Mode| (mode.name(), series(measured, mode).json());
        Mode::ALL.into_iter().map(of).collect::<Value>()
    };
    json!({
        "name": workload.name,
        "title": workload.title,
        "server": workload.is_server(),
        "outcome": outcome,
        "reason": reason,
        "baseline": measured.baseline_mode().name(),
        "noisy": measured.baseline().is_noisy(),
        "strace_ratio": measured.ratio(Mode::Strace),
        "strace_was_stopped": measured.strace_was_stopped,
        "record_ratio": measured.ratio(Mode::Record),
        "record_limit": workload.record_ratio_limit(),
        "replay_ratio": measured.ratio(Mode::Replay),
        "replay_limit": workload.replay_limit,
        "parallel_record_ratio": measured.ratio_to_all_cores(Mode::ParallelRecord),
        "parallel_replay_ratio": measured.ratio_to_all_cores(Mode::ParallelReplay),
        "latency_ratio": measured.latency_ratio(),
        "latency_limit": workload.latency_limit,
        "exceeded": exceeded(measured),
        "record_peak_kb": measured.record_peak_kb,
        "replay_peak_kb": measured.replay_peak_kb,
        "log_bytes": measured.log_bytes,
        "file_bytes": measured.file_bytes,
        "seconds": all(Measured::seconds),
        "latency_us": all(Measured::latency_us),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::gate::Finding;
    use crate::bench::workload::Workload;

    fn measured(workload: &Workload, native: f64, record: f64, replay: f64) -> Measured {
        let mut measured = Measured::new(workload);
        measured.seconds_mut(Mode::Native).push(native);
        measured.seconds_mut(Mode::Record).push(record);
        measured.seconds_mut(Mode::Replay).push(replay);
        measured
    }

    fn report(measured: Vec<Measured>) -> Report {
        Report { machine: Machine::look(), rounds: 5, strace_rounds: 1, measured }
    }

    #[test]
    fn programs_have_a_row() {
        let workload = Workload {
            title: "a".to_owned(),
            record_limit: Some(1.4),
            memory_limit_mb: 64,
            ..Workload::default()
        };
        let mut program = measured(&workload, 1.0, 1.3, 0.25);
        program.seconds_mut(Mode::Strace).push(9.0);
        program.strace_was_stopped = true;
        let report = report(vec![program]);
        assert!(
            report.markdown().contains(
                "| a | 1.000 | 0 % | > 9.00 | 1.30 (≤ 1.4) | 0.25 | – | – | – | good |\n"
            )
        );
        assert!(report.terminal().contains("1.30 (≤ 1.4)"));
        let json = &report.json()["workloads"][0];
        assert_eq!((&json["record_ratio"], &json["latency_ratio"]), (&json!(1.3), &Value::Null));
        let seconds = json!({"median": 1.3, "minimum": 1.3, "maximum": 1.3, "rounds": [1.3]});
        assert_eq!(json["seconds"]["record"], seconds);
        assert_eq!(report.findings(), [(String::new(), Finding::Good)]);
        assert!(report.succeeded() && report.tables().len() == 1);
    }

    #[test]
    fn servers_have_throughput_and_latency() {
        let workload = Workload {
            title: "s".to_owned(),
            load: "x".to_owned(),
            throughput_limit: Some(0.85),
            memory_limit_mb: 64,
            ..Workload::default()
        };
        let mut server =
            measured(&Workload { published: "RR 2".to_owned(), ..workload }, 0.001, 0.002, 0.0005);
        server.latency_us_mut(Mode::Native).push(500.0);
        server.latency_us_mut(Mode::Record).push(750.0);
        let report = report(vec![server]);
        assert!(report.markdown().contains(
            "| s | 1000 | – | 0 % | – | 0.50 (≥ 0.85) | 0.50 | 0.50 | 1.50 | – | over: record |\n"
        ));
        assert!(report.markdown().contains("| s | 2.00 / 0.50 | – | – | RR 2 |\n"));
        assert_eq!(report.findings(), [(String::new(), Finding::Over("record".to_owned()))]);
        assert!(report.succeeded());
    }

    #[test]
    fn threads_in_parallel_have_a_table_of_their_own() {
        let workload = Workload {
            title: "p".to_owned(),
            baseline: Baseline::OneCore,
            parallel_limits: Some((1.2, 1.1)),
            memory_limit_mb: 64,
            ..Workload::default()
        };
        let mut program = measured(&workload, 1.0, 1.9, 1.9);
        for (mode, seconds) in
            [(Mode::OneCore, 2.0), (Mode::ParallelRecord, 1.1), (Mode::ParallelReplay, 1.15)]
        {
            program.seconds_mut(mode).push(seconds);
        }
        let report = report(vec![program]);
        assert!(
            report.markdown().contains(
                "| p | 1.000 | 0 % | 2.00 | 1.90 / 1.90 | 1.10 / 1.15 | ≤ 1.2 / 1.1 |  |"
            ),
            "{}",
            report.markdown()
        );
        assert!(report.markdown().contains("over: replay on all cores"));
    }

    #[test]
    fn another_recorder_stands_beside() {
        let mut program =
            measured(&Workload { title: "p".to_owned(), ..Workload::default() }, 1.0, 1.25, 0.5);
        assert_eq!(others_cells(&program), None);
        program.seconds_mut(Mode::RrRecord).push(8.0);
        program.seconds_mut(Mode::RrReplay).push(4.0);
        assert_eq!(
            others_cells(&program).unwrap(),
            ["p", "1.25 / 0.50", "–", "rr, here: 8.00 / 4.00", "–"]
        );
    }

    #[test]
    fn the_rounds_that_were_made_are_told() {
        let mut all = vec![measured(&Workload::default(), 1.0, 1.0, 1.0); 2];
        assert_eq!(report(all.clone()).method(), "Medians of 1 round; strace 1 round.");
        all[0].seconds_mut(Mode::Native).push(1.0);
        assert_eq!(report(all).method(), "Medians of 1 to 2 rounds; strace 1 round.");
    }

    #[test]
    fn failures_count_always() {
        let mut report = report(vec![measured(&Workload::default(), 1.0, 1.0, 1.0)]);
        report.measured[0].outcome = Outcome::Failed("x".to_owned());
        assert_eq!(report.findings(), [(String::new(), Finding::Failed("x".to_owned()))]);
        assert!(!report.succeeded());
    }

    #[test]
    fn noise_hides_ratios() {
        let mut noisy = measured(&Workload::default(), 1.0, 9.0, 9.0);
        noisy.seconds_mut(Mode::Native).push(2.0);
        assert_eq!(program_cells(&noisy)[4], "noisy");
    }
}
