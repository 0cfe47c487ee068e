//! `retake ds import`: makes a DataSeries file of Parquet files.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use retake_dataseries_parquet::{ImportOptions, import};

use super::{WriteArguments, files};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::text;

/// Options of `retake ds import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Files from `retake ds export` become what they were before. Any other Parquet file becomes one \
type with the name of the file; its columns must be numbers, bits or bytes, not lists or \
structures.

Examples:
  retake ds import tables -o trace.ds
  retake ds import trace.parquet -o trace.ds --compress zlib
")]
pub struct Options {
    /// Parquet files, or folders of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    write: WriteArguments,
}

/// The Parquet files in a folder, sorted by name, or the given file itself.
fn parquet_files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries =
        fs::read_dir(path).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let entries = entries.map_err(|error| Failure::system("read", path.display(), &error))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    paths.sort();
    if paths.is_empty() {
        return Err(Failure::new(format!("no file in {} is called *.parquet", path.display())));
    }
    Ok(paths)
}

/// Converts, and prints the new file.
pub fn run(options: &Options) -> Result<()> {
    let paths: Vec<PathBuf> =
        options.files.iter().map(|path| parquet_files(path)).collect::<Result<Vec<_>>>()?.concat();
    let what = ImportOptions { writer: options.write.options()? };
    let (file, writer) = files::NewFile::create(&options.write.output)?;
    let (writer, records) = import(&paths, writer, &what)
        .map_err(|(path, error)| super::export::failure(&path, error))?;
    let bytes = file.keep(writer)?;
    let mut output = Output::new();
    output.line(format!(
        "{}: {} records, {}",
        options.write.output.display(),
        text::count(records),
        text::bytes(bytes)
    ))?;
    output.finish()
}
