//! A recording as a trace, after the fact: its calls with all that they were given, which a replay
//! brings to light.
//!
//! A recording has no times, and no order between threads but what it needs for itself. Calls are
//! put in an order in which they can have happened: that in which the threads' events came to the
//! disk, corrected where it contradicts turns of the baton, the making of threads, waiting for the
//! end of processes, or what came through pipes and pairs of sockets. Times are that order, a
//! microsecond a call, from when recording began; a call in which its thread gave the baton away
//! was entered before what others did meanwhile.
//!
//! What programs stored in mapped files the replay stores once more: so it can be looked at there,
//! and comes before the call at which it was.

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

/// What is wanted of the replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// It prints nothing.
    pub quiet: bool,
    /// Also what is read and stored through mapped files.
    pub mapped_pages: bool,
}

/// Hands on all that a recording holds. It is replayed first, in `scratch`, a folder that may be
/// written to. Returns the wait status of the first process.
///
/// # Errors
/// It cannot be replayed or read; or what `observe` says.
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
