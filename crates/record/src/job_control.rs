//! Waits for the first process, and follows it into and out of job-control stops.
//!
//! The process that waits for the recorder, such as a shell, must see the recorder stop when the
//! program stops. It may continue the recorder in place of the program. But other processes may
//! continue the program directly, or may need the recorder while only the first process is stopped.
//! Then the guardian wakes the recorder.

use crate::deadline::Deadline;
use crate::shared_state::Recorder;
use retake_kernel::guardian::Guardian;
use retake_kernel::shared::Header;
use retake_kernel::{process, signals};
use std::io;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

/// How often the first process is checked, in milliseconds.
const LOOK_MS: i32 = 100;
/// A signal that continues a process group reaches the program and the recorder one after the
/// other, within this time.
const TOGETHER: Duration = Duration::from_millis(20);

/// Returns the ID of the first process, and how often the runtimes have called the supervisor so
/// far, in one word.
fn seen(header: &Header, pid: i32) -> u64 {
    let bells = [&header.drain_doorbell, &header.request_doorbell, &header.force_doorbell];
    let calls = bells.iter().fold(0u32, |sum, bell| sum.wrapping_add(bell.load(Acquire)));
    u64::from(pid as u32) << 32 | u64::from(calls)
}

/// Whether a process is stopped by job control. A ptrace stop does not count: it is the
/// supervisor's own, at an exec, and lasts as long as patching does.
fn is_stopped(pid: i32) -> bool {
    process::state(pid) == Some('T')
}

/// For the guardian: whether a recorder that stopped when [`seen`] was `before` must continue.
pub(crate) fn must_go_on(header: &Header, before: u64) -> bool {
    let pid = (before >> 32) as i32;
    !is_stopped(pid) || seen(header, pid) != before
}

/// Waits until the first process has ended, and returns its wait status.
///
/// # Errors
/// The first process cannot be watched through a descriptor.
pub(crate) fn wait_for_first(
    recorder: &Recorder,
    pid: i32,
    deadline: &Deadline,
    guardian: &Guardian,
) -> io::Result<i32> {
    let header = recorder.header();
    let watch = process::watch(pid)?;
    let mut stopped_with = None;
    let mut was_deaf = false;
    while !process::ended(&watch, deadline.wait_ms(LOOK_MS)) {
        // Orphans that have ended, which the kernel's first process would reap at once.
        process::reap_adopted(pid);
        // The runtime handles every signal.
        let is_deaf = signals::asked_to_end().is_some() && process::waits_for_child(pid, pid);
        if is_deaf && std::mem::replace(&mut was_deaf, is_deaf) {
            deadline.end_now();
        }
        deadline.enforce(header);
        let now = is_stopped(pid).then(|| seen(header, pid));
        match now {
            // No runtime has called the supervisor since the last look.
            Some(seen) if stopped_with == now => {
                // A process that waits for a file must not have to wait until a stopped recorder
                // continues.
                recorder.leases.give_up(header);
                guardian.stop_self(seen);
                pass_on(header, pid, seen);
                stopped_with = None;
            }
            _ => stopped_with = now,
        }
    }
    loop {
        if let Some(status) = process::reap(pid) {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Continues the program after the recorder was continued, if the signal reached only the recorder:
/// it was meant for the program.
fn pass_on(header: &Header, pid: i32, before: u64) {
    std::thread::sleep(TOGETHER);
    if !must_go_on(header, before) {
        process::kill(pid, libc::SIGCONT);
    }
}
