//! Answers the requests of replayed processes.

use crate::copies::{Copies, CopySlots};
use crate::cut_ends::CutEnds;
use crate::forced;
use crate::report::Report;
use crate::search::Searches;
use crate::standstill::{self, CutOff, Found, Standstill};
use crate::wanted::{Held, Wanted};
use crate::windows::Windows;
use retake_kernel::shared::{self, Slot};
use retake_kernel::{futex, process};
use retake_recording::{ContentId, StreamId};
use retake_supervisor::worker::{Stop, Worker};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const THREADS: usize = 2;

pub(crate) struct Service {
    windows: Arc<Windows>,
    findings: Arc<Findings>,
    workers: Vec<Worker>,
    /// Checks the recording's files once.
    verifier: Worker,
}

/// What the threads look for and what they have found, shared by all.
#[derive(Default)]
pub(crate) struct Findings {
    wanted: Mutex<Option<Wanted>>,
    report: Mutex<Option<Report>>,
    held: Mutex<Option<Held>>,
    cut_off: Mutex<Option<CutOff>>,
    standstill: Mutex<Standstill>,
    searches: Mutex<Searches>,
    cut_ends: CutEnds,
    copies: Arc<Copies>,
}

impl Service {
    pub fn start(windows: &Arc<Windows>, wanted: Option<Wanted>) -> Self {
        let findings = Arc::new(Findings { wanted: Mutex::new(wanted), ..Findings::default() });
        let both = || (Arc::clone(windows), Arc::clone(&findings));
        let workers = (0..THREADS)
            .map(|_| {
                let ((windows, findings), for_bell) = (both(), Arc::clone(windows));
                let bell = move || {
                    futex::wake(&for_bell.session.header().request_doorbell, i32::MAX);
                };
                Worker::start(bell, move |stop| run(&windows, stop, &findings))
            })
            .collect();
        let (for_verifier, its_findings) = both();
        let verifier =
            Worker::start(|| {}, move |stop| verify_contents(&for_verifier, stop, &its_findings));
        Self { windows: Arc::clone(windows), findings, workers, verifier }
    }

    /// What the threads look for and what they have found.
    pub fn findings(&self) -> &Arc<Findings> {
        &self.findings
    }

    /// The first divergence, if there was one.
    pub fn diverged(&self) -> Option<Report> {
        self.findings.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the replay of a recording that was cut off ended, once no thread can go on.
    pub fn cut_off(&self) -> Option<CutOff> {
        self.findings.cut_off.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks for another process from now on, or for another program of the same one.
    pub fn want(&self, wanted: Wanted) {
        *self.findings.wanted() = Some(wanted);
    }

    /// Looks for no process any more.
    pub fn want_all(&self) {
        *self.findings.wanted() = None;
    }

    /// Takes slots for a copy with this many threads; `None` if there are too few.
    pub fn slots_for_copy(&self, threads: usize) -> Option<CopySlots> {
        CopySlots::take(&self.windows, &self.findings.copies, threads)
    }

    /// Takes the wanted process, if it waits.
    pub fn held(&self) -> Option<Held> {
        self.findings.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the check of the files has ended: all are what was recorded, or one is not.
    pub fn has_verified(&self) -> bool {
        self.verifier.has_ended()
    }

    pub fn stop(self) {
        self.workers.iter().for_each(Worker::tell);
        let _ = self.verifier.end();
        for worker in self.workers {
            let _ = worker.end();
        }
    }
}

impl Findings {
    /// Keeps a report, if it is the first.
    pub fn keep(&self, report: Report) {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(report);
    }

    /// Answers REQUEST_CUT_END of a thread with this turn, `shared` if it is one of processes that
    /// share memory.
    fn cut_end(&self, windows: &Windows, slot: &Slot, (turn, shared): (u64, bool)) -> (i64, i64) {
        let stream = StreamId(slot.stream.load(Relaxed));
        let domain = (!shared).then(|| slot.recorded_pid.load(Relaxed) as i32);
        self.cut_ends.of(windows.recording(), stream, domain, turn)
    }

    fn wanted(&self) -> MutexGuard<'_, Option<Wanted>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wants(&self, stream: u32, events: u64) -> bool {
        self.wanted()
            .as_ref()
            .is_some_and(|wanted| wanted.stream == stream && wanted.events == events)
    }
}

/// Checks the files of a folder, which the runtime maps as they are. The files of a packed
/// recording were checked when they were unpacked.
fn verify_contents(windows: &Windows, stop: &Stop, findings: &Findings) {
    let recording = windows.recording();
    if recording.is_packed() {
        return;
    }
    let contents = recording.contents().unwrap_or_default();
    for (id, _) in contents {
        if stop.is_told() {
            return;
        }
        if let Err(error) = recording.copy_content(id, &mut std::io::sink()) {
            let mut report = findings.report.lock().unwrap_or_else(PoisonError::into_inner);
            report.get_or_insert_with(|| Report::of_file(&error));
            return;
        }
    }
}

fn run(windows: &Windows, stop: &Stop, findings: &Findings) {
    let header = windows.session.header();
    while !stop.is_told() {
        let seen = header.request_doorbell.load(Acquire);
        match shared::take_request(header) {
            Some(index) => answer(windows, index, findings),
            None => {
                futex::wait(&header.request_doorbell, seen, Some(Duration::from_millis(20)));
                look_whether_it_goes_on(windows, findings);
                look_for_endless_searches(windows, findings);
            }
        }
    }
}

/// If no thread can go on, reports that. If the recording was cut off, tells the threads that it
/// ends there: their processes end as if they had been killed.
fn look_whether_it_goes_on(windows: &Windows, findings: &Findings) {
    // If another thread has the lock, it does this.
    let Ok(mut standstill) = findings.standstill.try_lock() else { return };
    match standstill.look(windows) {
        None => {}
        Some(Found::Stuck(index, elapsed)) => {
            let slot = &windows.session.header().slots[index];
            keep_first(windows, findings, index, Report::stuck(windows, slot, elapsed));
        }
        Some(Found::CutOff(cut_off)) => {
            *findings.cut_off.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut_off);
            standstill::end_waits(windows.session.header());
        }
    }
}

/// If a thread searches in vain for the place where it was stopped, reports that.
fn look_for_endless_searches(windows: &Windows, findings: &Findings) {
    let Ok(mut searches) = findings.searches.try_lock() else { return };
    if let Some((index, computed)) = searches.look(windows) {
        let slot = &windows.session.header().slots[index];
        keep_first(windows, findings, index, Report::unreached(windows, slot, computed));
    }
}

/// The reply to a process. Errors are printed for the user.
fn answer_of(result: &std::io::Result<()>, what: &str) -> i64 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            retake_kernel::tell!("retake: cannot {what}: {error}");
            -1
        }
    }
}

fn answer(windows: &Windows, index: usize, findings: &Findings) {
    let slot = &windows.session.header().slots[index];
    let argument = |at: usize| slot.request.arguments[at].load(Relaxed);
    let keep = |report| keep_first(windows, findings, index, report);
    match slot.request.kind.load(Acquire) {
        shared::REQUEST_WINDOW => match windows.next(slot) {
            Ok(Some(bytes)) => windows.answer(slot, (0, bytes as i64)),
            Ok(None) => windows.answer(slot, (-1, 0)),
            Err(error) => {
                keep(Report::unreadable(windows, slot, &error));
                windows.answer(slot, (-1, 0));
            }
        },
        shared::REQUEST_SHARED_FILE => {
            let mut content = [0; 32];
            for (part, at) in content.chunks_exact_mut(8).zip(2..) {
                part.copy_from_slice(&argument(at).to_le_bytes());
            }
            let result = windows.prepare_shared(argument(0), argument(1), ContentId(content));
            if let Err(error) = &result {
                retake_kernel::tell!("retake: cannot prepare a shared file: {error}");
            }
            let answer = match result {
                Ok(true) => 0,
                Ok(false) => shared::SHARED_FILE_UNCHANGED,
                Err(_) => -1,
            };
            windows.answer(slot, (answer, 0));
        }
        // There is no answer: the process stays where it is until all processes are ended.
        shared::REQUEST_DIVERGED => keep(Report::new(windows, slot)),
        shared::REQUEST_INPUT => {
            let result = windows.hand_over_input(slot, argument(0), argument(1));
            windows.answer(slot, (answer_of(&result, "read what a call was given"), 0));
        }
        shared::REQUEST_LOOK => {
            let result = windows.look(slot, argument(0), argument(2));
            let what = "look at what a process has stored in mapped files";
            windows.answer(slot, (answer_of(&result, what), 0));
        }
        shared::REQUEST_CHILD => {
            let is_on_path = findings.wanted().as_ref().is_none_or(|wanted| {
                wanted.path.iter().any(|stream| u64::from(*stream) == argument(0))
            });
            windows.answer(slot, (i64::from(is_on_path && !windows.lacks(argument(0))), 0));
        }
        shared::REQUEST_CUT_END => {
            windows.answer(slot, findings.cut_end(windows, slot, (argument(0), argument(1) != 0)))
        }
        shared::REQUEST_CONSOLE => {
            windows.answer(slot, (windows.console_behind(argument(0)) as i64, 0))
        }
        shared::REQUEST_DEBUG if findings.wants(slot.stream.load(Relaxed), argument(0)) => {
            // Running::release answers the request.
            let held = Held { pid: windows.process_of(slot), slot: index };
            *findings.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
        }
        shared::REQUEST_DEBUG => windows.answer(slot, (0, 0)),
        shared::REQUEST_WATCH => {
            windows.answer(slot, (forced::answer(windows.process_of(slot), slot), 0))
        }
        other => {
            retake_kernel::tell!("retake: unknown request {other} of the runtime");
            windows.answer(slot, (-1, 0));
        }
    }
}

fn keep_first(windows: &Windows, findings: &Findings, index: usize, report: Report) {
    if findings.copies.has(index) {
        let slot = &windows.session.header().slots[index];
        process::kill(windows.process_of(slot), libc::SIGKILL);
        return;
    }
    findings.keep(report);
}
