//! `retake ds repack`: the same records, stored in another way.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use retake_dataseries::tools::{self, RepackOptions};
use retake_dataseries::{ByteOrder, Compression, CompressionSet, WriterOptions};

use super::{ReadArguments, files, size};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::text;

/// Options of `retake ds repack`.
#[derive(Debug, Args)]
#[command(after_help = "\
Of several kinds of compression, the one that makes an extent smallest is taken for it. Larger extents compress better, smaller \
ones need less memory to read.

Examples:
  retake ds repack trace.ds -o small.ds --compress zlib,bz2 --level 9 --extent-size 16M
  retake ds repack trace.ds -o reads.ds --type read,pread --where 'return_value > 0'
  retake ds repack monday.ds tuesday.ds -o both.ds
")]
pub struct Options {
    /// DataSeries files, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The file to make; it must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Compression to try: none, lz4, snappy, zlib, bz2
    #[arg(short, long, value_name = "KIND", value_delimiter = ',', default_value = "lz4", value_parser = compression)]
    compress: Vec<Compression>,

    /// How hard zlib and bz2 try, from 1 to 9
    #[arg(short, long, value_name = "LEVEL", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=9))]
    level: u8,

    /// Bytes of records in an extent, at most 64M
    #[arg(short, long, value_name = "SIZE", value_parser = size, default_value = "256k")]
    extent_size: usize,

    /// Byte order of the new file
    #[arg(long, value_enum, default_value_t = OrderName::Little)]
    order: OrderName,

    /// Only records of these types: a name, its last part, its beginning, or a pattern with * and ?
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,

    /// Only records for which this expression holds
    #[arg(short = 'w', long = "where", value_name = "EXPRESSION")]
    filter: Option<String>,

    #[command(flatten)]
    read: ReadArguments,
}

/// Names of [`ByteOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderName {
    Little,
    Big,
}

/// A kind of compression that can be written.
pub fn compression(name: &str) -> std::result::Result<Compression, String> {
    let mode = Compression::from_name(name).filter(|mode| mode.is_writable());
    mode.ok_or_else(|| "expected none, lz4, snappy, zlib or bz2".to_owned())
}

/// The set of some kinds.
pub fn compression_set(modes: &[Compression]) -> Result<CompressionSet> {
    let wanted = modes.iter().filter(|mode| **mode != Compression::None);
    let set = wanted.copied().try_fold(CompressionSet::NONE, CompressionSet::with);
    set.map_err(|error| Failure::new(error.to_string()))
}

/// Rewrites, and prints what came of it.
pub fn run(options: &Options) -> Result<()> {
    let what = RepackOptions {
        types: options.types.clone(),
        filter: options.filter.clone(),
        writer: WriterOptions {
            order: if options.order == OrderName::Big { ByteOrder::Big } else { ByteOrder::Little },
            compression: compression_set(&options.compress)?,
            level: options.level,
            extent_bytes: options.extent_size,
            ..WriterOptions::default()
        },
        read: options.read.options(),
    };
    let sources = options.files.iter().map(|file| files::open(file)).collect::<Result<Vec<_>>>()?;
    let (file, writer) = files::NewFile::create(&options.output)?;
    // Which of several files an error is about cannot be told.
    let name = if let [one] = options.files.as_slice() { one.clone() } else { PathBuf::from("one of the files") };
    let (writer, report) = tools::repack(sources, writer, &what).map_err(|error| files::failure(&name, error))?;
    let bytes = file.keep(writer)?;
    let mut output = Output::new();
    let (records, before) = (text::count(report.records_written), text::bytes(report.read_bytes));
    output.line(format!("{}: {records} records, {} (was {before})", options.output.display(), text::bytes(bytes)))?;
    output.finish()
}
