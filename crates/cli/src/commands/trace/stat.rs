//! `retake trace stat`: summarises a trace, as text, JSON or a page.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use retake_trace::statistics::{Statistics, StatisticsReport};
use retake_trace_format::{TraceReader, TraceReaderOptions};

use super::summary::SummaryOrder;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Options of `retake trace stat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Shows calls with counts, times and quantiles; sizes of reads and writes; files; processes. The \
page also shows how all that changed over time. It needs nothing but a browser.

To trace the program `stat`, type `retake trace -- stat`.

Examples:
  retake trace stat x.ds                    tables
  retake trace stat x.ds --html x.html      a page with pictures
  retake trace stat x.ds --json | jq .read  for programs
")]
pub struct Options {
    /// The trace, a DataSeries file
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Order of the table of calls
    #[arg(short = 'S', long, value_enum, value_name = "ORDER", default_value = "time")]
    summary_sort_by: SummaryOrder,

    /// Show COUNT files
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 30)]
    files: usize,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,

    /// Write a page with pictures to this file
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
}

/// Reads the trace and prints the summary.
pub fn run(options: &Options) -> Result<()> {
    let report = read(options)?;
    if let Some(path) = &options.html {
        let page = report.html(&options.trace.display().to_string());
        return fs::write(path, page)
            .map_err(|error| Failure::system("write", path.display(), &error));
    }
    let mut output = Output::new();
    if options.json {
        output.json(&report)?;
    } else {
        report.text().lines().try_for_each(|line| output.line(line))?;
    }
    output.finish()
}

fn read(options: &Options) -> Result<StatisticsReport> {
    let failed = |error: retake_trace_format::TraceError| {
        Failure::new(format!("cannot read the trace {}: {error}", options.trace.display()))
            .attempt("retake ds info TRACE, which says what can be read of it")
    };
    let mut reader =
        TraceReader::open(&options.trace, &TraceReaderOptions::default()).map_err(failed)?;
    let mut statistics = Statistics::default();
    while let Some(record) = reader.next_record().map_err(failed)? {
        statistics.add(record);
    }
    Ok(statistics.report(options.summary_sort_by.into(), options.files))
}
