//! The common part of the two ways of tracing from outside: runs the program, and passes its
//! observations on or keeps its events.

use crate::Result;
use crate::attach::Request;
use crate::live::{Live, Observer};
use crate::look::Looker;
use crate::spool::Spool;
use retake_record::EventLog;
use retake_recording::Metadata;
use std::path::Path;
use std::sync::Arc;

/// Traces the target of the request into a log. Without a looker, data that no register shows are
/// left out.
pub type Run = fn(&Request, Arc<dyn EventLog>, Option<Arc<Looker>>) -> Result<i32>;

/// Traces and passes the observations to the observer. Returns the wait status.
///
/// # Errors
/// Errors of the run, or a malformed event.
pub fn live(request: &Request, observer: Observer, run: Run) -> Result<i32> {
    let live = Live::new(observer);
    let status = run(request, Arc::clone(&live) as Arc<_>, None)?;
    live.take_error().map_or(Ok(status), Err)
}

/// Traces into a new spool at `folder`. Returns the wait status.
///
/// # Errors
/// Errors of the run, or the folder cannot be made.
pub fn into_spool(request: &Request, folder: &Path, metadata: &Metadata, run: Run) -> Result<i32> {
    let spool = Spool::create(folder, metadata)?;
    let looker = (request.data_limit == u64::MAX).then(|| spool.looker());
    run(request, Arc::new(spool), looker)
}
