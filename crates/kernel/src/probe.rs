//! Trying out whether this machine offers what recording needs. Nothing here changes anything for
//! the process that asks.

use crate::check;
use crate::process::{self, Program};
use crate::segment::Segment;
use crate::tracee::Attached;
use std::io;
use std::time::Duration;

const SET_SYSCALL_USER_DISPATCH: i32 = 59;
const DISPATCH_OFF: u64 = 0;

/// Whether system calls can be dispatched to the process itself. Turns dispatch off for this
/// thread, which has it off.
///
/// # Errors
/// EINVAL where the kernel has no such thing, EPERM where a filter forbids it.
pub fn syscall_user_dispatch() -> io::Result<()> {
    // SAFETY: with these arguments the call only clears a flag of this thread.
    check(i64::from(unsafe {
        libc::prctl(SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0u64, 0u64, 0u64)
    }))?;
    Ok(())
}

/// Whether shared memory can be had, and attached so that it can be executed.
///
/// # Errors
/// What the system calls say.
pub fn executable_shared_memory() -> io::Result<()> {
    let segment = Segment::create(4096)?;
    // SAFETY: the kernel chooses the address, so nothing of ours is replaced.
    let address =
        unsafe { libc::shmat(segment.id(), std::ptr::null(), libc::SHM_RDONLY | libc::SHM_EXEC) };
    if address as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: attached just now and known to nobody else.
    check(i64::from(unsafe { libc::shmdt(address) }))?;
    Ok(())
}

/// How often, and how long after each other, the end of the traced child is looked for.
const REAP_ATTEMPTS: u32 = 1000;
const REAP_PAUSE: Duration = Duration::from_millis(1);

/// Whether this process may trace its children: tries it on one that runs nothing. Call it before
/// any thread is started.
///
/// # Errors
/// EPERM where the machine forbids it.
pub fn tracing() -> io::Result<()> {
    let program = Program {
        limits: None,
        path: c"/nonexistent",
        by_descriptor: None,
        output: None,
        arguments: &[],
        environment: &[],
        confined_to: None,
    };
    let child = process::prepare(&program)?;
    let attached = Attached::seize(child.pid);
    process::kill(child.pid, libc::SIGKILL);
    for _ in 0..REAP_ATTEMPTS {
        if process::reap(child.pid).is_some() {
            break;
        }
        std::thread::sleep(REAP_PAUSE);
    }
    attached.map(drop)
}

#[cfg(test)]
mod tests {
    #[test]
    fn probes_leave_nothing_behind() {
        for _ in 0..2 {
            // What the answers are depends on the machine; that they can be asked twice does not.
            let first = (
                super::syscall_user_dispatch().is_ok(),
                super::executable_shared_memory().is_ok(),
                super::tracing().is_ok(),
            );
            let second = (
                super::syscall_user_dispatch().is_ok(),
                super::executable_shared_memory().is_ok(),
                super::tracing().is_ok(),
            );
            assert_eq!(first, second);
        }
    }
}
