//! A run that failed, and the report on it.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use retake_recording::Recording;

use super::annotation::{self, Place};
use crate::commands::backtrace::{self, Report};
use crate::failure::Result;
use crate::processes::{self, End, Process};
use crate::recordings;
use crate::text;

/// Exit status: the command was ended because its time was up.
const STATUS_TIMED_OUT: i32 = 124;

/// A failed run.
pub struct Failed {
    /// The command.
    name: String,
    /// How the command ended, in words.
    pub how: String,
    /// The packed recording.
    pub packed: PathBuf,
    /// The backtrace, for people.
    pub backtrace: String,
    /// The source line of the failure.
    place: Option<Place>,
}

impl Failed {
    /// A failed run with its exit status, its packed recording, and the report of the debugger.
    pub fn new(name: String, status: ExitStatus, packed: PathBuf, report: Result<Report>) -> Self {
        let (backtrace, place) = match &report {
            Ok(report) => (
                backtrace::in_words(report),
                report.own_frame().map(|(file, line)| Place { file: file.to_owned(), line }),
            ),
            Err(failure) => (format!("no backtrace: {failure}\n"), None),
        };
        Self { name, how: how(status), packed, backtrace, place }
    }

    /// The command that opens the recording.
    pub fn command(&self) -> String {
        format!("retake debug {}", text::quoted(&self.packed.to_string_lossy()))
    }

    /// Reports the failure to the user, and to GitHub if that runs this process. `is_final`: no
    /// further attempt follows.
    pub fn tell(&mut self, is_final: bool) {
        retake_kernel::tell!("\nretake: {} {}", self.name, self.how);
        let _ = write!(std::io::stderr(), "{}", self.backtrace);
        retake_kernel::tell!("  kept      {}", self.packed.display());
        retake_kernel::tell!("  try       {}", self.command());
        if std::env::var_os("GITHUB_ACTIONS").is_some() {
            let message = format!("{} {}\n{}", self.name, self.how, self.command());
            let line = annotation::line(is_final, self.place.as_ref(), &message);
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(STATUS_TIMED_OUT), _) => "did not end in time, or failed with status 124".to_owned(),
        (Some(status), _) => format!("failed with status {status}"),
        (None, signal) => format!("was killed by {}", text::signal_name(signal.unwrap_or(0))),
    }
}

/// The process that failed. The search begins at the first process and goes on to a child that
/// failed: the last one with its parent's exit code, else the first one. Returns `None` if
/// processes were ended from outside: all of them are of interest then.
pub fn process(recording: &Recording) -> Option<i32> {
    let (all, _) = processes::of_recording(recording, &recordings::dropped(recording));
    if retake_debug::from_outside(recording).is_ok_and(|ended| !ended.is_empty()) {
        return None;
    }
    Some(deepest(&all)?.pid)
}

fn deepest(all: &[Process]) -> Option<&Process> {
    let mut current = all.first()?;
    // A child's stream comes after its parent's, so this ends.
    loop {
        let mut children = all.iter().filter(|process| {
            process.parent_stream == Some(current.stream)
                && process.stream > current.stream
                && has_failed(process.end)
        });
        let first = children.clone().next();
        let same = children.rfind(|child| code(child.end) == code(current.end));
        match same.or(first) {
            Some(child) => current = child,
            None => return Some(current),
        }
    }
}

fn has_failed(end: End) -> bool {
    matches!(end, End::Exited(status) if status != 0) || matches!(end, End::Killed(_))
}

/// The exit code in the form that shells report.
fn code(end: End) -> Option<i32> {
    match end {
        End::Exited(status) => Some(status),
        End::Killed(signal) => Some(128 + signal),
        _ => None,
    }
}
