//! Tracing from inside: the runtime in each traced process logs its calls.

use crate::live::{Live, Observer};
use crate::merge::Merge;
use crate::observation::Observation;
use crate::spool::{self, Spool};
use crate::{Error, Result};
use retake_record::Request;
use retake_recording::{Metadata, Recording, Store};
use retake_trace_format::TraceRecord;
use std::path::Path;
use std::sync::Arc;

/// Runs a program and passes on its observations, calls in the order in which they return, with a
/// short delay. Returns its wait status.
///
/// # Errors
/// The program cannot be run, or its threads log malformed events.
pub fn live(request: &Request, store: Store, observer: Observer) -> Result<i32> {
    let live = Live::new(observer);
    let status = retake_record::trace(request, Arc::clone(&live) as Arc<_>, store)?.status;
    live.take_error().map_or(Ok(status), Err)
}

/// Runs a program and keeps its events in a new folder, for [`read_spool`]. Returns its wait
/// status.
///
/// # Errors
/// The program cannot be run, or the folder cannot be made.
pub fn into_spool(
    request: &Request,
    store: Store,
    folder: &Path,
    metadata: &Metadata,
) -> Result<i32> {
    Ok(retake_record::trace(request, Arc::new(Spool::create(folder, metadata)?), store)?.status)
}

/// Returns whether this is a spool of [`into_spool`], and not a recording that can be replayed.
pub fn is_spool(recording: &Recording) -> bool {
    spool::is_spool(recording.metadata())
}

/// Passes on all observations in a spool, calls in the order in which they were entered.
///
/// # Errors
/// The spool is damaged, which does not affect the observations before the damage. Or an error of
/// `observe`.
pub fn read_spool<E: From<Error>>(
    spool: &Recording,
    mut observe: impl FnMut(Observation) -> Result<(), E>,
) -> Result<(), E> {
    let mut merge = Merge::new(spool)?;
    let result = loop {
        match merge.next() {
            Ok(Some(observation)) => observe(observation)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // Damage ends the reading. A record at that place says so.
    let reason = result.as_ref().err().map(ToString::to_string).or_else(|| spool::missing(spool));
    if let Some(reason) = reason {
        observe(Observation::Record(TraceRecord::Incomplete(reason)))?;
    }
    Ok(result?)
}
