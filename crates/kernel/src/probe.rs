//! Checks whether this machine offers what recording needs. Nothing here changes anything for the
//! calling process.

use crate::check;
use crate::process::{self, Program};
use crate::segment::Segment;
use crate::tracee::Attached;
use std::io;
use std::time::Duration;

const SET_SYSCALL_USER_DISPATCH: i32 = 59;
const DISPATCH_OFF: u64 = 0;

/// Checks that system calls can be dispatched to the process itself. Turns dispatch off for this
/// thread, where it must already be off.
///
/// # Errors
/// EINVAL if the kernel lacks the feature, EPERM if a filter forbids it.
pub fn syscall_user_dispatch() -> io::Result<()> {
    // SAFETY: with these arguments the call only clears a flag of this thread.
    check(i64::from(unsafe {
        libc::prctl(SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0u64, 0u64, 0u64)
    }))?;
    Ok(())
}

/// Checks that shared memory can be created and attached as executable.
///
/// # Errors
/// Those of the system calls.
pub fn executable_shared_memory() -> io::Result<()> {
    let segment = Segment::create(4096)?;
    // SAFETY: the kernel chooses the address, so nothing of ours is replaced.
    let address =
        unsafe { libc::shmat(segment.id(), std::ptr::null(), libc::SHM_RDONLY | libc::SHM_EXEC) };
    if address as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: attached just now, and no other code knows the address.
    check(i64::from(unsafe { libc::shmdt(address) }))?;
    Ok(())
}

/// How often the end of the traced child is checked, and the time between two checks.
const REAP_ATTEMPTS: u32 = 1000;
const REAP_PAUSE: Duration = Duration::from_millis(1);

/// Checks that this process may trace its children, on a child that runs nothing. Must be called
/// before any thread is started.
///
/// # Errors
/// EPERM if the machine forbids it.
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
            // The answers depend on the machine. That asking twice is possible does not.
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
