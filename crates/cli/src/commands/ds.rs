//! `retake ds`: the tools for DataSeries files.

mod export;
mod files;
mod import;
mod info;
mod recover;
mod repack;
mod stat;
mod txt;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use retake_dataseries::tools::{BytesStyle, Format};
use retake_dataseries::{Compression, CompressionSet, Digests, ReadOptions, WriterOptions};

use crate::failure::{Failure, Result};

/// Options of `retake ds`.
#[derive(Debug, Args)]
#[command(after_help = "\
DataSeries files hold typed records in compressed, checksummed extents; traces of system calls are \
such files. These commands work on every DataSeries file, whichever program wrote it.

Examples:
  retake ds info trace.ds                       types, records, sizes, compression
  retake ds txt trace.ds --type openat -n 20    the first twenty files opened
  retake ds stat trace.ds --by @type            how often each call was made
  retake ds recover broken.ds -o whole.ds       what is left of a damaged file
  retake ds export trace.ds --parquet tables    for pandas, DuckDB, Spark

Expressions, for filters and columns, are made of field names, numbers, \"strings\", + - * / % &, = != < <= > >=, like (a glob), \
contains, is null, is not null, and, or, not, parentheses; @type is the type of the record.
")]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print records, as text, CSV or JSON
    Txt(txt::Options),
    /// Describe a file: its types, records, sizes, compression
    Info(info::Options),
    /// Rewrite files: other compression, extent size or byte order; only some records; several into
    /// one
    Repack(repack::Options),
    /// Count and summarise records, by groups
    Stat(stat::Options),
    /// Save the undamaged parts of a damaged file
    Recover(recover::Options),
    /// Convert a DataSeries file to Parquet files
    Export(export::Options),
    /// Convert Parquet files to a DataSeries file
    Import(import::Options),
}

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    match &options.command {
        Command::Txt(options) => txt::run(options),
        Command::Info(options) => info::run(options),
        Command::Repack(options) => repack::run(options),
        Command::Stat(options) => stat::run(options),
        Command::Recover(options) => recover::run(options),
        Command::Export(options) => export::run(options),
        Command::Import(options) => import::run(options),
    }
}

/// Options for the printing of tables.
#[derive(Debug, Clone, Args)]
struct OutputOptions {
    /// Form of the output
    #[arg(long, value_enum, default_value_t = FormatName::Text, value_name = "FORM")]
    format: FormatName,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// The same as --format csv
    #[arg(long, conflicts_with_all = ["format", "json"])]
    csv: bool,
}

/// Options that select records.
#[derive(Debug, Clone, Args)]
struct Selection {
    /// Only records of these types: a name, its last part, its beginning, or a pattern with * and ?
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,

    /// Only records for which this expression holds
    #[arg(short = 'w', long = "where", value_name = "EXPRESSION")]
    filter: Option<String>,
}

/// Options for a new file and the storage of its records.
#[derive(Debug, Clone, Args)]
struct WriteArguments {
    /// The file to make; it must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Compression to try: none, lz4, snappy, zlib, bz2
    #[arg(short, long, value_name = "KIND", value_delimiter = ',', default_value = "lz4",
        value_parser = compression)]
    compress: Vec<Compression>,

    /// Bytes of records in an extent, at most 64M
    #[arg(short, long, value_name = "SIZE", value_parser = size, default_value = "256k")]
    extent_size: usize,
}

impl WriteArguments {
    fn options(&self) -> Result<WriterOptions> {
        let wanted = self.compress.iter().filter(|mode| **mode != Compression::None);
        let set = wanted.copied().try_fold(CompressionSet::NONE, CompressionSet::with);
        let compression = set.map_err(|error| Failure::new(error.to_string()))?;
        Ok(WriterOptions {
            compression,
            extent_bytes: self.extent_size,
            ..WriterOptions::default()
        })
    }
}

/// Parses a kind of compression that this build can write.
fn compression(name: &str) -> std::result::Result<Compression, String> {
    let mode = Compression::from_name(name).filter(|mode| mode.is_writable());
    mode.ok_or_else(|| "expected none, lz4, snappy, zlib or bz2".to_owned())
}

impl OutputOptions {
    fn format(&self) -> Format {
        match (self.json, self.csv, self.format) {
            (true, ..) | (_, _, FormatName::Json) => Format::Json,
            (_, true, _) | (_, _, FormatName::Csv) => Format::Csv,
            _ => Format::Text,
        }
    }
}

/// Names of [`Format`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// Columns with tabs between them
    Text,
    /// Comma-separated values with a line of names
    Csv,
    /// One object a line
    Json,
}

/// Names of [`BytesStyle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BytesName {
    /// Text, with escapes for other bytes
    Escaped,
    /// Hexadecimal digits
    Hex,
    /// As they are
    Raw,
}

impl BytesName {
    fn style(self) -> BytesStyle {
        match self {
            Self::Escaped => BytesStyle::Escaped,
            Self::Hex => BytesStyle::Hex,
            Self::Raw => BytesStyle::Raw,
        }
    }
}

/// Options for the reading of files.
#[derive(Debug, Clone, Args)]
struct ReadArguments {
    /// Do not compare data with their digests: faster, but damage may go unseen
    #[arg(long)]
    no_verify: bool,
}

impl ReadArguments {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            digests: if self.no_verify { Digests::None } else { Digests::Both },
            ..ReadOptions::default()
        }
    }
}

/// Parses a number of bytes: `4096`, `64k`, `1M`.
fn size(text: &str) -> std::result::Result<usize, String> {
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => {
            return Err("expected a number of bytes; k, M or G after it stands for KiB, MiB, GiB"
                .to_owned());
        }
    };
    let number = digits.parse::<usize>().ok().filter(|number| *number > 0);
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "expected a number of bytes above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(
            [size("1"), size("64k"), size("2MiB"), size("1G")],
            [Ok(1), Ok(65536), Ok(2 << 20), Ok(1 << 30)]
        );
        for bad in ["", "k", "0", "1T", "-1", "99999999999999999999", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
