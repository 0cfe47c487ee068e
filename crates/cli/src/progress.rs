//! A progress bar with rate and size.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use retake_recording::Progress;

/// Shows the progress of one operation on standard error, if that is a terminal.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar labelled with `action`, such as "packing".
    pub fn new(action: &'static str) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(
            "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        );
        bar.set_style(style.expect("the template is well-formed"));
        bar.set_message(action);
        Self { bar }
    }

    /// Shows the progress so far.
    pub fn show(&self, progress: Progress) {
        if self.bar.length() != Some(progress.total_bytes) {
            self.bar.set_length(progress.total_bytes);
        }
        self.bar.set_position(progress.done_bytes);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
