//! The failure of a command as the user sees it: what happened, the likely cause, what to try. It
//! also has the status with which the command ends.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::fs::{Access, access};

/// Exit status: replay diverged from the recording.
pub const STATUS_DIVERGED: u8 = 120;
/// Exit status: retake itself failed.
pub const STATUS_FAILED: u8 = 125;
/// Exit status: the program was found but cannot be executed.
pub const STATUS_NOT_EXECUTABLE: u8 = 126;
/// Exit status: there is no such program.
pub const STATUS_NOT_FOUND: u8 = 127;

/// The result of every command.
pub type Result<T> = std::result::Result<T, Failure>;

/// A failure, ready to be printed.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    message: String,
    /// The lines below the message: a label and a text each.
    notes: Vec<(&'static str, String)>,
    /// Whether standard output is a pipe without a reader.
    broken_pipe: bool,
}

impl Failure {
    /// A failure of retake itself. The message begins in lower case. Further lines of it are
    /// indented.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            status: STATUS_FAILED,
            message: message.into(),
            notes: Vec::new(),
            broken_pipe: false,
        }
    }

    /// The same failure with another exit status.
    pub fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// Adds the likely cause.
    pub fn likely(self, text: impl Into<String>) -> Self {
        self.note("likely", text)
    }

    /// Adds a suggestion.
    pub fn attempt(self, text: impl Into<String>) -> Self {
        self.note("try", text)
    }

    fn note(mut self, label: &'static str, text: impl Into<String>) -> Self {
        self.notes.push((label, text.into()));
        self
    }

    /// A failed system call. `action` and `what` say what was being done.
    pub fn system(action: &str, what: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(format!("cannot {action} {what}: {error}"))
    }

    /// A failure to write to standard output.
    pub fn output(error: &io::Error) -> Self {
        Self {
            broken_pipe: error.kind() == io::ErrorKind::BrokenPipe,
            ..Self::new(format!("cannot write the output: {error}"))
        }
    }

    /// Whether the output has lost its reader. That is not reported.
    pub fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        self.notes.iter().try_for_each(|(label, text)| write!(formatter, "\n  {label:<9} {text}"))
    }
}

/// How recordings are kept in a folder that can be written.
pub fn how_to_keep_elsewhere() -> &'static str {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home {
        Some(home) if access(&home, Access::WRITE_OK | Access::EXEC_OK).is_ok() => {
            "export RETAKE_DIR=\"$HOME/recordings\""
        }
        _ => "export RETAKE_DIR=\"$(mktemp -d)\", or another folder that you can write to",
    }
}

impl From<retake_recording::Error> for Failure {
    fn from(error: retake_recording::Error) -> Self {
        use retake_recording::Error;
        let failure = Self::new(error.to_string());
        match &error {
            Error::NotARecording { .. } => {
                failure.attempt("retake ls, which lists the recordings there are")
            }
            Error::Damaged { .. } | Error::BadMetadata { .. } | Error::BadContent { .. } => failure
                .likely("the file was changed or cut after it was recorded, or the disk is failing")
                .attempt("retake info RECORDING, which says what can still be read"),
            Error::BadCheckpoint { .. } => {
                failure.attempt("retake checkpoint --delete NUMBER, then keep the place again")
            }
            Error::Malformed { .. } => {
                failure.likely("the recording is damaged, or another version of retake made it")
            }
            Error::NoLocation => failure.attempt(how_to_keep_elsewhere()),
            Error::FileLimit { .. } => {
                failure.attempt("ulimit -f unlimited, then the same command again")
            }
            Error::NoSpace { .. } => {
                failure.attempt("retake rm RECORDING, to make room; or RETAKE_DIR on another disk")
            }
            _ => failure,
        }
    }
}
