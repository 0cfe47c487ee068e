//! A replay under way: the tree of processes, and the threads here that answer them.

use crate::confined;
use crate::copies::CopySlots;
use crate::host::Host;
use crate::report::Report;
use crate::service::Service;
use crate::status::Status;
use crate::wanted::{Held, Wanted};
use crate::warden::Warden;
use crate::windows::Windows;
use crate::{
    Onlooker, Outcome, ROOT_SLOT, ReplayError, Request, end_children, end_everything,
    host_descriptor, lay_out_files, live_slots,
};
use retake_kernel::guardian::Guardian;
use retake_kernel::process::{self, Prepared, Program};
use retake_kernel::shared::{self, Header};
use retake_kernel::{memory, signals};
use retake_recording::{CheckLevel, Policy, Recording};
use retake_supervisor::runtime::Runtime;
use retake_supervisor::{Options, Session, dropped};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::time::{Duration, Instant};

/// How often the observer is called.
const OBSERVED: Duration = Duration::from_millis(100);

/// Under the sync policy, a thread that waits for its turn gives up after this many times the
/// duration of the recording plus `LEAST_PATIENCE`.
const SLOWEST_REPLAY: u32 = 5;
const LEAST_PATIENCE: Duration = Duration::from_secs(20);
/// The same least time for a settled replay, where only the process's CPU time counts.
const LEAST_SETTLED: Duration = Duration::from_secs(8);

/// What a replay serves, besides being watched.
#[derive(Default)]
pub struct Purpose {
    /// A process to be debugged.
    pub wanted: Option<Wanted>,
    /// Takes the data that the recording does not have.
    pub onlooker: Option<Arc<dyn Onlooker>>,
    /// Takes the program's output, in place of standard output and error. With a wanted process,
    /// the output comes in pieces, in the form that the runtime describes.
    pub output: Option<File>,
}

fn options(recording: &Recording, request: Request, purpose: &Purpose) -> Options {
    let policy = recording.metadata().policy;
    let sync = policy.is_parallel();
    let level = recording.metadata().check_level;
    Options {
        no_fast_path: false,
        quiet: request.quiet,
        check_full: level == CheckLevel::Full,
        check_off: level == CheckLevel::Off || request.check_off,
        whole_inputs: purpose.onlooker.is_some(),
        sync,
        auto: policy == Policy::Auto,
        // A debugger or an onlooker needs one thread at a time.
        settled: sync && (purpose.wanted.is_some() || purpose.onlooker.is_some()),
        ..Options::default()
    }
}

/// A replay under way. End it with [`Running::finish`] or [`Running::end`].
pub struct Running {
    windows: Arc<Windows>,
    service: Service,
    warden: Warden,
    guardian: Guardian,
    root: i32,
    watch: OwnedFd,
    /// The file that every process of the tree executes.
    _host: File,
}

impl Running {
    /// Starts a replay. Meanwhile, other threads of this process may do nothing but wait. Unpacked
    /// files go to `folder`, which is removed if this process is killed.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn start(
        recording: Recording,
        request: Request,
        purpose: Purpose,
        folder: &Path,
    ) -> Result<Self, ReplayError> {
        if recording.streams().next().is_none() {
            return Err(ReplayError::Empty);
        }
        // These can fail, so they come before any process exists that would have to be ended.
        let runtime = Runtime::of(&recording)?;
        let dropped = dropped::of_recording(&recording)?;
        let options = options(&recording, request, &purpose);
        let Purpose { wanted, onlooker, output } = purpose;
        let session = Session::create(
            shared::MODE_REPLAY,
            options,
            &recording.metadata().machine.processor,
            None,
        )?;
        let header = session.header();
        if let Some(outcome) = &recording.metadata().outcome
            && options.sync
        {
            let least = if options.settled { LEAST_SETTLED } else { LEAST_PATIENCE };
            let patience = Duration::from_millis(outcome.duration_ms) * SLOWEST_REPLAY + least;
            header.turn_patience_ns.store(patience.as_nanos() as u64, Relaxed);
        }
        if let Some(wanted) = &wanted {
            header.options.fetch_or(shared::OPTION_DEBUG, Relaxed);
            set_alone(header, wanted.is_alone);
        }
        let host = memory::executable_file(c"retake-replay", &runtime.executable())?;
        let host = host_descriptor(&host)?;
        let known_by = Host::of(&host)?;
        let clean_up = || {
            end_everything(header, known_by);
            // There is nobody to report an error to.
            let _ = std::fs::remove_dir_all(folder);
        };
        let guardian = Guardian::start(clean_up)?;
        process::adopt_orphans();
        let files = lay_out_files(&recording, folder)?;
        let scratch = folder.join("scratch");
        header.slots_used.store(ROOT_SLOT as u32 + 1, Release);
        header.host_descriptor.store(host.as_raw_fd(), Relaxed);
        let mut child = prepare_root(&session, &host, output.as_ref())?;
        match wanted {
            None => signals::pass_to(child.pid),
            Some(_) => process::own_group(child.pid),
        }
        let folders = (files, scratch);
        let windows =
            Arc::new(Windows::new(recording, session, known_by, folders, onlooker, dropped));
        let service = Service::start(&windows, wanted);
        child.start()?;
        let listener = child.listener().map_err(ReplayError::Confinement)?;
        let findings = Arc::clone(service.findings());
        let told = move |report| findings.keep(report);
        let warden = Warden::start(listener, &windows, told)?;
        let watch = process::watch(child.pid)?;
        Ok(Self { windows, service, warden, guardian, root: child.pid, watch, _host: host })
    }

    /// The folder for copies of the files that processes share.
    pub fn scratch(&self) -> &Path {
        self.windows.scratch()
    }

    /// The shared memory of the tree.
    pub fn header(&self) -> &Header {
        self.windows.session.header()
    }

    /// The first divergence, if there was one.
    pub fn divergence(&self) -> Option<Report> {
        self.service.diverged()
    }

    /// Waits until all processes have ended as the recording says, or one has diverged. `observe`
    /// is called periodically, and once at the end.
    pub fn wait(&self, observe: &mut dyn FnMut(&Status)) -> Outcome {
        let outcome = self.wait_observed(observe);
        observe(&Status::of(&self.windows));
        outcome
    }

    fn wait_observed(&self, observe: &mut dyn FnMut(&Status)) -> Outcome {
        let mut status = None;
        let mut observed = Instant::now();
        loop {
            if observed.elapsed() > OBSERVED {
                observe(&Status::of(&self.windows));
                observed = Instant::now();
            }
            if let Some(report) = self.divergence() {
                return Outcome::Diverged(Box::new(report));
            }
            if let Some(cut_off) = self.service.cut_off() {
                return Outcome::CutOff(cut_off);
            }
            if status.is_none() && process::ended(&self.watch, 5) {
                status = process::reap(self.root);
            }
            process::reap_adopted(self.root);
            self.windows.unblock_console();
            if let Some(status) = status
                && live_slots(self.header()) == 0
                && self.service.has_verified()
            {
                // A report may have arrived together with the end of its process.
                return if let Some(report) = self.divergence() {
                    Outcome::Diverged(Box::new(report))
                } else if let Some(cut_off) = self.service.cut_off() {
                    Outcome::CutOff(cut_off)
                } else {
                    Outcome::Finished(status)
                };
            }
            if status.is_some() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Looks for another process from now on, or for another program of the same one.
    pub fn want(&self, wanted: Wanted) {
        set_alone(self.header(), wanted.is_alone);
        self.service.want(wanted);
    }

    /// Replays all processes from now on.
    pub(crate) fn want_all(&self) {
        self.service.want_all();
        self.header().options.fetch_and(!shared::OPTION_DEBUG, AcqRel);
    }

    /// Waits for the wanted process; `None` if the replay ended or diverged before it came.
    pub fn wait_for_wanted(&self) -> Option<Held> {
        let mut ended = false;
        loop {
            if let Some(held) = self.service.held() {
                return Some(held);
            }
            if ended || self.divergence().is_some() {
                return None;
            }
            process::reap_adopted(self.root);
            // The process may have been held just before it ended, so look once more.
            ended = process::ended(&self.watch, 1) && live_slots(self.header()) == 0;
        }
    }

    /// Takes slots for a copy of the wanted process that has `threads` threads and runs beside it;
    /// `None` if there are too few.
    pub fn slots_for_copy(&self, threads: usize) -> Option<CopySlots> {
        self.service.slots_for_copy(threads)
    }

    /// Lets processes print from the first of these console numbers on. Before the other one, some
    /// are missing.
    pub(crate) fn begin_console(&self, (first, whole_from): (u64, u64)) {
        self.windows.begin_console(first, whole_from);
    }

    /// Lets the wanted process run on.
    pub fn release(&self, held: Held) {
        self.windows.answer(&self.header().slots[held.slot], (0, 0));
    }

    /// Cleans up after a replay whose processes have all ended by themselves.
    pub fn finish(self) {
        self.service.stop();
        self.warden.stop();
        self.guardian.dismiss().wait();
    }

    /// As [`Running::end`], but also ends all other children of this process: a replayed process
    /// may be so young that no slot names it.
    pub(crate) fn end_with_children(self) {
        end_everything(self.header(), self.windows.host());
        end_children(self.guardian.pid());
        self.end();
    }

    /// Ends all processes, wherever they are.
    pub fn end(self) {
        end_everything(self.header(), self.windows.host());
        process::reap(self.root);
        process::reap_adopted(-1);
        self.finish();
    }
}

fn set_alone(header: &Header, is_alone: bool) {
    if is_alone {
        header.options.fetch_or(shared::OPTION_ALONE, Relaxed);
    } else {
        header.options.fetch_and(!shared::OPTION_ALONE, Relaxed);
    }
}

fn prepare_root(
    session: &Session,
    host: &File,
    output: Option<&File>,
) -> Result<Prepared, ReplayError> {
    let arguments =
        ["retake-replay".to_owned(), session.header_id().to_string(), ROOT_SLOT.to_string()];
    let arguments: Vec<CString> =
        arguments.into_iter().map(|a| CString::new(a).expect("no NUL")).collect();
    let output = output.map(AsRawFd::as_raw_fd);
    let rules = confined::rules(host.as_raw_fd() as u32);
    let program = Program {
        limits: None,
        path: c"",
        by_descriptor: Some(host.as_raw_fd()),
        output,
        arguments: &arguments,
        environment: &[],
        confined_to: Some(&rules),
    };
    let child = process::prepare(&program)?;
    let slot = &session.header().slots[ROOT_SLOT];
    slot.stream.store(0, Relaxed);
    slot.pid.store(child.pid as u32, Relaxed);
    slot.tid.store(child.pid as u32, Relaxed);
    slot.state.store(shared::SLOT_CLAIMED, Release);
    Ok(child)
}
