//! Waiting for the first process, and following it into and out of the stops of job control.
//!
//! The process that waits for the recorder, a shell for example, shall see it stopped when the
//! program is stopped, and may continue it in place of the program. Others continue the program
//! alone, or have work for the recorder while only the first process is stopped: then the guardian
//! wakes it.

use crate::deadline::Deadline;
use crate::shared_state::Recorder;
use retake_kernel::guardian::Guardian;
use retake_kernel::shared::Header;
use retake_kernel::{process, signals};
use retake_model::table::number;
use std::io;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

/// How often the first process is looked at, in milliseconds.
const LOOK_MS: i32 = 100;
/// To continue a process group continues the program and the recorder, one after the other.
const TOGETHER: Duration = Duration::from_millis(20);

/// The number of the first process, and how often the runtimes have called the supervisor so far.
fn seen(header: &Header, pid: i32) -> u64 {
    let bells = [&header.drain_doorbell, &header.request_doorbell, &header.force_doorbell];
    let calls = bells.iter().fold(0u32, |sum, bell| sum.wrapping_add(bell.load(Acquire)));
    u64::from(pid as u32) << 32 | u64::from(calls)
}

/// A traced stop is none: it is ours, at an exec, and takes as long as the patcher takes.
fn is_stopped(pid: i32) -> bool {
    process::state(pid) == Some('T')
}

/// In the guardian: whether a recorder that had `before` in front of it when it stopped must go on.
pub(crate) fn must_go_on(header: &Header, before: u64) -> bool {
    let pid = (before >> 32) as i32;
    !is_stopped(pid) || seen(header, pid) != before
}

/// Waits until the first process has ended, and returns its wait status.
///
/// # Errors
/// There is no descriptor for it.
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
        let is_deaf = signals::asked_to_end().is_some() && waits_for_child(pid);
        if is_deaf && std::mem::replace(&mut was_deaf, is_deaf) {
            deadline.end_now();
        }
        deadline.enforce(header);
        let now = is_stopped(pid).then(|| seen(header, pid));
        match now {
            // Nobody had work for us since the last look.
            Some(seen) if stopped_with == now => {
                // Nobody shall wait for a file because of one who is stopped.
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

/// Whether a process waits until its child executes a program or ends. Meanwhile the kernel heeds
/// no signal for which it has a handler, and the runtime has one for each.
fn waits_for_child(pid: i32) -> bool {
    const CALLS: [u16; 3] = [number::VFORK, number::CLONE, number::CLONE3];
    process::state(pid) == Some('D')
        && process::waits_in(pid).is_some_and(|call| CALLS.map(u64::from).contains(&call))
}

/// We were continued. If the signal reached only us, it was meant for the program.
fn pass_on(header: &Header, pid: i32, before: u64) {
    std::thread::sleep(TOGETHER);
    if !must_go_on(header, before) {
        process::kill(pid, libc::SIGCONT);
    }
}
