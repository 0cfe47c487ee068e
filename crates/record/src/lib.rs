//! Records a process tree: starts it, injects the runtime at every exec, drains the rings to disk,
//! waits for the last process.
//!
//! The caller's thread waits for the program. One thread drains the rings. A few threads serve
//! requests of the runtime, such as attending an exec or storing a file. At the start, one thread
//! enters the files that the program mapped the last time. No thread is on the path of an ordinary
//! system call.

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod attach;
mod budget;
mod chaos;
mod complete_until;
mod console;
mod copies;
mod counters;
mod deadline;
mod drain;
mod ends;
mod event_log;
mod exec;
mod exec_event;
mod forced;
mod forcing;
mod foresight;
mod helpers;
mod homes;
mod idle;
mod images;
mod job_control;
mod keep;
mod leases;
mod lending;
mod pools;
mod random;
mod rescue;
mod rings;
mod service;
mod shared_state;
mod sharers;
mod slices;
mod space;
mod stream_scan;
mod thread_account;
mod unborn;
mod watcher;

pub use counters::Counters;
pub use event_log::{EventLog, Moment, Stage};
pub use images::When;
pub use keep::KeepLast;
pub use space::OnFull;
pub use watcher::Watcher;

pub use attach::{Target, attach};
use budget::Budget;
use deadline::Deadline;
use exec::Attended;
use foresight::Foresight;
use helpers::Helpers;
use images::Images;
use keep::Keeper;
use rescue::Ward;
use retake_kernel::alive::Alive;
use retake_kernel::clock;
use retake_kernel::front::Behind;
use retake_kernel::inheritance::{self, Limits};
use retake_kernel::process::{self, Prepared, Program};
use retake_kernel::shared::{self, Header};
use retake_kernel::signals;
use retake_kernel::tracee::Attached;
use retake_model::event::ThreadAccount;
use retake_recording::{Checkpoints, Exit, Outcome, Processor, RecordingWriter, Store};
use retake_supervisor::{FileTable, Options, Session, SessionError};
use rings::Plan;
use shared_state::Recorder;
use space::Space;
use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// What to record.
#[derive(Debug, Clone)]
pub struct Request {
    /// The path of the program, already resolved through PATH.
    pub program: PathBuf,
    /// All arguments, beginning with the program's name (`argv[0]`).
    pub arguments: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The resource limits of the program; this process's own may be wider.
    pub limits: Limits,
    /// Options for the runtime.
    pub options: Options,
    /// This machine's processor, as the program is to see it.
    pub processor: Processor,
    /// The seed for chaos, if the program is to be disturbed.
    pub chaos: Option<u64>,
    /// After this time the program and all that it started are ended.
    pub timeout: Option<Duration>,
    /// When to make images of its processes, from which replay can start.
    pub images: Option<When>,
    /// How much of the recording to keep, if not all.
    pub keep_last: Option<KeepLast>,
    /// Is told what happens, with `keep_last`.
    pub watcher: Option<Arc<dyn Watcher>>,
    /// What to do when the disk is full.
    pub on_full: OnFull,
    /// The most bytes of events. Beyond that, the program and all that it started are ended.
    pub max_size: Option<u64>,
    /// When recording began, on the monotonic clock.
    pub began_ns: u64,
    /// Set with `--no-wait`: the channel that tells the waiting front process when the program has
    /// ended and left other processes running.
    pub behind: Option<Arc<Behind>>,
}

/// How a recorded program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The wait status of the first process.
    pub status: i32,
    /// Whether the program was ended because its time was up.
    pub timed_out: bool,
}

/// Why recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The session could not be set up.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The program could not be executed.
    #[error("cannot run {program}: {source}")]
    Exec {
        /// The path of the program.
        program: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
    /// Attaching to the child failed.
    #[error(
        "cannot attach to the program: {0}\n  likely    this machine forbids tracing (seccomp \
        profile, kernel.yama.ptrace_scope = 3)\n  try       retake doctor"
    )]
    Attach(#[source] io::Error),
    /// Another process already traces the child.
    #[error(
        "cannot attach to the program: {name} (process {pid}) traces it already\n  try       \
        without {name}"
    )]
    Traced {
        /// The process ID of the tracer.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// The recording could not be written.
    #[error("cannot write the recording: {0}")]
    Recording(#[from] retake_recording::Error),
    /// The kernel or the machine refused something.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Records a process tree until its last process has ended.
///
/// # Errors
/// See [`RecordError`]. What was recorded before the error stays readable.
pub fn record(
    request: &Request,
    writer: RecordingWriter,
    store: Store,
) -> Result<Ended, RecordError> {
    let writer = Arc::new(writer);
    let places = Checkpoints::of_writer(&writer)?;
    let keeper = request.keep_last.map(|limit| {
        let (writer, places) = (Arc::clone(&writer), places.clone());
        let watcher = request.watcher.clone();
        Arc::new(Keeper::new(limit, request.began_ns, writer, places, watcher))
    });
    let directory = writer.directory().to_path_buf();
    let began_ns = request.began_ns;
    let images = request.images.map(|when| images::Plan { when, places, began_ns });
    run(request, shared::MODE_RECORD, writer, keeper, images, store, Some(&directory))
}

/// Traces a process tree. As [`record`], but threads run in parallel, and calls are logged whole
/// and with times. The result cannot be replayed.
///
/// # Errors
/// As [`record`].
pub fn trace(
    request: &Request,
    log: Arc<dyn EventLog>,
    store: Store,
) -> Result<Ended, RecordError> {
    run(request, shared::MODE_TRACE, log, None, None, store, None)
}

fn run(
    request: &Request,
    mode: u32,
    log: Arc<dyn EventLog>,
    keeper: Option<Arc<Keeper>>,
    images: Option<images::Plan>,
    store: Store,
    directory: Option<&Path>,
) -> Result<Ended, RecordError> {
    let started = Instant::now();
    let inherited = signals::inherited();
    let session = Session::create(mode, request.options, &request.processor, Some(&store))?;
    let plan = if inheritance::is_short_of_addresses() { Plan::Scarce } else { Plan::Ample };
    let deadline = Deadline::new(request.timeout);
    let ward = Ward { session, plan, store, directory, deadline, started, let_go: None };
    let (guardian, Ward { session, store, deadline, .. }) = rescue::guard(ward)?;
    if let Some(seed) = request.chaos {
        chaos::announce(session.header(), seed);
    }
    process::adopt_orphans();
    let mut child = prepare(request)?;
    // The child loads its program meanwhile, and stops at the program's first instruction until we
    // attend to it.
    let attached = Attached::seize(child.pid);
    if attached.is_ok() {
        let _ = child.start(); // a later step notices a child that is gone
    }
    let (files, space) = (file_table(store, &log), Space::new(request.on_full));
    let mut recorder = Recorder::new(session, plan, request.began_ns, files, log, space, keeper);
    recorder.guardian = Some(guardian.line());
    recorder.budget = request.max_size.map(Budget::new);
    let images = images.map(|plan| (plan, recorder.take_copies()));
    let recorder = Arc::new(recorder);
    let _alive = Alive::begin(&recorder.header().supervisor_alive);
    let foresight =
        (mode == shared::MODE_RECORD).then(|| Foresight::start(&recorder, &request.program));
    recorder.add_pool()?;
    let slot = recorder.claim_root(child.pid);
    describe_root(&recorder, slot, inherited, request.limits.of_addresses());
    let images = images.map(|(plan, outbox)| Images::start(&recorder, plan, outbox));
    // Threads that run in parallel keep the baton only as long as they need it.
    let slices_seed = request.chaos.filter(|_| !recorder.is_parallel());
    let helpers = Helpers::start(&recorder, slices_seed, images);
    let followed = signals::passing_to(child.pid, Some(recorder.header()), || {
        let attended = attend_first(&recorder, slot, attached, &mut child, request)?;
        let status = match attended {
            Attended::Ended(status) => status, // a signal came before its exec
            _ => job_control::wait_for_first(&recorder, child.pid, &deadline, &guardian)?,
        };
        recorder.note_root_ended(status);
        let front = request.behind.as_ref().map(|behind| (behind, status));
        wait_for_rest(&recorder, child.pid, &deadline, front);
        Ok(status)
    });
    let drained = if followed.is_ok() { helpers.stop() } else { Ok(()) };
    // The rings are empty: the guardian has nothing left to protect.
    let guardian = guardian.dismiss();
    let finished = followed.and_then(|status| {
        drained?;
        if let Some(foresight) = foresight {
            foresight.finish();
        }
        finish(&recorder, exit(status), started).map(|()| status)
    });
    guardian.wait();
    Ok(Ended { status: finished?, timed_out: deadline.has_passed() })
}

/// Creates a file table that also links the contents into the recording.
fn file_table(store: Store, log: &Arc<dyn EventLog>) -> FileTable {
    let linking = Arc::clone(log);
    FileTable::new(store, move |store, content| Ok(linking.keep_file(store, content)?))
}

/// Completes the recording.
fn finish(recorder: &Recorder, exit: Exit, started: Instant) -> Result<(), RecordError> {
    // Something was left out. The recording has no end, as if its recorder had been killed: replay
    // then ends where something is missing.
    if recorder.space.has_given_up() {
        return Ok(());
    }
    let finished = recorder.accounts.finish().and_then(|(threads, account)| {
        let outcome = Outcome {
            exit,
            duration_ms: started.elapsed().as_millis() as u64,
            counters: counters(recorder, threads, &account),
            changed_files: changed_files(recorder.header()),
            serial_because: recorder.files.code(recorder.header().serial_because.load(Relaxed)),
            untold_late: recorder.files.code(recorder.header().untold_late.load(Relaxed)),
            ended: Some(clock::moment()),
        };
        recorder.space.wait(|| recorder.log.finish(&outcome))
    });
    match finished {
        Err(error) if error.is_no_space() && recorder.space.has_given_up() => Ok(()),
        result => Ok(result?),
    }
}

/// Follows the first process through the exec of its program.
fn attend_first(
    recorder: &Recorder,
    slot: usize,
    attached: io::Result<Attached>,
    child: &mut Prepared,
    request: &Request,
) -> Result<Attended, RecordError> {
    let attended = match attached {
        Ok(attached) => exec::attend(recorder, slot, attached),
        Err(error) => {
            let Some(status) = process::reap(child.pid) else {
                let tracer = process::tracer(child.pid);
                process::kill(child.pid, libc::SIGKILL);
                return Err(match tracer {
                    Some(pid) => RecordError::Traced { pid, name: process::name(pid) },
                    None => RecordError::Attach(error),
                });
            };
            Attended::Ended(status)
        }
    };
    if attended != Attended::Executed
        && let Some(source) = child.failure()
    {
        process::reap(child.pid);
        return Err(RecordError::Exec { program: request.program.clone(), source });
    }
    Ok(attended)
}

/// Describes to the first thread what it inherits and what its console is.
fn describe_root(
    recorder: &Recorder,
    slot: usize,
    (ignored, blocked): (u64, u64),
    addresses: Option<(u64, u64)>,
) {
    let header = recorder.session.header();
    let slot = &header.slots[slot];
    if let Some((soft, hard)) = addresses {
        slot.carried.address_limits.soft.store(soft, Relaxed);
        slot.carried.address_limits.hard.store(hard, Relaxed);
        slot.carried.address_limits.known.store(1, Relaxed);
    }
    slot.carried.ignored_signals.store(ignored, Relaxed);
    slot.carried.altered_mask.store(blocked, Relaxed);
    if header.mode.load(Relaxed) == shared::MODE_RECORD {
        console::describe(header, slot);
    }
}

fn exit(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        Exit::Killed(libc::WTERMSIG(status))
    } else {
        Exit::Exited(libc::WEXITSTATUS(status))
    }
}

/// Returns the files, by device and inode, that changed while they were mapped; `None` if more were
/// mapped than the header can list.
fn changed_files(header: &Header) -> Option<Vec<(u64, u64)>> {
    let changed = header.shared_files()?.iter().filter(|file| file.changes.load(Relaxed) != 0);
    Some(changed.map(|file| (file.device.load(Relaxed), file.inode.load(Relaxed))).collect())
}

fn counters(recorder: &Recorder, threads: u64, account: &ThreadAccount) -> BTreeMap<String, u64> {
    let counters = &recorder.counters;
    [
        ("ptrace_stops", counters.stops.load(Relaxed)),
        ("calls", account.calls),
        ("dispatched_calls", account.dispatched),
        ("signals", account.signals),
        ("signals_between", recorder.header().signals_between.load(Relaxed).into()),
        ("parallel_processes", recorder.header().parallel_processes.load(Relaxed).into()),
        ("serial_processes", recorder.header().serial_processes.load(Relaxed).into()),
        ("threads", threads),
        ("turns", account.turns),
        ("forced_points", account.forced),
        ("baton_waits", account.waits),
        ("baton_wait_us", account.wait_ns / 1000),
        ("execs", counters.execs.load(Relaxed)),
        ("images", counters.images.load(Relaxed)),
        ("images_refused", counters.images_refused.load(Relaxed)),
        ("files", recorder.files.used_count(recorder.header()) as u64),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an argument contains a NUL byte"))
}

fn prepare(request: &Request) -> Result<Prepared, RecordError> {
    let path = c_string(request.program.as_os_str().as_bytes())?;
    let arguments =
        request.arguments.iter().map(|a| c_string(a.as_bytes())).collect::<io::Result<Vec<_>>>()?;
    let environment = request
        .environment
        .iter()
        .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect::<io::Result<Vec<_>>>()?;
    // The memory of the runtime must not count against the program's limit.
    let runtime_bytes = size_of::<Header>() as u64 + shared::ADDRESS_RESERVE;
    let at_most = shared::WINDOWS - shared::RUNTIME_TEXT;
    let limits = request.limits.with_more_addresses(runtime_bytes, at_most);
    let program = Program {
        limits: Some(&limits),
        path: &path,
        by_descriptor: None,
        output: None,
        arguments: &arguments,
        environment: &environment,
        confined_to: None,
    };
    Ok(process::prepare(&program)?)
}

/// How long after the end of the first process the user is told which processes still run.
const QUIET: Duration = Duration::from_secs(2);
/// With a front process, how long after the end of the first process everyone waits for the rest.
const SOON: Duration = Duration::from_millis(100);

/// Waits for processes that outlive the first one, and reaps those that became our children. A
/// request to end applies to them, too. The front process, if there is one, does not wait for them:
/// it ends with the status of the first process.
fn wait_for_rest(
    recorder: &Recorder,
    first: i32,
    deadline: &Deadline,
    front: Option<(&Arc<Behind>, i32)>,
) {
    let began = Instant::now();
    let quiet = if front.is_some() { SOON } else { QUIET };
    let mut was_told = false;
    loop {
        if signals::asked_to_end().is_some() {
            deadline.end_now();
        }
        deadline.enforce(recorder.header());
        process::reap_adopted(first);
        let seen = recorder.progress();
        if recorder.live_slots() == 0 || recorder.header().stopping.load(Acquire) != 0 {
            return;
        }
        if !was_told && began.elapsed() > quiet {
            was_told = true;
            tell_of_rest(recorder.header(), front.is_some());
            if let Some((behind, status)) = front {
                behind.let_front_end(status);
            }
        }
        recorder.wait_for_progress(seen, Duration::from_millis(20));
    }
}

/// Tells the user which processes keep the recorder waiting.
fn tell_of_rest(header: &Header, is_behind: bool) {
    let names: Vec<String> = deadline::live_processes(header)
        .into_iter()
        .map(|pid| format!("{} ({pid})", process::name(pid)))
        .collect();
    if names.is_empty() {
        return;
    }
    let (where_to, how) = if is_behind {
        (" in the background", format!("kill {} ends them", std::process::id()))
    } else {
        (
            "",
            "Ctrl-C or SIGTERM ends them; with --no-wait, retake does not wait for them".to_owned(),
        )
    };
    retake_kernel::tell!(
        "retake: the program has ended; recording goes on{where_to} until these have ended, too: \
        {} ({how})",
        names.join(", ")
    );
}
