//! What the two ways of tracing from outside have in common: a run of the program, with what it
//! does handed on at once or kept.

use crate::Result;
use crate::attach::Request;
use crate::live::{Live, Observer};
use crate::look::Looker;
use crate::spool::Spool;
use retake_record::EventLog;
use retake_recording::Metadata;
use std::path::Path;
use std::sync::Arc;

/// Traces what the request says into a log. Without a looker nobody wants to know what no register
/// shows.
pub type Run = fn(&Request, Arc<dyn EventLog>, Option<Arc<Looker>>) -> Result<i32>;

/// # Errors
/// Those of the run, or the observer's.
pub fn live(request: &Request, observer: Observer, run: Run) -> Result<i32> {
    let live = Live::new(observer);
    let status = run(request, Arc::clone(&live) as Arc<_>, None)?;
    live.take_error().map_or(Ok(status), Err)
}

/// # Errors
/// Those of the run, or the folder cannot be made.
pub fn into_spool(request: &Request, folder: &Path, metadata: &Metadata, run: Run) -> Result<i32> {
    let spool = Spool::create(folder, metadata)?;
    let looker = (request.data_limit == u64::MAX).then(|| spool.looker());
    run(request, Arc::new(spool), looker)
}
