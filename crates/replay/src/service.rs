//! Answers the requests of replayed processes.

use crate::forced;
use crate::report::Report;
use crate::windows::Windows;
use retake_kernel::{futex, shared};
use retake_recording::ContentId;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const THREADS: usize = 2;

pub(crate) struct Service {
    windows: Arc<Windows>,
    stop: Arc<AtomicBool>,
    report: Arc<Mutex<Option<Report>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Service {
    pub fn start(windows: &Arc<Windows>) -> Self {
        let (stop, report) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let threads = (0..THREADS)
            .map(|_| {
                let (windows, stop, report) = (Arc::clone(windows), Arc::clone(&stop), Arc::clone(&report));
                std::thread::spawn(move || run(&windows, &stop, &report))
            })
            .collect();
        Self { windows: Arc::clone(windows), stop, report, threads }
    }

    /// The first divergence, if there was one.
    pub fn diverged(&self) -> Option<Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn stop(self) {
        self.stop.store(true, Release);
        for thread in self.threads {
            futex::wake(&self.windows.session.header().request_doorbell, i32::MAX);
            let _ = thread.join();
        }
    }
}

fn run(windows: &Windows, stop: &AtomicBool, report: &Mutex<Option<Report>>) {
    let header = windows.session.header();
    while !stop.load(Acquire) {
        let seen = header.request_doorbell.load(Acquire);
        match shared::take_request(header) {
            Some(index) => answer(windows, index, report),
            None => futex::wait(&header.request_doorbell, seen, Some(Duration::from_millis(20))),
        }
    }
}

fn answer(windows: &Windows, index: usize, report: &Mutex<Option<Report>>) {
    let slot = &windows.session.header().slots[index];
    let argument = |at: usize| slot.lines.request_arguments[at].load(Relaxed);
    match slot.lines.request.load(Acquire) {
        shared::REQUEST_WINDOW => match windows.next(slot.stream.load(Relaxed), argument(0)) {
            Ok(Some((id, bytes))) => windows.answer(slot, (i64::from(id), bytes as i64)),
            Ok(None) => windows.answer(slot, (-1, 0)),
            Err(error) => {
                keep_first(report, Report::unreadable(windows, slot, &error));
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
                eprintln!("retake: cannot prepare a shared file: {error}");
            }
            windows.answer(slot, (if result.is_ok() { 0 } else { -1 }, 0));
        }
        // Not answered: the process stays where it is until everything is ended.
        shared::REQUEST_DIVERGED => keep_first(report, Report::new(windows, slot)),
        shared::REQUEST_INPUT => {
            let result = windows.hand_over_input(slot, argument(0), argument(1));
            if let Err(error) = &result {
                eprintln!("retake: cannot read what a call was given: {error}");
            }
            windows.answer(slot, (if result.is_ok() { 0 } else { -1 }, 0));
        }
        shared::REQUEST_WATCH => windows.answer(slot, (forced::answer(slot), 0)),
        other => {
            eprintln!("retake: unknown request {other} of the runtime");
            windows.answer(slot, (-1, 0));
        }
    }
}

fn keep_first(report: &Mutex<Option<Report>>, fresh: Report) {
    report.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fresh);
}
