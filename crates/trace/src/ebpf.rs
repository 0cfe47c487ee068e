//! Tracing from the kernel: our eBPF programs see each call where it returns and copy its data into
//! rings. Traced programs do not stop or change, and need not be started by us. Other programs are
//! slowed down hardly at all.
//!
//! Nothing is lost, because the tree is also seized by ptrace, without stops at calls. When a
//! thread fills a ring too far, or only we can read its data, the eBPF program sends it SIGSTOP.
//! ptrace reports that before the thread sees the signal. It goes on without the signal when the
//! rings are empty. Paper: [RE-ANIMATOR §2.3], whose tracer in the kernel slows programs down in
//! the same way, but needs a kernel module.

mod calls;
mod collector;
mod holder;
mod mappings;
mod thread;

use crate::Result;
use crate::attach::{self, Request, Whom};
use crate::live::Observer;
use crate::look::Looker;
use crate::outside;
use collector::Collector;
use mappings::Mappings;
use retake_kernel::clock;
use retake_record::EventLog;
use retake_recording::{Exit, Metadata, Outcome};
use retake_trace_ebpf::{Counters, Programs, Settings};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Checks whether this kind of tracing works here.
///
/// # Errors
/// The reason why it does not.
pub fn check() -> Result<()> {
    Ok(retake_trace_ebpf::check()?)
}

/// Passes on all observations of a program or of processes, calls in the order in which they
/// return. Returns the program's wait status, or 0.
///
/// # Errors
/// The program cannot be run, a process cannot be followed, or the kernel refuses our eBPF
/// programs.
pub fn live(request: &Request, observer: Observer) -> Result<i32> {
    outside::live(request, observer, run)
}

/// As [`crate::inside::into_spool`].
///
/// # Errors
/// As [`live`], or the folder cannot be made.
pub fn into_spool(request: &Request, folder: &Path, metadata: &Metadata) -> Result<i32> {
    outside::into_spool(request, folder, metadata, run)
}

/// The time between looks at the rings while events come.
const BUSY_PERIOD: Duration = Duration::from_millis(1);
/// The longest time between looks while no events come. Events written meanwhile fit into the
/// rings, or their thread is held.
const IDLE_PERIOD: Duration = Duration::from_millis(20);

type Shared = Mutex<Collector>;

fn lock(shared: &Shared) -> MutexGuard<'_, Collector> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(request: &Request, log: Arc<dyn EventLog>, looker: Option<Arc<Looker>>) -> Result<i32> {
    let guardian = attach::guard(&request.whom)?;
    let result = trace(request, log, looker);
    if let Some(guardian) = guardian {
        guardian.dismiss().wait();
    }
    result
}

fn trace(request: &Request, log: Arc<dyn EventLog>, looker: Option<Arc<Looker>>) -> Result<i32> {
    let (mut programs, rings) =
        Programs::load(&Settings { data_limit: request.data_limit, looks: looker.is_some() })?;
    programs.attach()?;
    let mappings = looker
        .map(|looker| programs.take_mappers().map(|mappers| Mappings::new(looker, mappers)))
        .transpose()?;
    let shared = Mutex::new(Collector::new(Arc::clone(&log), rings, request.data_limit, mappings));
    let child = match &request.whom {
        Whom::Program(program) => {
            Some((program.program.display().to_string(), attach::prepare(program)?))
        }
        Whom::Processes(_) => None,
    };
    let programs = Mutex::new(Some(programs));
    let mut pause = BUSY_PERIOD;
    let traced = attach::on_own_thread(
        &request.whom,
        || {
            let something = lock(&shared).drain();
            pause = if something { BUSY_PERIOD } else { (pause * 2).min(IDLE_PERIOD) };
            std::thread::park_timeout(pause);
        },
        || {
            // No thread is held from here on. The tracer continues the held ones before it leaves.
            let programs = programs.lock().unwrap_or_else(PoisonError::into_inner).take();
            tell_losses(&*log, programs.map(|programs| programs.counters()));
        },
        |leave| holder::hold(&shared, &programs, request, child, leave),
    );
    let status = traced?;
    let mut collector = lock(&shared);
    collector.drain();
    collector.finish()?;
    tell_losses(
        &*log,
        programs
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .map(|programs| programs.counters()),
    );
    let exit = if libc::WIFSIGNALED(status) {
        Exit::Killed(libc::WTERMSIG(status))
    } else {
        Exit::Exited(libc::WEXITSTATUS(status))
    };
    log.finish(&Outcome::of_exit(exit))?;
    log.drained();
    Ok(status)
}

fn tell_losses(log: &dyn EventLog, counters: Option<Counters>) {
    let Some(Counters { lost, foreign }) = counters else { return };
    if lost != 0 {
        log.incomplete(&format!("{lost} events came when there was no room for them"));
    }
    if foreign != 0 {
        log.incomplete(&format!("{foreign} calls of 32-bit code are left out"));
    }
}

fn now_ns() -> u64 {
    clock::real_time_ns().unwrap_or(0)
}
