//! What the figures say: a table for the terminal and for docs/BENCHMARKS.md, and all figures as JSON.

use std::path::Path;

use super::Result;
use super::json::Json;
use super::machine::Machine;
use super::measure::{Measured, Mode, Outcome};
use super::statistics::{NOISY_SPREAD, Series};
use super::workload::Baseline;

/// The table in docs/BENCHMARKS.md is between these lines.
const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

/// Replay counts as slower than its recording only beyond this: a program that only computes takes the same time in both, and
/// which of two equal medians is higher is chance.
const SAME_RATIO: f64 = 1.02;

const HEADINGS: [&str; 10] = ["workload", "native s", "spread", "strace ×", "record ×", "replay ×", "record MB", "replay MB", "log MB", "verdict"];

/// All results.
#[derive(Debug)]
pub struct Report {
    pub machine: Machine,
    pub rounds: usize,
    pub strace_rounds: usize,
    pub measured: Vec<Measured>,
}

impl Report {
    /// For people at a terminal.
    pub fn terminal(&self) -> String {
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(self.measured.iter().map(cells));
        let widths: [usize; HEADINGS.len()] = std::array::from_fn(|column| {
            let width = rows.iter().map(|row| row[column].chars().count()).max();
            width.unwrap_or(0)
        });
        let mut text = format!("{}\n{}\n\n", self.machine.describe(), self.method());
        for row in &rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column] - cell.chars().count());
                // Numbers to the right; the first and the last column are words.
                if column == 0 || column == HEADINGS.len() - 1 {
                    line.push_str(&format!("{cell}{padding}  "));
                } else {
                    line.push_str(&format!("{padding}{cell}  "));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// For docs/BENCHMARKS.md.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}.\n{}\n\n", self.machine.describe(), self.method());
        text.push_str(&markdown_row(&HEADINGS.map(str::to_owned)));
        text.push_str(&"|---".repeat(HEADINGS.len()));
        text.push_str("|\n");
        for measured in &self.measured {
            text.push_str(&markdown_row(&cells(measured)));
        }
        text
    }

    fn method(&self) -> String {
        let rounds = |count: usize| match count {
            1 => "1 round".to_owned(),
            count => format!("{count} rounds"),
        };
        format!("Medians of {}; strace {}.", rounds(self.rounds), rounds(self.strace_rounds))
    }

    /// All figures, for programs.
    pub fn json(&self) -> String {
        let machine = Json::Object(vec![
            ("processor", Json::text(&self.machine.processor)),
            ("core_count", Json::Integer(self.machine.core_count as u64)),
            ("memory_mb", Json::Integer(self.machine.memory_mb)),
            ("kernel", Json::text(&self.machine.kernel)),
            ("load_before", Json::Number(self.machine.load)),
            ("busy", Json::Bool(self.machine.is_busy())),
        ]);
        let report = Json::Object(vec![
            ("machine", machine),
            ("rounds", Json::Integer(self.rounds as u64)),
            ("strace_rounds", Json::Integer(self.strace_rounds as u64)),
            ("noisy_spread", Json::Number(NOISY_SPREAD)),
            ("workloads", Json::List(self.measured.iter().map(workload_json).collect())),
        ]);
        report.print()
    }

    /// Whether no workload failed, and, if limits count, none exceeded one.
    pub fn succeeded(&self, limits_count: bool) -> bool {
        self.measured.iter().all(|measured| match measured.outcome {
            Outcome::Failed(_) => false,
            Outcome::Skipped(_) => true,
            Outcome::Done => !limits_count || exceeded(measured).is_empty(),
        })
    }
}

/// One workload in a line, while others are still running.
pub fn line(measured: &Measured) -> String {
    let [_, native, spread, strace, record, replay, .., verdict] = cells(measured);
    format!("native {native} s (spread {spread}), strace {strace}, record {record}, replay {replay}: {verdict}")
}

/// The row of a workload, in the order of `HEADINGS`.
fn cells(measured: &Measured) -> [String; HEADINGS.len()] {
    let workload = &measured.workload;
    let title = match workload.baseline {
        Baseline::Native => workload.title.clone(),
        Baseline::OneCore => format!("{} (to one core)", workload.title),
    };
    let ratio = |mode, limit| ratio_cell(measured, mode, limit);
    [
        title,
        number(measured.baseline().median(), 3),
        spread_cell(measured.baseline()),
        ratio(Mode::Strace, None),
        ratio(Mode::Record, workload.record_limit),
        ratio(Mode::Replay, workload.replay_limit),
        megabytes(measured.record_peak_kb * 1024),
        megabytes(measured.replay_peak_kb * 1024),
        megabytes(measured.log_bytes),
        verdict(measured),
    ]
}

fn number(number: Option<f64>, digits: usize) -> String {
    number.map_or("–".to_owned(), |number| format!("{number:.digits$}"))
}

fn spread_cell(series: &Series) -> String {
    let percent = series.spread().map(|spread| spread * 100.0);
    match number(percent, 0).as_str() {
        "–" => "–".to_owned(),
        percent => format!("{percent} %"),
    }
}

/// The ratio and its limit: `1.18 (≤ 1.4)`.
fn ratio_cell(measured: &Measured, mode: Mode, limit: Option<f64>) -> String {
    let ratio = measured.ratio(mode);
    if ratio.is_none() && measured.seconds(mode).median().is_some() {
        return "noisy".to_owned();
    }
    match (number(ratio, 2), limit) {
        (shown, Some(limit)) if ratio.is_some() => format!("{shown} (≤ {limit})"),
        (shown, _) => shown,
    }
}

fn megabytes(bytes: u64) -> String {
    if bytes == 0 {
        return "–".to_owned();
    }
    format!("{:.1}", bytes as f64 / 1e6)
}

fn verdict(measured: &Measured) -> String {
    match &measured.outcome {
        Outcome::Skipped(reason) => return format!("skipped: {reason}"),
        Outcome::Failed(reason) => return format!("FAILED: {reason}"),
        Outcome::Done => {}
    }
    if measured.baseline().is_noisy() {
        return "noisy: no verdict".to_owned();
    }
    let exceeded = exceeded(measured);
    if exceeded.is_empty() {
        return "good".to_owned();
    }
    format!("over: {}", exceeded.join(", "))
}

/// The limits that were not kept. None if the figures are too noisy to say.
fn exceeded(measured: &Measured) -> Vec<&'static str> {
    let workload = &measured.workload;
    let record = measured.ratio(Mode::Record);
    let replay = measured.ratio(Mode::Replay);
    let is_over = |ratio: Option<f64>, limit: Option<f64>| ratio.zip(limit).is_some_and(|(ratio, limit)| ratio > limit);
    let memory_limit_kb = workload.memory_limit_mb * 1000 * 1000 / 1024;
    [
        ("record", is_over(record, workload.record_limit)),
        ("replay", is_over(replay, workload.replay_limit)),
        ("replay slower than record", is_over(replay, record.map(|record| record * SAME_RATIO))),
        ("memory", measured.record_peak_kb > memory_limit_kb),
    ]
    .into_iter()
    .filter_map(|(what, is_over)| is_over.then_some(what))
    .collect()
}

fn workload_json(measured: &Measured) -> Json {
    let workload = &measured.workload;
    let (outcome, reason) = match &measured.outcome {
        Outcome::Done => ("done", Json::Null),
        Outcome::Skipped(reason) => ("skipped", Json::text(reason)),
        Outcome::Failed(reason) => ("failed", Json::text(reason)),
    };
    let seconds = Mode::ALL.map(|mode| (mode.name(), series_json(measured.seconds(mode))));
    let baseline = match workload.baseline {
        Baseline::Native => Mode::Native,
        Baseline::OneCore => Mode::OneCore,
    };
    let exceeded = exceeded(measured).into_iter().map(Json::text).collect();
    Json::Object(vec![
        ("name", Json::text(&workload.name)),
        ("title", Json::text(&workload.title)),
        ("outcome", Json::text(outcome)),
        ("reason", reason),
        ("baseline", Json::text(baseline.name())),
        ("noisy", Json::Bool(measured.baseline().is_noisy())),
        ("strace_ratio", Json::number(measured.ratio(Mode::Strace))),
        ("record_ratio", Json::number(measured.ratio(Mode::Record))),
        ("record_limit", Json::number(workload.record_limit)),
        ("replay_ratio", Json::number(measured.ratio(Mode::Replay))),
        ("replay_limit", Json::number(workload.replay_limit)),
        ("exceeded", Json::List(exceeded)),
        ("record_peak_kb", Json::Integer(measured.record_peak_kb)),
        ("replay_peak_kb", Json::Integer(measured.replay_peak_kb)),
        ("log_bytes", Json::Integer(measured.log_bytes)),
        ("file_bytes", Json::Integer(measured.file_bytes)),
        ("seconds", Json::Object(seconds.into())),
    ])
}

fn series_json(series: &Series) -> Json {
    let figures = series.figures.iter().copied().map(Json::Number).collect();
    Json::Object(vec![
        ("median", Json::number(series.median())),
        ("minimum", Json::number(series.minimum())),
        ("maximum", Json::number(series.maximum())),
        ("rounds", Json::List(figures)),
    ])
}

fn markdown_row(cells: &[String]) -> String {
    let mut row = String::from("|");
    for cell in cells {
        row.push_str(&format!(" {} |", cell.replace('|', "\\|")));
    }
    row.push('\n');
    row
}

/// Puts `table` between the markers of the file.
///
/// # Errors
/// If the file cannot be read or written, or has no markers.
pub fn update(path: &Path, table: &str) -> Result<()> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let updated = replace_block(&text, table).ok_or_else(|| format!("{} has no lines {BEGIN} and {END}", path.display()))?;
    std::fs::write(path, updated)?;
    Ok(())
}

fn replace_block(text: &str, block: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{block}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workload::Workload;

    fn measured(native: &[f64], record: f64, replay: f64) -> Measured {
        let workload = Workload { title: "a | b".to_owned(), record_limit: Some(1.4), memory_limit_mb: 64, ..Workload::default() };
        let mut measured = Measured::new(&workload);
        for &figure in native {
            measured.seconds_mut(Mode::Native).push(figure);
        }
        measured.seconds_mut(Mode::Record).push(record);
        measured.seconds_mut(Mode::Replay).push(replay);
        measured
    }

    #[test]
    fn verdicts() {
        let verdict_of = |record, replay| verdict(&measured(&[1.0, 1.1, 0.9], record, replay));
        assert_eq!(verdict_of(1.3, 1.2), "good");
        assert_eq!(verdict_of(1.3, 1.31), "good", "the same, within chance");
        assert_eq!(verdict_of(1.5, 1.2), "over: record");
        assert_eq!(verdict_of(1.3, 1.5), "over: replay slower than record");

        let noisy = measured(&[1.0, 1.1, 1.6], 9.0, 9.0);
        assert_eq!(verdict(&noisy), "noisy: no verdict");
        assert_eq!(cells(&noisy)[4], "noisy");

        let mut large = measured(&[1.0], 1.0, 1.0);
        large.record_peak_kb = 65 * 1024;
        assert_eq!(verdict(&large), "over: memory");
    }

    #[test]
    fn tables_have_all_columns() {
        let report = Report { machine: Machine::look(), rounds: 5, strace_rounds: 1, measured: vec![measured(&[1.0], 1.3, 0.25)] };
        let markdown = report.markdown();
        assert!(markdown.contains("| a \\| b | 1.000 | 0 % | – | 1.30 (≤ 1.4) | 0.25 | – | – | – | good |\n"));
        assert!(report.terminal().contains("1.30 (≤ 1.4)"));
        assert!(report.json().contains("\"record_ratio\": 1.3,"));
        assert!(report.succeeded(true));
    }

    #[test]
    fn limits_count_only_if_asked_for() {
        let mut report = Report { machine: Machine::look(), rounds: 1, strace_rounds: 1, measured: vec![measured(&[1.0], 9.0, 1.0)] };
        assert!(report.succeeded(false) && !report.succeeded(true));
        report.measured[0].outcome = Outcome::Failed("x".to_owned());
        assert!(!report.succeeded(false));
    }

    #[test]
    fn the_block_is_replaced_and_nothing_else() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let once = replace_block(&text, "new\n").unwrap();
        assert_eq!(once, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replace_block(&once, "new\n").unwrap(), once);
        assert_eq!(replace_block("a", "new"), None);
    }
}
