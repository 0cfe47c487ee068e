//! `retake ds recover`: saves what is left of a damaged file.

use std::path::PathBuf;

use clap::Args;
use retake_dataseries::{ReadOptions, RecoverOptions, StreamReader, recover};

use super::files;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::text;

/// The number of lost parts that are listed.
const LISTED_MAX: usize = 20;

/// Options of `retake ds recover`.
#[derive(Debug, Args)]
#[command(after_help = "\
Every undamaged extent is copied to the new file unchanged. The new file does not say what is \
missing; this command prints it. The status is 0 if anything could be saved.

Examples:
  retake ds recover cut-off.ds -o whole.ds
  retake ds recover damaged.ds -o whole.ds --types-from sound.ds   the descriptions of types are damaged, too
")]
pub struct Options {
    /// The damaged file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The file to make; it must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// A sound file with the same types, to use if their descriptions are damaged
    #[arg(long, value_name = "FILE")]
    types_from: Option<PathBuf>,
}

/// Copies the undamaged parts, and prints what was lost.
pub fn run(options: &Options) -> Result<()> {
    let types = match &options.types_from {
        None => None,
        Some(path) => {
            let reader = StreamReader::open(files::open_file(path)?, ReadOptions::default());
            Some(reader.map_err(|error| files::failure(path, error))?.library().clone())
        }
    };
    let source = files::open_file(&options.file)?;
    let (file, writer) = files::NewFile::create(&options.output)?;
    let what = RecoverOptions { types, ..RecoverOptions::default() };
    let (writer, report) = recover(source, writer, &what).map_err(|error| {
        let failure =
            Failure::new(format!("{}: nothing can be saved: {error}", options.file.display()));
        if options.types_from.is_none() {
            failure.attempt("--types-from with an undamaged file of the same kind")
        } else {
            failure
        }
    })?;
    let bytes = file.keep(writer)?;
    let mut output = Output::new();
    let saved = format!(
        "{} extents with {} records",
        text::count(report.extents),
        text::count(report.records)
    );
    output.line(format!("{}: {saved}, {}", options.output.display(), text::bytes(bytes)))?;
    if report.is_sound() {
        output.line("the file was not damaged")?;
    } else {
        let end = if report.had_tail { "" } else { "; the end of the file is missing" };
        output.line(format!(
            "lost: {} bytes in {} places{end}",
            text::count(report.lost_bytes),
            text::count(report.lost_ranges)
        ))?;
    }
    for lost in report.lost.iter().take(LISTED_MAX) {
        output.line(format!(
            "  {} bytes at {}: {}",
            lost.bytes,
            lost.offset,
            text::harmless(&lost.reason)
        ))?;
    }
    if report.lost_ranges > LISTED_MAX as u64 {
        output.line(format!("  and {} more", report.lost_ranges - LISTED_MAX as u64))?;
    }
    output.finish()
}
