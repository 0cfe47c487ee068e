//! Chooses the recordings that options describe, and asks the user to confirm.

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use retake_recording::{Listing, Location, list};

use super::Options;
use crate::failure::{Failure, Result};
use crate::recordings;
use crate::text;

/// The number of recordings that are listed before the question.
const NAMED: usize = 20;

/// The recordings that the options describe, the oldest first.
pub fn of(options: &Options) -> Result<Vec<Listing>> {
    let mut found = list(&Location::from_environment()?.recordings)?;
    found.sort_by_cached_key(recordings::began_unix_ms);
    let count = match (options.keep, options.older_than) {
        (Some(kept), _) => found.len().saturating_sub(kept),
        (None, Some(age)) => {
            let limit = unix_ms().saturating_sub(milliseconds(age));
            found.partition_point(|one| recordings::began_unix_ms(one) < limit)
        }
        (None, None) => found.len(),
    };
    found.truncate(count);
    found.retain(|one| {
        let is_over = !recordings::is_being_recorded(one);
        if !is_over {
            retake_kernel::tell!("note: {} stays: it is being recorded", text::harmless(&one.name));
        }
        is_over
    });
    Ok(found)
}

/// The paths of the recordings.
pub fn names(chosen: &[Listing]) -> Vec<OsString> {
    chosen.iter().map(|one| one.path.clone().into_os_string()).collect()
}

/// Lists what would be removed, and asks the user.
///
/// # Errors
/// There is no terminal to ask on.
pub fn is_confirmed(chosen: &[Listing], yes: bool) -> Result<bool> {
    if chosen.is_empty() {
        retake_kernel::tell!("nothing to remove");
        return Ok(false);
    }
    if yes {
        return Ok(true);
    }
    let what = what(chosen);
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Failure::new(format!(
            "{what} would be removed, and there is no terminal to ask on"
        ))
        .attempt("the same command with --yes"));
    }
    for one in chosen.iter().take(NAMED) {
        let size = text::bytes(one.file_bytes);
        let began = text::local_time(recordings::began_unix_ms(one));
        retake_kernel::tell!("  {}  ({began}, {size})", text::harmless(&one.name));
    }
    if chosen.len() > NAMED {
        retake_kernel::tell!("  and {} more", chosen.len() - NAMED);
    }
    let _ = write!(std::io::stderr(), "remove {what}? [y/N] ");
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::system("read", "the answer", &error))?;
    let is_yes = matches!(answer.trim(), "y" | "Y" | "yes");
    if !is_yes {
        retake_kernel::tell!("nothing was removed");
    }
    Ok(is_yes)
}

fn what(chosen: &[Listing]) -> String {
    let bytes = chosen.iter().map(|one| one.file_bytes).fold(0, u64::saturating_add);
    format!("{} with {}", text::recordings(chosen.len()), text::bytes(bytes))
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, milliseconds)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
