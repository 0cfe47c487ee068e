//! `retake ds export`: makes Parquet files of a DataSeries file.

use std::path::{Path, PathBuf};

use clap::Args;
use retake_dataseries_parquet::{ExportOptions, export_types, export_wide};

use super::{ReadArguments, files, size};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::text;

/// Options of `retake ds export`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("form").args(["parquet", "wide"]).required(true)))]
#[command(after_help = "\
With --parquet, each type of records becomes a file of its own in a folder. With --wide, all types \
become one file: its column `extent_type` has the type, and fields that a type does not have are \
null. Bytes stay bytes; --text turns the named fields into strings, without the NUL at their end. \
`retake ds import` turns both forms back into a DataSeries file.

Examples:
  retake ds export trace.ds --parquet tables
  retake ds export trace.ds --wide trace.parquet --text given_pathname,full_pathname,errno_string
  duckdb -c \"select extent_type, count(*) from 'trace.parquet' group by 1 order by 2 desc\"
")]
pub struct Options {
    /// A DataSeries file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Make one file for each type in this folder, which must not exist
    #[arg(long, value_name = "FOLDER")]
    parquet: Option<PathBuf>,

    /// Make one file of all records
    #[arg(long, value_name = "FILE")]
    wide: Option<PathBuf>,

    /// Only records of these types: a name, its last part, its beginning, or a pattern with * and ?
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,

    /// Fields that hold text
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    text: Vec<String>,

    /// Compression level of Zstandard, from 1 to 22
    #[arg(short, long, value_name = "LEVEL", default_value_t = 3,
        value_parser = clap::value_parser!(i32).range(1..=22))]
    level: i32,

    /// Bytes of records in a row group: more compress better, and need more memory
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "32M")]
    group_size: usize,

    #[command(flatten)]
    read: ReadArguments,
}

/// The failure of a conversion, as a message for the user.
pub(super) fn failure(path: &Path, error: retake_dataseries_parquet::Error) -> Failure {
    match error {
        retake_dataseries_parquet::Error::DataSeries(error) => files::failure(path, error),
        error => Failure::new(format!("{}: {error}", text::harmless(&path.to_string_lossy()))),
    }
}

/// Converts, and prints the new files.
pub fn run(options: &Options) -> Result<()> {
    let what = ExportOptions {
        types: options.types.clone(),
        text_fields: options.text.clone(),
        level: options.level,
        group_bytes: options.group_size,
        read: options.read.options(),
    };
    let mut output = Output::new();
    if let Some(folder) = &options.parquet {
        let source = files::open(&options.file)?;
        std::fs::create_dir(folder)
            .map_err(|error| Failure::system("make", folder.display(), &error))?;
        let made =
            export_types(source, folder, &what).map_err(|error| failure(&options.file, error))?;
        for file in made {
            output.line(format!(
                "{}: {} records",
                file.path.display(),
                text::count(file.records)
            ))?;
        }
    }
    if let Some(path) = &options.wide {
        let source = files::open_file(&options.file)?;
        let (file, writer) = files::NewFile::create(path)?;
        let (writer, records) =
            export_wide(source, writer, &what).map_err(|error| failure(&options.file, error))?;
        let bytes = file.keep(writer)?;
        output.line(format!(
            "{}: {} records, {}",
            path.display(),
            text::count(records),
            text::bytes(bytes)
        ))?;
    }
    output.finish()
}
