//! The ptrace side: continues threads that the eBPF programs have stopped, and looks at processes
//! while they are stopped at an exec.

use super::{Shared, lock};
use crate::attach::{self, Leave, Request, Whom};
use crate::{Error, Result};
use retake_kernel::call_tracer::{self, Afterwards, Stop, Waited};
use retake_kernel::process::Prepared;
use retake_kernel::{process, ptrace, signals};
use retake_trace_ebpf::Programs;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The `si_code` of signals that the kernel sends, as our eBPF programs do.
const FROM_KERNEL: i32 = 0x80;

type SharedPrograms = Mutex<Option<Programs>>;

/// Follows a program, given with its name, or processes, until they are gone or we are asked to
/// leave. Returns the wait status of the program, or 0.
pub(super) fn hold(
    shared: &Shared,
    programs: &SharedPrograms,
    request: &Request,
    child: Option<(String, Prepared)>,
    leave: &Leave,
) -> Result<i32> {
    let mut holder = Holder { shared, root: None, status: 0 };
    match (&request.whom, child) {
        (Whom::Processes(processes), _) => {
            attach::take_tree(processes, |process, tid| holder.attach(programs, process, tid))?;
            holder.follow(leave);
        }
        (Whom::Program(_), Some((name, mut child))) => {
            holder
                .seize(child.pid, Afterwards::End)
                .map_err(|source| Error::Attach { whom: name.clone(), source })?;
            let thread = with(programs, |programs| programs.follow(child.pid, true))?;
            lock(shared).begin(thread, child.pid, child.pid, false)?;
            signals::pass_to(child.pid);
            holder.root = Some(child.pid);
            child.start()?;
            holder.follow(leave);
            if !lock(shared).has_begun() {
                let source =
                    child.failure().unwrap_or_else(|| io::Error::other("it ended at once"));
                return Err(Error::Exec { program: name, source });
            }
        }
        (Whom::Program(_), None) => {}
    }
    Ok(holder.status)
}

fn with<T>(
    programs: &SharedPrograms,
    use_them: impl FnOnce(&mut Programs) -> Result<T, retake_trace_ebpf::Error>,
) -> Result<T> {
    let mut programs = programs.lock().unwrap_or_else(PoisonError::into_inner);
    match programs.as_mut() {
        Some(programs) => Ok(use_them(programs)?),
        None => {
            Err(Error::System(io::Error::other("asked to end before all processes were followed")))
        }
    }
}

struct Holder<'run> {
    shared: &'run Shared,
    root: Option<i32>,
    status: i32,
}

impl Holder<'_> {
    fn seize(&self, tid: i32, afterwards: Afterwards) -> io::Result<()> {
        if lock(self.shared).looks() {
            call_tracer::seize_to_the_end(tid, afterwards)
        } else {
            call_tracer::seize(tid, afterwards)
        }
    }

    /// Attaches to a thread, unless it was attached together with its maker.
    fn attach(&self, programs: &SharedPrograms, process: i32, tid: i32) -> Result<()> {
        match self.seize(tid, Afterwards::GoOn) {
            Err(error)
                if error.raw_os_error() == Some(libc::EPERM)
                    && process::tracer(tid) == Some(signals::own_tid()) => {}
            Err(source) => {
                return Err(Error::Attach { whom: format!("process {process}"), source });
            }
            Ok(()) => {}
        }
        // While this lock is held, no event of the thread is taken in before the beginning of its
        // stream.
        let mut collector = lock(self.shared);
        match with(programs, |programs| programs.follow(tid, false)) {
            Ok(thread) => collector.begin(thread, process, tid, true),
            Err(Error::Kernel(retake_trace_ebpf::Error::Mark { source, .. }))
                if source.raw_os_error() == Some(libc::EEXIST) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn follow(&mut self, leave: &Leave) {
        loop {
            if leave.is_asked() {
                let mut collector = lock(self.shared);
                collector.drain();
                if !collector.somebody_is_held() {
                    collector.leaves();
                    return;
                }
            }
            match call_tracer::wait(leave.flag()) {
                Waited::Stop(tid, stop) => self.stopped(tid, stop),
                Waited::Asked => {}
                Waited::Nobody => return,
            }
        }
    }

    /// Handles a stop and continues the thread. If the thread was killed meanwhile, its end comes
    /// next.
    fn stopped(&mut self, tid: i32, stop: Stop) {
        let signal = match stop {
            Stop::Signal(libc::SIGSTOP) if is_ours(tid) => {
                lock(self.shared).release(tid);
                0
            }
            Stop::Signal(number) => number,
            Stop::Exec(_) => {
                lock(self.shared).executed(tid);
                0
            }
            Stop::Group(libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
                let _ = call_tracer::listen(tid);
                return;
            }
            Stop::Exiting => {
                lock(self.shared).ends(tid);
                0
            }
            Stop::Exited(status) => return self.ended(tid, status << 8),
            Stop::Killed(signal) => return self.ended(tid, signal),
            Stop::Group(_) | Stop::Child(_) | Stop::Call => 0,
        };
        let _ = ptrace::resume(tid, signal);
    }

    fn ended(&mut self, tid: i32, status: i32) {
        if self.root == Some(tid) {
            self.status = status;
        }
    }
}

/// Returns whether the signal that a thread is about to get comes from our eBPF programs.
fn is_ours(tid: i32) -> bool {
    let Ok(info) = call_tracer::signal_info(tid) else { return false };
    i32::from_le_bytes(std::array::from_fn(|index| info[8 + index])) == FROM_KERNEL
}
