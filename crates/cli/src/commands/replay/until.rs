//! `retake replay --until`: replays a part of a recording.

use std::io::{stderr, stdout};

use retake_debug::{Destination, Keeping};
use retake_recording::Recording;

use super::Options;
use crate::commands::debug::{self, failure_of};
use crate::failure::Result;
use crate::scratch::Scratch;
use crate::text::harmless;

/// Replays one process up to a place, and says where it stands.
pub fn run(recording: &Recording, options: &Options) -> Result<()> {
    let target = debug::target_of(recording, options.process.as_deref())?;
    let scratch = Scratch::create()?;
    let mut session = debug::replay_to(
        recording,
        target,
        options.until.unwrap_or(Destination::End),
        Keeping::NONE,
        &scratch,
    )?;
    if !options.quiet {
        session.write_output(&mut stdout(), &mut stderr()).map_err(failure_of)?;
    }
    retake_kernel::tell!("retake: {}", harmless(&session.describe_place().map_err(failure_of)?));
    Ok(())
}
