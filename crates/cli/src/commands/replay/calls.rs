//! `retake replay --trace-calls`: prints every system call.

use std::io::stderr;

use retake_recording::Recording;
use retake_trace::Filter;
use retake_trace::recording::Wanted;
use retake_trace::text::Style;

use super::Options;
use crate::failure::Result;
use crate::scratch::Scratch;
use crate::trace_output::TraceOutput;

/// Replays, prints the calls, and ends this process as the program ended.
pub fn run(recording: &Recording, options: &Options) -> Result<()> {
    let scratch = Scratch::create()?;
    let mut output = TraceOutput::new(Filter::default(), None)
        .with_text(Box::new(stderr()), Some(Style::default()));
    let wanted = Wanted { quiet: options.quiet, mapped_pages: false };
    let status = retake_trace::recording::read(recording, wanted, scratch.path(), |observation| {
        output.observe(observation)
    })?;
    output.finish()?;
    drop(scratch);
    retake_kernel::signals::end_as(status)
}
