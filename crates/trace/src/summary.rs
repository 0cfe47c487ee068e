//! Counts and times by call, as `strace -c` gives them, with quantiles.

use hdrhistogram::Histogram;
use retake_trace_format::TracedCall;
use serde::Serialize;
use std::collections::BTreeMap;

/// The precision of quantiles, in decimal digits.
const DIGITS: u8 = 2;

#[derive(Debug)]
struct Row {
    total_ns: u64,
    calls: u64,
    errors: u64,
    durations: Option<Histogram<u64>>,
}

/// The order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Most time first.
    #[default]
    Time,
    /// Most calls first.
    Calls,
    /// Most errors first.
    Errors,
    /// By name.
    Name,
    /// Most time on average first.
    Average,
    /// Longest shortest time first.
    Shortest,
    /// Longest longest time first.
    Longest,
    /// By call number.
    Nothing,
}

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The share of the time in all calls.
    Share,
    /// The total time, in seconds.
    Total,
    /// The average time, in microseconds.
    Average,
    /// The shortest time, in microseconds.
    Shortest,
    /// The longest time, in microseconds.
    Longest,
    /// The number of calls.
    Calls,
    /// The number of calls that failed.
    Errors,
    /// The median time, in microseconds.
    P50,
    /// The 95th percentile of times, in microseconds.
    P95,
    /// The 99th percentile of times, in microseconds.
    P99,
    /// The name of the call.
    Name,
}

/// The default columns: strace's, and the distribution of times.
pub const COLUMNS: [Column; 10] = [
    Column::Share,
    Column::Total,
    Column::Average,
    Column::Calls,
    Column::Errors,
    Column::P50,
    Column::P95,
    Column::P99,
    Column::Longest,
    Column::Name,
];

/// Sums calls up.
#[derive(Debug, Default)]
pub struct Summary {
    rows: BTreeMap<u32, Row>,
}

impl Summary {
    /// Adds a call.
    pub fn add(&mut self, call: &TracedCall) {
        let new =
            || Row { total_ns: 0, calls: 0, errors: 0, durations: Histogram::new(DIGITS).ok() };
        let row = self.rows.entry(call.number).or_insert_with(new);
        row.calls += 1;
        row.errors += u64::from(call.failed());
        if call.returned_ns != 0 {
            let duration_ns = call.returned_ns.saturating_sub(call.entered_ns);
            row.total_ns += duration_ns;
            if let Some(durations) = &mut row.durations {
                // The histogram takes all times but those of centuries.
                let _ = durations.record(duration_ns);
            }
        }
    }

    /// Returns a row for each call.
    pub fn rows(&self, order: Order) -> Vec<SummaryRow> {
        let mut rows: Vec<_> =
            self.rows.iter().map(|(number, row)| row.told(name(*number))).collect();
        match order {
            Order::Time => rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns)),
            Order::Calls => rows.sort_by_key(|row| std::cmp::Reverse(row.calls)),
            Order::Errors => rows.sort_by_key(|row| std::cmp::Reverse(row.errors)),
            Order::Name => rows.sort_by(|left, right| left.name.cmp(&right.name)),
            Order::Average => {
                rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns / row.calls.max(1)))
            }
            Order::Shortest => rows.sort_by_key(|row| std::cmp::Reverse(row.min_ns)),
            Order::Longest => rows.sort_by_key(|row| std::cmp::Reverse(row.max_ns)),
            Order::Nothing => {}
        }
        rows
    }

    /// Returns the table. Times are those between entry and return.
    pub fn table(&self, order: Order, columns: &[Column]) -> String {
        table(&self.rows(order), columns)
    }
}

/// The counts and times of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SummaryRow {
    /// Its name.
    pub name: String,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that failed.
    pub errors: u64,
    /// The total time.
    pub total_ns: u64,
    /// The shortest time.
    pub min_ns: u64,
    /// The median time.
    pub p50_ns: u64,
    /// The 95th percentile of times.
    pub p95_ns: u64,
    /// The 99th percentile of times.
    pub p99_ns: u64,
    /// The longest time.
    pub max_ns: u64,
}

impl Row {
    fn told(&self, name: String) -> SummaryRow {
        let quantile = |quantile: f64| {
            self.durations.as_ref().map_or(0, |durations| durations.value_at_quantile(quantile))
        };
        let Self { total_ns, calls, errors, .. } = *self;
        let max_ns = self.durations.as_ref().map_or(0, Histogram::max);
        let min_ns = self.durations.as_ref().map_or(0, Histogram::min);
        SummaryRow {
            name,
            calls,
            errors,
            total_ns,
            min_ns,
            p50_ns: quantile(0.5),
            p95_ns: quantile(0.95),
            p99_ns: quantile(0.99),
            max_ns,
        }
    }
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Self::Share => "% time",
            Self::Total => "seconds",
            Self::Average => "usecs/call",
            Self::Shortest => "shortest",
            Self::Longest => "longest",
            Self::Calls => "calls",
            Self::Errors => "errors",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Name => "syscall",
        }
    }

    /// Returns the width in characters. For names it is that of the rule below the heading.
    fn width(self) -> usize {
        match self {
            Self::Share => 6,
            Self::Total | Self::Average => 11,
            Self::Name => 16,
            _ => 9,
        }
    }

    fn text(self, row: &SummaryRow, total_ns: u64) -> String {
        let share = if total_ns == 0 { 0.0 } else { row.total_ns as f64 * 100.0 / total_ns as f64 };
        match self {
            Self::Share => format!("{share:.2}"),
            Self::Total => format!("{:.6}", row.total_ns as f64 / 1e9),
            Self::Average => (row.total_ns / 1000 / row.calls.max(1)).to_string(),
            Self::Shortest => microseconds(row.min_ns),
            Self::Longest => microseconds(row.max_ns),
            Self::Calls => row.calls.to_string(),
            Self::Errors if row.errors == 0 => String::new(),
            Self::Errors => row.errors.to_string(),
            Self::P50 => microseconds(row.p50_ns),
            Self::P95 => microseconds(row.p95_ns),
            Self::P99 => microseconds(row.p99_ns),
            Self::Name => row.name.clone(),
        }
    }

    /// Returns the text for all calls together, which have no quantiles.
    fn total_text(self, all: &SummaryRow) -> String {
        match self {
            Self::Shortest | Self::Longest | Self::P50 | Self::P95 | Self::P99 => String::new(),
            _ => self.text(all, all.total_ns),
        }
    }
}

/// Returns rows with a heading and a sum.
pub(crate) fn table(rows: &[SummaryRow], columns: &[Column]) -> String {
    let total_ns: u64 = rows.iter().map(|row| row.total_ns).sum();
    let (calls, errors) =
        rows.iter().fold((0, 0), |(calls, errors), row| (calls + row.calls, errors + row.errors));
    let all = SummaryRow {
        name: String::from("total"),
        calls,
        errors,
        total_ns,
        ..SummaryRow::default()
    };
    let rule = line(columns, |column| "-".repeat(column.width()));
    let mut text = line(columns, |column| column.heading().to_owned()) + &rule;
    for row in rows {
        text += &line(columns, |column| column.text(row, total_ns));
    }
    text + &rule + &line(columns, |column| column.total_text(&all))
}

fn name(number: u32) -> String {
    let row = u16::try_from(number).ok().and_then(retake_model::table::call);
    row.map_or_else(|| format!("syscall_{number}"), |row| row.name.to_owned())
}

/// Returns a line with numbers aligned to the right and names to the left.
fn line(columns: &[Column], text: impl Fn(Column) -> String) -> String {
    let cell = |column: &Column| match column {
        Column::Name => text(*column),
        column => format!("{:>width$}", text(*column), width = column.width()),
    };
    let cells: Vec<String> = columns.iter().map(cell).collect();
    format!("{}\n", cells.join(" ").trim_end())
}

fn microseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::table::number;

    #[test]
    fn calls_are_summed_up() {
        let mut summary = Summary::default();
        for ns in 1..=100 {
            summary.add(&TracedCall {
                number: number::READ.into(),
                entered_ns: 1,
                returned_ns: 1 + ns * 1000,
                ..TracedCall::default()
            });
        }
        summary.add(&TracedCall {
            number: number::OPEN.into(),
            result: -2,
            entered_ns: 1,
            returned_ns: 2,
            ..TracedCall::default()
        });
        let text = summary.table(Order::Name, &COLUMNS);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[2].ends_with(" open")
                && lines[3].ends_with(" read")
                && lines[5].ends_with(" total"),
            "{text}"
        );
        assert_eq!(
            lines[3].split_ascii_whitespace().collect::<Vec<_>>()[..4],
            ["100.00", "0.005050", "50", "100"]
        );
        assert!(lines[3].contains("50.") && lines[2].contains(" 1 "), "{text}");
        let text = summary.table(Order::Shortest, &[Column::Calls, Column::Shortest, Column::Name]);
        assert_eq!(text.lines().next(), Some("    calls  shortest syscall"), "{text}");
        assert_eq!(text.lines().nth(2), Some("      100       1.0 read"), "{text}");
    }
}
