//! `retake ds repack`: stores the same records in another way.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use retake_dataseries::tools::{self, RepackOptions};
use retake_dataseries::{ByteOrder, WriterOptions};

use super::{ReadArguments, Selection, WriteArguments, files};
use crate::failure::Result;
use crate::output::Output;
use crate::text;

/// Options of `retake ds repack`.
#[derive(Debug, Args)]
#[command(after_help = "\
If several kinds of compression are given, each extent gets the one that makes it smallest. Larger \
extents compress better, smaller ones need less memory to read.

Examples:
  retake ds repack trace.ds -o small.ds --compress zlib,bz2 --level 9 --extent-size 16M
  retake ds repack trace.ds -o reads.ds --type read,pread --where 'return_value > 0'
  retake ds repack monday.ds tuesday.ds -o both.ds
")]
pub struct Options {
    /// DataSeries files, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    write: WriteArguments,

    /// Compression level of zlib and bz2, from 1 to 9
    #[arg(short, long, value_name = "LEVEL", default_value_t = 6,
        value_parser = clap::value_parser!(u8).range(1..=9))]
    level: u8,

    /// Byte order of the new file
    #[arg(long, value_enum, default_value_t = OrderName::Little)]
    order: OrderName,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    read: ReadArguments,
}

/// Names of [`ByteOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderName {
    Little,
    Big,
}

/// Rewrites, and prints the result.
pub fn run(options: &Options) -> Result<()> {
    let what = RepackOptions {
        types: options.selection.types.clone(),
        filter: options.selection.filter.clone(),
        writer: WriterOptions {
            order: if options.order == OrderName::Big { ByteOrder::Big } else { ByteOrder::Little },
            level: options.level,
            ..options.write.options()?
        },
        read: options.read.options(),
    };
    let sources = options.files.iter().map(|file| files::open(file)).collect::<Result<Vec<_>>>()?;
    let (file, writer) = files::NewFile::create(&options.write.output)?;
    // With several files, the error does not say which of them it concerns.
    let name = if let [one] = options.files.as_slice() {
        one.clone()
    } else {
        PathBuf::from("one of the files")
    };
    let (writer, report) =
        tools::repack(sources, writer, &what).map_err(|error| files::failure(&name, error))?;
    let bytes = file.keep(writer)?;
    let mut output = Output::new();
    let (records, before) = (text::count(report.records_written), text::bytes(report.read_bytes));
    output.line(format!(
        "{}: {records} records, {} (was {before})",
        options.write.output.display(),
        text::bytes(bytes)
    ))?;
    output.finish()
}
