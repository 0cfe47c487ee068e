//! Who hears of the calls that a filter does not let pass.

use super::filter::X86_64;
use crate::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

// ioctls of a listener. The C library's headers have no name for the flag.
const RECEIVE: libc::Ioctl = 0xc050_2100;
const SEND: libc::Ioctl = 0xc018_2101;
const IS_VALID: libc::Ioctl = 0x4008_2102;
const ADD_DESCRIPTOR: libc::Ioctl = 0x4018_2103;
const SET_FLAGS: libc::Ioctl = 0x4008_2104;
/// The caller is woken on this core, at once.
const SYNC_WAKE_UP: u64 = 1;
/// Adding a descriptor answers the call too.
const ANSWERS: u32 = 2;

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    id: u64,
    /// The thread that makes it.
    pub tid: i32,
    /// The call's number; which call that is depends on the architecture.
    pub number: i32,
    architecture: u32,
    /// Behind the instruction that makes it.
    pub address: u64,
    /// As the kernel has taken them from the registers.
    pub arguments: [u64; 6],
}

impl Notice {
    /// Whether it is a call of 64-bit programs: else its number means another one.
    pub fn is_of_64_bits(&self) -> bool {
        self.architecture == X86_64
    }
}

/// Hears of calls.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// `descriptor` is what the kernel made with a filter.
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        // Kernels before 6.6 do not know it, and all else works there.
        // SAFETY: the argument is a number.
        unsafe { libc::ioctl(descriptor.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
        Ok(Self(descriptor))
    }

    /// Waits for the next call. `None`: nobody is confined any more, or `stop` is hung up.
    ///
    /// # Errors
    /// None that a listener could cause.
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

    /// `None`: who made the call is gone, or was called away.
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

    /// Whether the call still waits: else the thread's number may be another's.
    pub fn is_waiting(&self, notice: &Notice) -> bool {
        // SAFETY: the kernel reads one number.
        unsafe { libc::ioctl(self.0.as_raw_fd(), IS_VALID, &raw const notice.id) == 0 }
    }

    /// Lets the kernel make the call. Its registers cannot have changed since; memory that they
    /// point to can.
    pub fn let_pass(&self, notice: &Notice) {
        self.send(notice, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    /// Makes the call fail; `error` is its `errno`.
    pub fn fail(&self, notice: &Notice, error: i32) {
        self.send(notice, -error, 0);
    }

    /// Answers the call with a descriptor of this file, which is closed by an exec.
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

    /// The caller may be gone: then no thread waits for the answer.
    fn send(&self, notice: &Notice, error: i32, flags: u32) {
        let answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error, flags };
        // SAFETY: the kernel reads one structure of that type.
        unsafe { libc::ioctl(self.0.as_raw_fd(), SEND, &raw const answer) };
    }
}
