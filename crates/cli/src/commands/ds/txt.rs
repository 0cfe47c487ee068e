//! `retake ds txt`: prints records as text, CSV or JSON.

use std::path::PathBuf;

use clap::Args;
use retake_dataseries::tools::{self, TxtOptions};

use super::{BytesName, OutputOptions, ReadArguments, Selection, files};
use crate::failure::Result;

/// Options of `retake ds txt`.
#[derive(Debug, Args)]
#[command(after_help = "\
Records are printed in the order of the file, in which records of one type are together. In text, \
tabs separate the columns, and bytes that are not text are escaped.

Examples:
  retake ds txt trace.ds --type openat --columns unique_id,given_pathname,return_value
  retake ds txt trace.ds --where 'errno_number = 2' --columns '@type,given_pathname' --csv
  retake ds txt trace.ds --type read --columns 'time_returned - time_called' -n 1000
  retake ds txt trace.ds --json | jq 'select(.return_value < 0)'
")]
pub struct Options {
    /// A DataSeries file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    selection: Selection,

    /// Print these fields or expressions instead of all fields
    #[arg(short, long, value_name = "FIELD", value_delimiter = ',')]
    columns: Vec<String>,

    /// Stop after COUNT records
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<u64>,

    #[command(flatten)]
    output: OutputOptions,

    /// Form of bytes
    #[arg(long, value_enum, default_value_t = BytesName::Escaped, value_name = "STYLE")]
    bytes: BytesName,

    /// Leave out the lines with names of types and fields
    #[arg(long)]
    no_header: bool,

    #[command(flatten)]
    read: ReadArguments,
}

/// Prints the records.
pub fn run(options: &Options) -> Result<()> {
    let source = files::open(&options.file)?;
    let what = TxtOptions {
        types: options.selection.types.clone(),
        columns: options.columns.clone(),
        filter: options.selection.filter.clone(),
        limit: options.limit,
        format: options.output.format(),
        bytes: options.bytes.style(),
        no_header: options.no_header,
        read: options.read.options(),
    };
    let mut warnings = Vec::new();
    files::print(&options.file, |out| {
        warnings = tools::txt(source, out, &what)?.warnings;
        Ok(())
    })?;
    files::warn(&options.file, &warnings);
    Ok(())
}
