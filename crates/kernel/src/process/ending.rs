//! Waits for the end of processes.

use super::{stat_fields, state};
use crate::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Returns a descriptor that becomes readable when the process ends.
///
/// # Errors
/// The process is already gone.
pub fn watch(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the descriptor is new and ours.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::syscall(libc::SYS_pidfd_open, pid, 0))? as i32)) }
}

/// Whether the other end of a pipe, terminal or connection is closed.
pub fn is_hung_up(descriptor: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: descriptor.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&mut poll, 1, 0) };
    poll.revents & libc::POLLHUP != 0
}

/// Returns the wait status of a watched process that has ended and need not be our child; `None` if
/// the kernel does not tell (before Linux 6.15).
pub fn status_of_ended(pid: i32, watch: &OwnedFd) -> Option<i32> {
    // Until its parent has reaped it, /proc has the status.
    if state(pid) == Some('Z') {
        return stat_fields(pid).last()?.parse().ok();
    }
    const EXIT: u64 = 1 << 3;
    const GET_INFO: libc::c_ulong = 0xc040_ff0b;
    /// The kernel's `struct pidfd_info`, its first version.
    #[repr(C)]
    struct Info {
        mask: u64,
        group: u64,
        numbers: [u32; 11],
        exit_code: i32,
    }
    let mut info = Info { mask: EXIT, group: 0, numbers: [0; 11], exit_code: 0 };
    // SAFETY: the number says the size of the structure, which the kernel fills.
    let result = unsafe { libc::ioctl(watch.as_raw_fd(), GET_INFO, &mut info) };
    (result == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}

/// Waits until the watched process has ended, or the time is up. Returns whether it ended.
pub fn ended(watch: &OwnedFd, timeout_ms: i32) -> bool {
    is_readable(watch, timeout_ms)
}

/// Waits until there is something to read, or end of file, for at most this many milliseconds;
/// without a limit if negative. Returns whether there is.
pub(crate) fn is_readable(file: &impl AsRawFd, timeout_ms: i32) -> bool {
    let mut entry = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&mut entry, 1, timeout_ms) > 0 }
}

/// Reaps a child that has ended, and returns its wait status; `None` if it has not ended.
pub fn reap(pid: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    let got = unsafe { libc::waitpid(pid, &mut status, libc::__WALL | libc::WNOHANG) };
    (got == pid).then_some(status)
}

/// Reaps the adopted children that have ended, except `keep`. Only the first thread of a process
/// may call this, because the kernel makes it the parent of orphans. Children of other threads,
/// such as a debugger, are left to these threads.
pub fn reap_adopted(keep: i32) {
    loop {
        // SAFETY: an all-zero siginfo is valid, and the kernel fills it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for the call.
        let got = unsafe {
            libc::waitid(
                libc::P_ALL,
                0,
                &mut info,
                libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WNOTHREAD,
            )
        };
        // SAFETY: waitid filled the child fields, or left them zero.
        let pid = unsafe { info.si_pid() };
        // The kernel also reports stops of threads that another thread of ours traces. These are
        // left to that thread.
        let has_ended =
            matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
        if got != 0 || pid == 0 || pid == keep || !has_ended || reap(pid).is_none() {
            return;
        }
    }
}
