//! Tells somebody what happens in the program, as soon as it is in the recording.

use retake_model::event::Console;
use std::fmt;

/// Is told what may be a reason to keep a recording. It must not wait: the thread that moves events
/// to disk calls it.
pub trait Watcher: fmt::Debug + Send + Sync {
    /// A signal ended a recorded process.
    fn died(&self, signal: i32);

    /// A process wrote this to standard output or to standard error. Of a long text, only the
    /// beginning is recorded.
    fn wrote(&self, console: Console, bytes: &[u8]);
}

/// What a watcher is told.
#[derive(Debug, Clone)]
pub(crate) enum Notice {
    Died(i32),
    Wrote(Console, Vec<u8>),
}

impl Notice {
    pub fn tell(self, watcher: &dyn Watcher) {
        match self {
            Self::Died(signal) => watcher.died(signal),
            Self::Wrote(console, bytes) => watcher.wrote(console, &bytes),
        }
    }
}
