//! The summary that `retake trace -c` and `-C` print at the end.

use clap::{Args, ValueEnum};
use retake_trace::summary::{COLUMNS, Column, Order};

/// Options of the summary.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Options {
    /// Print counts, times and quantiles by call, not the calls
    #[arg(short = 'c', long)]
    pub summary_only: bool,

    /// The calls, then what -c prints
    #[arg(short = 'C', long, conflicts_with = "summary_only")]
    summary: bool,

    /// Order of the summary
    #[arg(short = 'S', long, value_enum, value_name = "ORDER", default_value = "time")]
    summary_sort_by: SummaryOrder,

    /// Columns of the summary; the name of the call is always the last one
    #[arg(short = 'U', long, value_enum, value_delimiter = ',', value_name = "COLUMNS")]
    summary_columns: Vec<SummaryColumn>,

    /// Times of the summary from entry to return. They always are; the option is accepted for
    /// compatibility
    #[arg(short = 'w', long)]
    summary_wall_clock: bool,
}

impl Options {
    /// The order and the columns, if a summary is wanted.
    pub fn wanted(&self) -> Option<(Order, Vec<Column>)> {
        (self.summary || self.summary_only).then(|| (self.summary_sort_by.into(), self.columns()))
    }

    fn columns(&self) -> Vec<Column> {
        if self.summary_columns.is_empty() {
            return COLUMNS.to_vec();
        }
        let chosen = self
            .summary_columns
            .iter()
            .map(|column| Column::from(*column))
            .filter(|column| *column != Column::Name);
        chosen.chain([Column::Name]).collect()
    }
}

/// The sort orders, with strace's names and ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SummaryOrder {
    #[value(aliases = ["time-percent", "time-total", "total-time"])]
    Time,
    #[value(aliases = ["count"])]
    Calls,
    #[value(aliases = ["error"])]
    Errors,
    #[value(aliases = ["syscall", "syscall-name"])]
    Name,
    #[value(aliases = ["time-avg"])]
    AvgTime,
    #[value(aliases = ["time-min", "shortest"])]
    MinTime,
    #[value(aliases = ["time-max", "longest"])]
    MaxTime,
    #[value(aliases = ["none"])]
    Nothing,
}

impl From<SummaryOrder> for Order {
    fn from(order: SummaryOrder) -> Self {
        match order {
            SummaryOrder::Time => Self::Time,
            SummaryOrder::Calls => Self::Calls,
            SummaryOrder::Errors => Self::Errors,
            SummaryOrder::Name => Self::Name,
            SummaryOrder::AvgTime => Self::Average,
            SummaryOrder::MinTime => Self::Shortest,
            SummaryOrder::MaxTime => Self::Longest,
            SummaryOrder::Nothing => Self::Nothing,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SummaryColumn {
    #[value(aliases = ["time"])]
    TimePercent,
    #[value(aliases = ["time-total"])]
    TotalTime,
    #[value(aliases = ["time-avg"])]
    AvgTime,
    #[value(aliases = ["time-min", "shortest"])]
    MinTime,
    #[value(aliases = ["time-max", "longest"])]
    MaxTime,
    #[value(aliases = ["count"])]
    Calls,
    #[value(aliases = ["error"])]
    Errors,
    P50,
    P95,
    P99,
    #[value(aliases = ["syscall", "syscall-name"])]
    Name,
}

impl From<SummaryColumn> for Column {
    fn from(column: SummaryColumn) -> Self {
        match column {
            SummaryColumn::TimePercent => Self::Share,
            SummaryColumn::TotalTime => Self::Total,
            SummaryColumn::AvgTime => Self::Average,
            SummaryColumn::MinTime => Self::Shortest,
            SummaryColumn::MaxTime => Self::Longest,
            SummaryColumn::Calls => Self::Calls,
            SummaryColumn::Errors => Self::Errors,
            SummaryColumn::P50 => Self::P50,
            SummaryColumn::P95 => Self::P95,
            SummaryColumn::P99 => Self::P99,
            SummaryColumn::Name => Self::Name,
        }
    }
}
