//! Futexes in shared segments.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits while `word` is `value`. Returns after a wake, a signal or the timeout, or at once.
pub fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    let limit = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs() as i64,
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let limit_address = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both addresses are valid for the call; the kernel only reads them.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, limit_address)
    };
}

/// Wakes up to `count` waiters.
pub fn wake(word: &AtomicU32, count: i32) {
    // SAFETY: the address is valid; the kernel does not dereference it here.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) };
}
