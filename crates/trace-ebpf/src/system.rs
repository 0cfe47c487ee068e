//! System calls for which no library has a function.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_MAP_UPDATE_ELEM: i32 = 2;
/// Fails if the thread has a value already.
const BPF_NOEXIST: u64 = 1;
/// Selects a thread, not only a process. Since Linux 6.9.
const PIDFD_THREAD: u32 = libc::O_EXCL as u32;

/// Opens a descriptor for a thread.
///
/// # Errors The thread is gone, or the kernel cannot name single threads.
pub fn thread_descriptor(tid: i32) -> io::Result<OwnedFd> {
    let open = |flags: u32| {
        // SAFETY: a plain system call without memory of ours.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
    };
    match open(PIDFD_THREAD) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(0),
        other => other,
    }
}

#[repr(C)]
struct UpdateElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Stores a value for a thread in a map with thread storage.
///
/// # Errors The thread is gone. EEXIST: it has a value already.
pub fn keep_with_thread(map: BorrowedFd<'_>, thread: &OwnedFd, value: &[u64]) -> io::Result<()> {
    let key = thread.as_raw_fd();
    let request = UpdateElement {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const key) as u64,
        value: value.as_ptr() as u64,
        flags: BPF_NOEXIST,
    };
    // SAFETY: the kernel reads the request, a descriptor as key, and as many bytes of the value as
    // the map's values have, which is its length.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_UPDATE_ELEM,
            &raw const request,
            size_of::<UpdateElement>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Nanoseconds from the monotonic clock to 1970, as precise as one reading of both clocks gives.
pub fn real_time_offset_ns() -> u64 {
    let read = |clock| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one structure of that type; neither clock can fail.
        unsafe { libc::clock_gettime(clock, &mut now) };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let look = || {
        let (before, real, after) =
            (read(libc::CLOCK_MONOTONIC), read(libc::CLOCK_REALTIME), read(libc::CLOCK_MONOTONIC));
        (after - before, real.wrapping_sub(before + (after - before) / 2))
    };
    (0..5).map(|_| look()).min().map_or(0, |(_, offset)| offset)
}
