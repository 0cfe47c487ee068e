//! `retake trace`: shows or keeps the system calls of a program with all their data, as text or as
//! a trace file.

mod options;
mod refused;
mod source;
mod stat;
mod summary;
mod text;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use retake_reanimate::Manifest;
use retake_recording::Recording;
use retake_trace::recording::Wanted;
use retake_trace::{Error, Filter, Observation, Unseen, inside};
use retake_trace_format::TraceRecord;

pub use self::options::Options;
use self::options::Other;
use crate::failure::{Failure, Result};
use crate::find_program;
use crate::recordings;
use crate::replayable::{check_build, check_whole};
use crate::scratch::Scratch;
use crate::trace_output::Shown;
use crate::trace_source::Source;

/// Traces, and ends this process as the program ended. Returns if that fails, or after tracing a
/// recording.
pub fn run(options: &Options) -> Result<()> {
    if let Some(Other::Stat(options)) = &options.other {
        return stat::run(options);
    }
    options.refused.check()?;
    let filter = options.filter()?;
    match &options.from {
        Some(name) => trace_recording(options, name, filter),
        None => trace_program(options, filter),
    }
}

fn trace_recording(options: &Options, name: &OsString, filter: Filter) -> Result<()> {
    let recording = recordings::open(name)?;
    recordings::warn(&recording);
    let mut output = options.make_output(filter, true)?;
    if inside::is_spool(&recording) {
        inside::read_spool(&recording, |observation| output.observe(observation))?;
    } else {
        check_build(&recording)?;
        check_whole(&recording, "trace --from")?;
        let scratch = Scratch::create()?;
        let mut unseen = Unseen::default();
        let observe = |observation| {
            unseen.note(&observation);
            output.observe(observation)
        };
        let wanted = Wanted { quiet: true, mapped_pages: options.kept_bytes().is_none() };
        retake_trace::recording::read(&recording, wanted, scratch.path(), observe)?;
        if let Some(reason) = unseen.reason().filter(|_| options.kept_bytes().is_none()) {
            output.observe(Observation::Record(TraceRecord::Incomplete(reason)))?;
        }
    }
    output.finish()
}

fn trace_program(options: &Options, filter: Filter) -> Result<()> {
    let source = options.source()?;
    let tree = options.tree()?;
    let status = match options.trace_file() {
        Some(path) => trace_to_file(options, filter, &source, path)?,
        None => trace_to_text(options, filter, &source)?,
    };
    if let (Some(file), Some(tree)) = (&options.manifest, tree) {
        take_manifest(&tree, file)?;
    }
    retake_kernel::signals::end_as(status)
}

/// Spools the events to disk while the program runs, and sorts them afterwards. The program waits
/// for nothing but the disk.
fn trace_to_file(options: &Options, filter: Filter, source: &Source, path: &Path) -> Result<i32> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(".spool");
    let folder = std::path::absolute(&folder)
        .map_err(|error| Failure::system("find", folder.display(), &error))?;
    // Succeeds only for an empty folder, which counts as absent.
    let _ = fs::remove_dir(&folder);
    // Opened before the program runs, so that an error is found early.
    let mut output = options.make_output(filter, false)?;
    let status = match source.spool_to(&folder) {
        Ok(status) => status,
        Err(failure) => {
            let is_empty = Recording::open(&folder)
                .is_ok_and(|spool| spool.streams().all(|stream| stream.bytes == 0));
            if is_empty || !folder.exists() {
                let _ = fs::remove_dir_all(&folder);
                let _ = fs::remove_file(path);
                return Err(failure);
            }
            return Err(failure.attempt(format!(
                "retake trace --from {} -o FILE.ds, which has what was traced until then",
                folder.display()
            )));
        }
    };
    let spool = Recording::open(&folder)?;
    inside::read_spool(&spool, |observation| output.observe(observation))?;
    output.finish()?;
    drop(spool);
    fs::remove_dir_all(&folder)
        .map_err(|error| Failure::system("remove", folder.display(), &error))?;
    Ok(status)
}

fn trace_to_text(options: &Options, filter: Filter, source: &Source) -> Result<i32> {
    let output = options.make_output(filter, false)?;
    let shown = Shown::new(output);
    let status = source.live(shown.observer())?;
    shown.finish()?;
    Ok(status)
}

fn take_manifest(tree: &Path, file: &Path) -> Result<()> {
    let manifest = Manifest::take(tree).map_err(|error| Failure::new(error.to_string()))?;
    let text =
        serde_json::to_vec_pretty(&manifest).map_err(|error| Failure::new(error.to_string()))?;
    fs::write(file, text).map_err(|error| Failure::system("write", file.display(), &error))
}

fn failed(error: Error) -> Failure {
    let failure = Failure::new(error.to_string());
    match &error {
        Error::Exec { source, .. }
        | Error::Record(retake_record::RecordError::Exec { source, .. }) => {
            failure.with_status(find_program::status_of(source))
        }
        _ => failure,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        failed(error)
    }
}
