//! The targets of tracing from outside: a program that is started for it, or running processes with
//! all their descendants.

use crate::{Error, Result};
#[cfg(feature = "ebpf")]
use retake_kernel::guardian::Guardian;
use retake_kernel::process::{self, Prepared, Program};
use retake_kernel::signals;
use std::collections::HashSet;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The target of tracing from outside.
#[derive(Debug, Clone)]
pub enum Whom {
    /// A program, started as for the other methods.
    Program(Box<retake_record::Request>),
    /// Running processes, their descendants, and all that they create from now on.
    Processes(Vec<i32>),
}

/// The target of tracing from outside, and how much of it to keep.
#[derive(Debug, Clone)]
pub struct Request {
    /// The program or processes to trace.
    pub whom: Whom,
    /// The most bytes kept of each buffer.
    pub data_limit: u64,
}

/// Starts a child that waits before the exec of its program.
pub(crate) fn prepare(program: &retake_record::Request) -> Result<Prepared> {
    let text = |bytes: &[u8]| {
        CString::new(bytes).map_err(|_| io::Error::other("an argument contains a NUL byte"))
    };
    let path = text(program.program.as_os_str().as_bytes())?;
    let arguments = program
        .arguments
        .iter()
        .map(|argument| text(argument.as_bytes()))
        .collect::<io::Result<Vec<_>>>()?;
    let pair = |(name, value): &(OsString, OsString)| {
        text(&[name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    let environment = program.environment.iter().map(pair).collect::<io::Result<Vec<_>>>()?;
    Ok(process::prepare(&Program {
        limits: Some(&program.limits),
        path: &path,
        by_descriptor: None,
        output: None,
        arguments: &arguments,
        environment: &environment,
        confined_to: None,
    })?)
}

/// The most passes over a growing tree. A tree that needs more grows faster than we can look.
const MOST_PASSES: usize = 200;

/// Takes in every thread of the given processes and of their descendants, including those that
/// appear meanwhile. `take` gets a process and one of its threads. Only its errors for the first
/// thread of a named process count.
///
/// # Errors
/// A named process does not exist, or an error of `take`.
pub(crate) fn take_tree(roots: &[i32], mut take: impl FnMut(i32, i32) -> Result<()>) -> Result<()> {
    let mut taken = HashSet::new();
    for root in roots {
        if process::group_leader(*root) != Some(*root) {
            return Err(Error::NoProcess(*root));
        }
        if taken.insert(*root) {
            take(*root, *root)?;
        }
    }
    for _ in 0..MOST_PASSES {
        let mut found = false;
        for process in descendants(roots) {
            for tid in threads(process) {
                if taken.insert(tid) {
                    found = true;
                    // The thread may be gone by now, or be taken in already because its maker was.
                    let _ = take(process, tid);
                }
            }
        }
        if !found {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the processes and all their descendants, parents first.
fn descendants(roots: &[i32]) -> Vec<i32> {
    let pairs: Vec<(i32, i32)> =
        process::all().into_iter().filter_map(|pid| Some((pid, process::parent(pid)?))).collect();
    let mut found = roots.to_vec();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = pairs.iter().filter(|(pid, of)| *of == parent && !found.contains(pid));
        let children: Vec<i32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
        next += 1;
    }
    found
}

fn threads(process: i32) -> Vec<i32> {
    let entries =
        std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Starts a process that continues the threads which we have stopped, in case we are killed.
///
/// # Errors
/// The process or its descriptor cannot be made.
#[cfg(feature = "ebpf")]
pub(crate) fn guard(whom: &Whom) -> io::Result<Option<Guardian>> {
    // A program that we started is killed with us.
    let Whom::Processes(roots) = whom else { return Ok(None) };
    let roots = roots.clone();
    let let_go = move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        for process in
            descendants(&roots).into_iter().filter(|pid| process::state(*pid) == Some('T'))
        {
            process::kill(process, libc::SIGCONT);
        }
    };
    Ok(Some(Guardian::start(let_go)?))
}

/// A request to the tracing thread to leave the processes that it has attached to.
#[derive(Debug, Default)]
pub(crate) struct Leave {
    asked: AtomicBool,
    tid: AtomicI32,
}

impl Leave {
    /// Returns the flag for [`retake_kernel::call_tracer::wait`].
    pub fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    /// Returns whether the thread is asked to leave.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Asks the thread to leave. The caller repeats this until the thread is gone.
    fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        match self.tid.load(Ordering::Acquire) {
            0 => {}
            tid => signals::interrupt(tid),
        }
    }
}

/// Runs `trace` on a thread of its own, which owns all that it attaches to. When it ends, the
/// kernel detaches them without a stop. Meanwhile `idle` is called again and again. It may wait, at
/// most until this thread is unparked. If a signal asks us to end, a tracer of running processes is
/// asked to leave, after one call of `before_leaving`.
pub(crate) fn on_own_thread<T: Send>(
    whom: &Whom,
    mut idle: impl FnMut(),
    before_leaving: impl FnOnce(),
    trace: impl FnOnce(&Leave) -> Result<T> + Send,
) -> Result<T> {
    let leave = Leave::default();
    let main = std::thread::current();
    let may_leave = matches!(whom, Whom::Processes(_));
    if may_leave {
        signals::allow_interruption();
        signals::pass_to(0);
    }
    let mut before_leaving = Some(before_leaving);
    std::thread::scope(|scope| {
        let (leave, main) = (&leave, &main);
        let tracer = scope.spawn(move || {
            leave.tid.store(signals::own_tid(), Ordering::Release);
            let result = trace(leave);
            main.unpark();
            result
        });
        while !tracer.is_finished() {
            if may_leave && signals::asked_to_end().is_some() {
                if let Some(before_leaving) = before_leaving.take() {
                    before_leaving();
                }
                leave.ask();
            }
            idle();
        }
        tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
