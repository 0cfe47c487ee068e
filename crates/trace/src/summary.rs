//! Counts and times by call, as `strace -c` gives them, with quantiles.

use hdrhistogram::Histogram;
use retake_trace_format::TracedCall;
use serde::Serialize;
use std::collections::BTreeMap;

/// Digits that quantiles are right to.
const DIGITS: u8 = 2;

#[derive(Debug)]
struct Row {
    total_ns: u64,
    calls: u64,
    errors: u64,
    durations: Option<Histogram<u64>>,
}

/// By what rows are put in order.
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
}

/// Sums calls up.
#[derive(Debug, Default)]
pub struct Summary {
    rows: BTreeMap<u32, Row>,
}

impl Summary {
    /// Counts a call.
    pub fn add(&mut self, call: &TracedCall) {
        let new = || Row { total_ns: 0, calls: 0, errors: 0, durations: Histogram::new(DIGITS).ok() };
        let row = self.rows.entry(call.number).or_insert_with(new);
        row.calls += 1;
        row.errors += u64::from(call.failed());
        if call.returned_ns != 0 {
            let duration_ns = call.returned_ns.saturating_sub(call.entered_ns);
            row.total_ns += duration_ns;
            if let Some(durations) = &mut row.durations {
                // Beyond what the histogram holds are only times of centuries.
                let _ = durations.record(duration_ns);
            }
        }
    }

    /// A row for each call.
    pub fn rows(&self, order: Order) -> Vec<SummaryRow> {
        let mut rows: Vec<_> = self.rows.iter().map(|(number, row)| row.told(name(*number))).collect();
        match order {
            Order::Time => rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns)),
            Order::Calls => rows.sort_by_key(|row| std::cmp::Reverse(row.calls)),
            Order::Errors => rows.sort_by_key(|row| std::cmp::Reverse(row.errors)),
            Order::Name => rows.sort_by(|left, right| left.name.cmp(&right.name)),
        }
        rows
    }

    /// The table. Times are those that passed between entry and return.
    pub fn table(&self, order: Order) -> String {
        table(&self.rows(order))
    }
}

/// What is known of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SummaryRow {
    /// Its name.
    pub name: String,
    /// How often it was made.
    pub calls: u64,
    /// Of that, how often it failed.
    pub errors: u64,
    /// Time in all of them.
    pub total_ns: u64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 95 % of them took no longer.
    pub p95_ns: u64,
    /// 99 % of them took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Row {
    fn told(&self, name: String) -> SummaryRow {
        let quantile = |quantile: f64| self.durations.as_ref().map_or(0, |durations| durations.value_at_quantile(quantile));
        let Self { total_ns, calls, errors, .. } = *self;
        let max_ns = self.durations.as_ref().map_or(0, Histogram::max);
        SummaryRow { name, calls, errors, total_ns, p50_ns: quantile(0.5), p95_ns: quantile(0.95), p99_ns: quantile(0.99), max_ns }
    }
}

/// Rows with a heading and a sum.
pub(crate) fn table(rows: &[SummaryRow]) -> String {
    let total_ns: u64 = rows.iter().map(|row| row.total_ns).sum();
    let mut text = String::from("% time     seconds  usecs/call     calls    errors       p50       p95       p99       max syscall\n");
    let rule = "------ ----------- ----------- --------- --------- --------- --------- --------- --------- ----------------\n";
    text += rule;
    for row in rows {
        let quantiles = [row.p50_ns, row.p95_ns, row.p99_ns, row.max_ns].map(microseconds);
        text += &line(row, &quantiles.each_ref().map(String::as_str), total_ns);
    }
    text += rule;
    let (calls, errors) = rows.iter().fold((0, 0), |(calls, errors), row| (calls + row.calls, errors + row.errors));
    let all = SummaryRow { name: String::from("total"), calls, errors, total_ns, p50_ns: 0, p95_ns: 0, p99_ns: 0, max_ns: 0 };
    text + &line(&all, &[""; 4], total_ns)
}

fn name(number: u32) -> String {
    let row = u16::try_from(number).ok().and_then(retake_model::table::call);
    row.map_or_else(|| format!("syscall_{number}"), |row| row.name.to_owned())
}

fn line(row: &SummaryRow, quantiles: &[&str; 4], total_ns: u64) -> String {
    let share = if total_ns == 0 { 0.0 } else { row.total_ns as f64 * 100.0 / total_ns as f64 };
    let errors = if row.errors == 0 { String::new() } else { row.errors.to_string() };
    let [p50, p95, p99, max] = quantiles;
    format!(
        "{share:6.2} {:11.6} {:11} {:9} {errors:>9} {p50:>9} {p95:>9} {p99:>9} {max:>9} {}\n",
        row.total_ns as f64 / 1e9,
        row.total_ns / 1000 / row.calls.max(1),
        row.calls,
        row.name,
    )
}

fn microseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_summed_up() {
        let mut summary = Summary::default();
        for ns in 1..=100 {
            summary.add(&TracedCall { number: 0, entered_ns: 1, returned_ns: 1 + ns * 1000, ..TracedCall::default() });
        }
        summary.add(&TracedCall { number: 2, result: -2, entered_ns: 1, returned_ns: 2, ..TracedCall::default() });
        let text = summary.table(Order::Name);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].ends_with(" open") && lines[3].ends_with(" read") && lines[5].ends_with(" total"), "{text}");
        assert_eq!(lines[3].split_ascii_whitespace().collect::<Vec<_>>()[..4], ["100.00", "0.005050", "50", "100"]);
        assert!(lines[3].contains("50.") && lines[2].contains(" 1 "), "{text}");
    }
}
