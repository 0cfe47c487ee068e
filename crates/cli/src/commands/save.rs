//! `retake save`: saves a recording that is kept in memory.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::in_memory::InMemory;
use crate::output::Output;
use crate::recordings;
use crate::text;

/// Options of `retake save`.
#[derive(Debug, Args)]
#[command(after_help = "\
`retake record --in-memory` keeps a recording in memory. `retake save` copies what is there at this \
moment; the program does not wait, and recording goes on. The copy is a packed recording. If the \
recorder was killed, its recording is removed from memory then.

Examples:
  retake save                   the only recording in memory
  retake save server-4711       the one with this name: see retake ls
  retake save $(pidof server)   the one of this process
")]
pub struct Options {
    /// A name, or the process ID of the recorder or of a recorded process. Without it, the only
    /// recording in memory
    #[arg(value_name = "NAME|PID")]
    what: Option<OsString>,

    /// The file to make, which must not exist. Without it, retake names it (see `retake ls`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Saves it, and prints the name of the copy.
pub fn run(options: &Options) -> Result<()> {
    let memory = find(options.what.as_deref())?;
    let listing = memory.listing().ok_or_else(|| Failure::new("the recording has just ended"))?;
    let path = match &options.output {
        Some(output) => {
            memory.save_as(output)?;
            output.clone()
        }
        None => {
            let program = listing.metadata.as_ref().map(|one| one.command.as_os_str());
            let program = program.map_err(|error| Failure::new(error.to_string()))?;
            memory.save(&recordings::prepared_location()?, program)?
        }
    };
    if !recordings::is_being_recorded(&listing) {
        memory.remove()?;
    }
    let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    let shown = match options.output {
        Some(_) => path.display().to_string(),
        None => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let mut output = Output::new();
    output.line(format!("{} ({})", text::harmless(&shown), text::bytes(size)))?;
    output.finish()
}

fn find(what: Option<&OsStr>) -> Result<InMemory> {
    let Some(what) = what else {
        let mut all = InMemory::all();
        return match (all.pop(), all.len()) {
            (None, _) => Err(Failure::new("no recording is in memory")
                .attempt("retake record --in-memory 256M PROGRAM")),
            (Some(only), 0) => Ok(only),
            (Some(_), more) => Err(Failure::new(format!("{} recordings are in memory", more + 1))
                .attempt("retake ls, which names them")),
        };
    };
    InMemory::find(what).ok_or_else(|| {
        let what = text::quoted(&what.to_string_lossy());
        Failure::new(format!("no recording in memory is called {what}, nor is it a process of one"))
            .attempt("retake ls, which names them")
    })
}
