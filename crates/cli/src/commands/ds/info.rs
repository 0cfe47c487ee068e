//! `retake ds info`: describes the content of a file.

use std::path::PathBuf;

use clap::Args;
use retake_dataseries::tools::{self, InfoOptions};

use super::{OutputOptions, ReadArguments, files};
use crate::failure::Result;

/// Options of `retake ds info`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  retake ds info trace.ds
  retake ds info --verify trace.ds        read everything, and compare it with its digests
  retake ds info --unused --xml trace.ds  all types with their fields
  retake ds info --json trace.ds | jq -s 'map(.records) | add'
")]
pub struct Options {
    /// A DataSeries file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Unpack every extent, and compare it with its digests
    #[arg(long, conflicts_with = "no_verify")]
    verify: bool,

    /// Also print the descriptions of the types (text only)
    #[arg(long)]
    xml: bool,

    /// List types without records, too
    #[arg(long)]
    unused: bool,

    #[command(flatten)]
    output: OutputOptions,

    #[command(flatten)]
    read: ReadArguments,
}

/// Prints the description.
pub fn run(options: &Options) -> Result<()> {
    let source = files::open(&options.file)?;
    let what = InfoOptions {
        verify: options.verify,
        xml: options.xml,
        unused: options.unused,
        format: options.output.format(),
        read: options.read.options(),
    };
    files::print(&options.file, |out| tools::info(source, out, &what))
}
