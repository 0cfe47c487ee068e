//! `retake record --debug-on-crash`: debugs a process that crashed.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use retake_debug::Crash;
use retake_recording::Recording;

use crate::commands::debug::failure_of;
use crate::failure::{Failure, Result};
use crate::text;

/// Debugs a recording if a process in it crashed. Without a terminal, prints a backtrace.
///
/// The recording cannot be read, or no child process can be started.
/// The recording cannot be read, or no process can be made.
pub fn look_at(directory: &Path) -> Result<()> {
    let recording = Recording::open(directory)?;
    let Some(crash) = Crash::find(&recording, None).map_err(failure_of)?.filter(Crash::is_fault)
    else {
        return Ok(());
    };
    let name = text::quoted(&directory.to_string_lossy());
    retake_kernel::tell!(
        "retake: process {} crashed: {}\n  recorded  {name}",
        crash.pid,
        text::harmless(&crash.describe())
    );
    let is_interactive = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    // Replay must start in a process that has no other threads, so a child process does it.
    let own =
        std::env::current_exe().map_err(|error| Failure::system("find", "this program", &error))?;
    let mut command = Command::new(&own);
    command.arg(if is_interactive { "debug" } else { "backtrace" }).arg(directory);
    if is_interactive {
        retake_kernel::signals::leave_to_children();
    } else {
        // Standard output contains only what the program printed.
        let error = std::io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Failure::system("use", "standard error", &error))?;
        command.stdin(Stdio::null()).stdout(error);
    }
    command.status().map(drop).map_err(|error| Failure::system("run", own.display(), &error))
}
