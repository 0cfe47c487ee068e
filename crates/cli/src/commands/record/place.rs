//! Where a recording is made.

use std::ffi::OsStr;
use std::path::Path;

use retake_recording::{
    Error, Location, Metadata, RecordingWriter, Store, create_numbered, set_latest,
};
use retake_supervisor::runtime::{self, Runtime};

use crate::failure::{Failure, Result};

/// Creates the recording where the user wants it, or under the next free name. `is_latest`:
/// commands that name no recording then mean this one.
pub fn create(
    output: Option<&Path>,
    location: &Location,
    name: &OsStr,
    metadata: &Metadata,
    is_latest: bool,
) -> Result<RecordingWriter> {
    let Some(output) = output else {
        let writer = create_numbered(&location.recordings, name, metadata)?;
        if is_latest {
            set_latest(&location.recordings, writer.directory())?;
        }
        return Ok(writer);
    };
    // The program may change its working directory. The path must not change with it.
    let output = std::path::absolute(output)
        .map_err(|error| Failure::system("find", output.display(), &error))?;
    // Succeeds only for an empty folder, which counts as absent.
    let _ = std::fs::remove_dir(&output);
    match RecordingWriter::create(&output, metadata) {
        Err(error @ Error::AlreadyExists { .. }) => Err(Failure::from(error).attempt(
            "another folder for -o, or retake rm if it is a recording you no longer need",
        )),
        result => Ok(result?),
    }
}

/// Adds the runtime to a recording that has just been created. If that fails, nothing is left.
pub fn add_runtime(writer: &RecordingWriter, store: &Store) -> Result<()> {
    let added = writer.add_runtime(store, runtime::own_id(), Runtime::OWN.text());
    Ok(added.inspect_err(|_| {
        // This process made the folder, so it may remove it.
        let _ = std::fs::remove_dir_all(writer.directory());
    })?)
}
