//! Runs the system calls of a trace again on a file system, and verifies them.
//!
//! One thread plans the replay, in the order in which the calls took effect
//! ([`sequence`](crate::sequence)). It follows the name space and all descriptors by the traced
//! results ([`world`](crate::world), [`tasks`](crate::tasks)), and finds out which calls depend on
//! which ([`access`](crate::access)). Each traced thread has a worker, which executes the planned
//! calls ([`execute`](crate::execute)) and compares the results ([`verify`](crate::verify)).
//! Everything happens below one directory, from which nothing leads out ([`root`](crate::root)).
//!
//! Only calls about files are executed. Processes, sockets and memory are followed as far as they
//! matter for files, and counted as simulated.
//!
//! Paper: [RE-ANIMATOR §2.4]. Unlike there, calls that touch different things run in parallel even
//! if the trace had them one after the other, waiting threads sleep, and the files that the trace
//! needs can be made from the trace.

#![deny(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod access;
mod action;
mod calls;
mod compare;
mod error;
mod execute;
mod folder;
mod handle;
mod manifest;
mod options;
mod overlap;
mod pace;
mod plan;
mod prepare;
mod progress;
mod report;
mod root;
mod run;
mod scan;
mod sequence;
mod tasks;
mod thread_state;
mod verify;
mod world;

use std::path::Path;

pub use compare::{Comparison, TreeDifference, compare_trees};
pub use error::Error;
pub use manifest::{Manifest, ManifestEntry};
pub use options::{Options, Order, Prepare, Speed, Verify};
pub use prepare::Prepared;
pub use report::{CallCounts, Mismatch, Report};
use retake_trace_format::TraceRecord;
use root::Root;

/// The progress of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Finding out what the trace needs: the number of calls read.
    Preparing(u64),
    /// Executing the calls: the number of calls executed.
    Replaying(u64),
}

/// What a trace is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// To find out what existed before the trace. Data written by `write` are not needed
    /// ([`TraceReaderOptions::skips_written`]).
    ///
    /// [`TraceReaderOptions::skips_written`]:
    /// retake_trace_format::TraceReaderOptions::skips_written
    Preparing,
    /// To execute its calls.
    Replaying,
}

/// Replays a trace. `open` starts reading it, and is called twice if something has to be prepared.
///
/// # Errors
/// If the root cannot be used or the trace cannot be read. A call that differs from the trace is no
/// error: it is in the report.
pub fn reanimate<Records, E>(
    options: &Options,
    mut open: impl FnMut(Pass) -> Result<Records, E>,
    observe: &mut dyn FnMut(Step),
) -> Result<Report, Error>
where
    Records: Iterator<Item = Result<TraceRecord, E>> + Send,
    E: std::fmt::Display,
{
    let mut report = Report::default();
    let mut root = open_root(&options.root)?;
    let mut scanned = scan_root(&mut root, &options.root)?;
    let prepares = match options.prepare {
        Prepare::Always => true,
        Prepare::Auto => scanned.is_empty,
        Prepare::Never => false,
    };
    if prepares {
        let stopwatch = report::Stopwatch::start();
        let records = open(Pass::Preparing).map_err(|error| Error::Trace(error.to_string()))?;
        let prepared = prepare_root(&root, records, observe)?;
        report.prepared = Some(prepared);
        scanned = scan_root(&mut root, &options.root)?;
        (report.preparation_seconds, report.preparation_user_seconds) = stopwatch.seconds();
    }
    raise_descriptor_limit();
    let planner = plan::Planner::new(scanned.world, options.threads.get(), options.order, None);
    let records = open(Pass::Replaying).map_err(|error| Error::Trace(error.to_string()))?;
    run::run(options, &root, planner, records, &mut report, &mut |seen| {
        observe(Step::Replaying(seen.done))
    })?;
    Ok(report)
}

fn open_root(path: &Path) -> Result<Root, Error> {
    let failed = |error| Error::Root { path: path.to_owned(), error };
    std::fs::create_dir_all(path).map_err(failed)?;
    Root::new(path).map_err(|error| failed(error.into()))
}

/// Scans the tree below the root. If it contains devices, the root refuses to open devices from now
/// on: neither the preparation nor the calls open any.
fn scan_root(root: &mut Root, path: &Path) -> Result<scan::Scanned, Error> {
    let scanned = scan::scan(root, path)?;
    if scanned.has_devices {
        *root = root.clone().without_devices();
    }
    Ok(scanned)
}

/// Makes the files that the trace needs at its beginning.
fn prepare_root<E: std::fmt::Display>(
    root: &Root,
    records: impl Iterator<Item = Result<TraceRecord, E>>,
    observe: &mut dyn FnMut(Step),
) -> Result<Prepared, Error> {
    const OBSERVED: u64 = 1024;
    let preparation = prepare::Preparation::new(root.clone());
    let mut planner =
        plan::Planner::new(world::World::unknown(), 1, Order::Resource, Some(preparation));
    let mut tasks = Vec::new();
    for record in sequence::Sequencer::new(records) {
        let record = record.map_err(|error| Error::Trace(error.to_string()))?;
        planner.plan(record, &mut tasks);
        tasks.clear();
        if planner.call_count.is_multiple_of(OBSERVED) {
            observe(Step::Preparing(planner.call_count));
        }
    }
    planner.finish(&mut tasks);
    Ok(planner.into_preparation().map(prepare::Preparation::finish).unwrap_or_default())
}

/// Raises the limit of open files: the replay holds the descriptors of all traced processes at
/// once.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A trace of few files runs with the old limit, too.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
}
