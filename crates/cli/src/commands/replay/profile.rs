//! `retake replay --profile`: finds out where a process spends its time.

use std::path::Path;
use std::process::Stdio;

use retake_debug::{Destination, Keeping, PROFILE_SCRIPT};
use retake_recording::Recording;

use super::{Options, flame_graph};
use crate::commands::debug::front_end::FrontEnd;
use crate::commands::debug::{self, gdb};
use crate::failure::{Failure, Result};
use crate::scratch::Scratch;
use crate::text;

/// Replays one process, samples its stacks, and writes them.
pub fn run(recording: &Recording, options: &Options) -> Result<()> {
    let Some(path) = &options.profile else { return Ok(()) };
    let found = gdb::find(Path::new("gdb"))?;
    let target = debug::target_of(recording, options.process.as_deref())?;
    let scratch = Scratch::create()?;
    let session = debug::start(recording, target, Destination::Begin, Keeping::NONE, &scratch)?;
    let result = scratch.path().join("stacks");
    let mut command = gdb::with_script(&found, PROFILE_SCRIPT, &scratch)?;
    command
        .args(["-nx", "-batch"])
        .env("RETAKE_OUTPUT", &result)
        .env("RETAKE_SAMPLES", options.samples.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    gdb::run(session, &mut command, &FrontEnd::ours(), &scratch)?;
    let stacks = std::fs::read_to_string(&result).map_err(|_| {
        Failure::new("gdb did not write the stacks")
            .likely(format!("{} was built without Python", found.display()))
    })?;
    let is_graph = path.extension().is_some_and(|extension| extension == "svg");
    let title = text::command(&recording.metadata().arguments);
    let content = if is_graph { flame_graph::svg(&stacks, &title) } else { stacks };
    std::fs::write(path, content).map_err(|error| Failure::system("write", path.display(), &error))
}
