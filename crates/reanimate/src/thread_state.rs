//! Kernel state of threads: a umask for each thread, and the time that threads took.

#![allow(unsafe_code)]

use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::thread::UnshareFlags;

/// Gives the calling thread its own umask, which masks nothing. The umask of the traced process is
/// applied to each call instead.
///
/// # Errors
/// If the kernel refuses.
pub fn own_umask() -> Result<(), Errno> {
    // SAFETY: only working directory, root and mask become the thread's own; the table of
    // descriptors stays shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
    rustix::process::umask(Mode::empty());
    Ok(())
}

/// Returns the user time of all threads of this process.
pub fn user_time() -> Duration {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure, which lives until then.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    assert_eq!(result, 0, "asking for one's own times cannot fail");
    let number = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(number(usage.ru_utime.tv_sec))
        + Duration::from_micros(number(usage.ru_utime.tv_usec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_takes_user_time() {
        let before = user_time();
        let began = std::time::Instant::now();
        while user_time() == before {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is counted");
        }
    }
}
