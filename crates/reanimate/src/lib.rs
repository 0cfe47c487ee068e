//! Runs the system calls of a trace again on a file system, and verifies them.
//!
//! A trace is planned by one thread, in the order in which its calls took effect
//! ([`sequence`](crate::sequence)): it knows the name space and all descriptors as the traced
//! results tell ([`world`](crate::world), [`tasks`](crate::tasks)), and which calls depend on which
//! ([`access`](crate::access)). What has to be done goes to one worker for each traced thread,
//! which executes it ([`execute`](crate::execute)) and compares ([`verify`](crate::verify)).
//! Everything happens below one directory, from which nothing leads out ([`root`](crate::root)).
//!
//! Only calls about files are executed. Processes, sockets and memory are followed as far as they
//! matter for files, and counted as simulated. Paper: [RE-ANIMATOR §2.4]; unlike there, calls that
//! touch different things run in parallel even if the trace had them one after the other, waiting
//! threads sleep, and what the trace needs to find can be made from it.

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

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// What the trace needs is being found out: so many calls were read.
    Preparing(u64),
    /// So many calls were executed.
    Replaying(u64),
}

/// What a trace is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// To find out what must have been there. What `write` wrote is not looked at
    /// ([`TraceReaderOptions::skips_written`]).
    ///
    /// [`TraceReaderOptions::skips_written`]:
    /// retake_trace_format::TraceReaderOptions::skips_written
    Preparing,
    /// To make its calls.
    Replaying,
}

/// Replays a trace. `open` begins to read it, twice if something has to be prepared.
///
/// # Errors
/// If the root cannot be used or the trace cannot be read. Calls that do something else than the
/// trace says are no errors: they are in the report.
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

/// Reads what is below the root. If devices are, nothing that is opened from now on may be one:
/// neither preparation nor the calls open any.
fn scan_root(root: &mut Root, path: &Path) -> Result<scan::Scanned, Error> {
    let scanned = scan::scan(root, path)?;
    if scanned.has_devices {
        *root = root.clone().without_devices();
    }
    Ok(scanned)
}

/// Makes what the trace must have found.
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

/// All descriptors of all traced processes are ours at once.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    // With the limit there is, a trace of few files still runs.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
}
