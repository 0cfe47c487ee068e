//! `retake ds stat`: computes counts, sums and quantiles.

use std::path::PathBuf;

use clap::Args;
use retake_dataseries::tools::{self, StatOptions};

use super::{BytesName, OutputOptions, ReadArguments, Selection, files, size};
use crate::failure::Result;

/// Options of `retake ds stat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --value the records of each group are counted. Quantiles are exact to about one percent.

Examples:
  retake ds stat trace.ds --by @type
  retake ds stat trace.ds --by @type --value 'time_returned - time_called' --quantiles 0.5,0.99
  retake ds stat trace.ds --type read --by executing_pid --value return_value --where 'return_value >= 0'
  retake ds stat trace.ds --by errno_string --where 'errno_number > 0' --json
")]
pub struct Options {
    /// A DataSeries file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    selection: Selection,

    /// Group by these fields or expressions
    #[arg(short = 'b', long = "by", value_name = "FIELD", value_delimiter = ',')]
    group_by: Vec<String>,

    /// Fields or expressions to summarise
    #[arg(short, long = "value", value_name = "FIELD", value_delimiter = ',')]
    values: Vec<String>,

    /// Quantiles to compute, from 0 to 1
    #[arg(short, long, value_name = "Q", value_delimiter = ',', value_parser = quantile,
        default_values_t = [0.5, 0.9, 0.99])]
    quantiles: Vec<f64>,

    #[command(flatten)]
    output: OutputOptions,

    /// Form of bytes
    #[arg(long, value_enum, default_value_t = BytesName::Escaped, value_name = "STYLE")]
    bytes: BytesName,

    /// Fail if the groups need more memory than this
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256M")]
    memory: usize,

    #[command(flatten)]
    read: ReadArguments,
}

fn quantile(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// Prints the summary.
pub fn run(options: &Options) -> Result<()> {
    let source = files::open(&options.file)?;
    let what = StatOptions {
        types: options.selection.types.clone(),
        filter: options.selection.filter.clone(),
        group_by: options.group_by.clone(),
        values: options.values.clone(),
        quantiles: options.quantiles.clone(),
        format: options.output.format(),
        bytes: options.bytes.style(),
        memory_bytes: options.memory,
        read: options.read.options(),
    };
    files::print(&options.file, |out| tools::stat(source, out, &what).map(|_| ()))
}
