//! Receives the calls that a filter does not allow.

use super::filter::X86_64;
use crate::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

// The ioctls of a listener. The C library's headers have no name for the flag.
const RECEIVE: libc::Ioctl = 0xc050_2100;
const SEND: libc::Ioctl = 0xc018_2101;
const IS_VALID: libc::Ioctl = 0x4008_2102;
const ADD_DESCRIPTOR: libc::Ioctl = 0x4018_2103;
const SET_FLAGS: libc::Ioctl = 0x4008_2104;
/// The kernel wakes the other side at once, on the same core.
const SYNC_WAKE_UP: u64 = 1;
/// Adding a descriptor also answers the call.
const ANSWERS: u32 = 2;

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    id: u64,
    /// The thread that makes the call.
    pub tid: i32,
    /// The call's number. Its meaning depends on the architecture.
    pub number: i32,
    architecture: u32,
    /// The address after the instruction that makes the call.
    pub address: u64,
    /// The arguments, as the kernel took them from the registers.
    pub arguments: [u64; 6],
}

impl Notice {
    /// Whether it is a 64-bit call. In other calls the number has another meaning.
    pub fn is_of_64_bits(&self) -> bool {
        self.architecture == X86_64
    }
}

/// The listening end of a filter.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Wraps the descriptor that the kernel created for a filter.
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        // Kernels before 6.6 lack this flag. Everything else works there.
        // SAFETY: the argument is a number.
        unsafe { libc::ioctl(descriptor.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
        Ok(Self(descriptor))
    }

    /// Waits for the next call. Returns `None` if no confined process is left, or if `stop` is hung
    /// up.
    ///
    /// # Errors
    /// Only those of the kernel; no confined process can cause one.
    pub fn next(&self, stop: BorrowedFd<'_>) -> io::Result<Option<Notice>> {
        loop {
            let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut entries = [entry(self.0.as_raw_fd()), entry(stop.as_raw_fd())];
            // SAFETY: two valid entries.
            let ready = unsafe { libc::poll(entries.as_mut_ptr(), 2, -1) };
            if ready < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            if entries[1].revents != 0 {
                return Ok(None);
            }
            if entries[0].revents & libc::POLLIN != 0 {
                if let Some(notice) = self.receive()? {
                    return Ok(Some(notice));
                }
            } else if entries[0].revents != 0 {
                return Ok(None);
            }
        }
    }

    /// Receives a call. Returns `None` if its thread is gone or was interrupted.
    fn receive(&self) -> io::Result<Option<Notice>> {
        // SAFETY: all zeros are valid for this structure of integers.
        let mut told: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills one structure of that type.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE, &raw mut told) };
        if let Err(error) = check(i64::from(result)) {
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        Ok(Some(Notice {
            id: told.id,
            tid: told.pid as i32,
            number: told.data.nr,
            architecture: told.data.arch,
            address: told.data.instruction_pointer,
            arguments: told.data.args,
        }))
    }

    /// Whether the call still waits. If not, its thread ID may already belong to another thread.
    pub fn is_waiting(&self, notice: &Notice) -> bool {
        // SAFETY: the kernel reads one number.
        unsafe { libc::ioctl(self.0.as_raw_fd(), IS_VALID, &raw const notice.id) == 0 }
    }

    /// Lets the kernel make the call. Its registers cannot have changed since, but memory to which
    /// they point can.
    pub fn let_pass(&self, notice: &Notice) {
        self.send(notice, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    /// Makes the call fail with this `errno`.
    pub fn fail(&self, notice: &Notice, error: i32) {
        self.send(notice, -error, 0);
    }

    /// Answers the call with a descriptor for this file. An exec closes the descriptor.
    pub fn hand_over(&self, notice: &Notice, file: &File) {
        let added = libc::seccomp_notif_addfd {
            id: notice.id,
            flags: ANSWERS,
            srcfd: file.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: libc::O_CLOEXEC as u32,
        };
        // SAFETY: the kernel reads one structure of that type.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), ADD_DESCRIPTOR, &raw const added) };
        if check(i64::from(result)).is_err() {
            self.fail(notice, libc::EMFILE);
        }
    }

    /// Sends an answer. If the caller is gone, no thread waits for it.
    fn send(&self, notice: &Notice, error: i32, flags: u32) {
        let answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error, flags };
        // SAFETY: the kernel reads one structure of that type.
        unsafe { libc::ioctl(self.0.as_raw_fd(), SEND, &raw const answer) };
    }
}
