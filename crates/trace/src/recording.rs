//! Turns a recording into a trace. A replay supplies the inputs of its calls.
//!
//! A recording has no times, and only the order between threads that replay needs. Calls are put in
//! a possible order: the order in which the threads' events were written to disk, corrected where
//! it contradicts turns of the baton, the creation of threads, waits for the end of processes, or
//! data through pipes and socket pairs. Times follow that order, with a microsecond a call, from
//! the time of the recording's start. If a thread gave the baton away during a call, the call was
//! entered before the others' calls meanwhile.
//!
//! The replay repeats the programs' stores to mapped files. They are read during replay, and come
//! before the call at which they were read.

mod aside;
mod cursor;
mod order;
mod stored;

use crate::observation::Observation;
use crate::spool;
use crate::{Error, Result};
use aside::Aside;
use order::Order;
use retake_recording::Recording;
use retake_replay::{CutOff, Outcome};
use retake_trace_format::TraceRecord;
use std::path::Path;
use std::sync::Arc;

/// Options of the replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Whether the program's output is suppressed.
    pub quiet: bool,
    /// Whether data read and stored through mapped files are included.
    pub mapped_pages: bool,
}

/// Passes on all observations in a recording, after replaying it with `scratch` as a writable
/// folder. Returns the wait status of the first process.
///
/// # Errors
/// The recording cannot be replayed or read. Or an error of `observe`.
pub fn read<E: From<Error>>(
    recording: &Recording,
    wanted: Wanted,
    scratch: &Path,
    mut observe: impl FnMut(Observation) -> Result<(), E>,
) -> Result<i32, E> {
    let aside =
        Arc::new(Aside::create(&scratch.join("aside"), wanted.mapped_pages).map_err(Error::from)?);
    let request = retake_replay::Request { quiet: wanted.quiet, check_off: false };
    let outcome = retake_replay::replay_for(
        recording.clone(),
        request,
        scratch,
        Some(Arc::clone(&aside) as Arc<_>),
        &mut |_| {},
    )
    .map_err(Error::from)?;
    let status = match outcome {
        Outcome::Finished(status) => status,
        Outcome::CutOff(_) => CutOff::STATUS,
        Outcome::Diverged(report) => return Err(Error::Diverged(report).into()),
    };
    aside.finish().map_err(Error::from)?;
    let mut order = Order::new(recording, &aside)?;
    while let Some(observation) = order.next()? {
        observe(observation)?;
    }
    for reason in spool::missing(recording).into_iter().chain(order.missing()) {
        observe(Observation::Record(TraceRecord::Incomplete(reason)))?;
    }
    Ok(status)
}
