//! Read leases. While a lease lasts, no process has the file open for writing or has a mapping
//! through which the file could change. A process that wants to open it for writing or truncate it
//! waits until the lease is given up, and the kernel sends the holder a signal.

use crate::alive::Alive;
use crate::check;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The magic numbers of file systems on which every change goes through an open in this kernel. On
/// a network file system, other machines may change a file unnoticed. On overlayfs, a mapping
/// outlives what the kernel counts.
const LOCAL: [i64; 6] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    TMPFS,
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
];
const TMPFS: i64 = 0x0102_1994;
/// The file with the time that the kernel gives a holder, in seconds; 0 means no limit.
const BREAK_TIME: &str = "/proc/sys/fs/lease-break-time";

/// Returns how long a lease lasts at least after a process asked to write, if it is not given up.
///
/// # Errors
/// The kernel does not tell.
pub fn break_time() -> io::Result<Duration> {
    let seconds = std::fs::read_to_string(BREAK_TIME)?;
    let seconds: u32 = seconds.trim().parse().map_err(io::Error::other)?;
    Ok(if seconds == 0 { Duration::MAX } else { Duration::from_secs(seconds.into()) })
}

/// A lease. Dropping it gives it up.
#[derive(Debug)]
pub struct Lease {
    file: File,
    times_tell: bool,
}

impl Lease {
    /// Takes a lease on the file that `file` has open, for a thread that waits with
    /// [`Holder::wait`].
    ///
    /// # Errors
    /// `WouldBlock` if a process has the file open for writing. Other errors if the file belongs to
    /// another user, or if leases mean nothing on its file system.
    pub fn take(file: &File, holder: i32) -> io::Result<Self> {
        // A lease belongs to an open file description, which must be read-only.
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let descriptor = file.as_raw_fd();
        // SAFETY: the kernel writes one structure of that type, for which zeros are valid.
        let kind = unsafe {
            let mut about: libc::statfs = std::mem::zeroed();
            check(i64::from(libc::fstatfs(descriptor, &mut about)))?;
            about.f_type
        };
        if !LOCAL.contains(&kind) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let owner = OwnerEx { kind: F_OWNER_TID, number: holder };
        // SAFETY: the kernel reads one structure of that type.
        unsafe {
            check(i64::from(libc::fcntl(descriptor, F_SETOWN_EX, ptr::from_ref(&owner))))?;
            check(i64::from(libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK)))?;
        }
        Ok(Self { file, times_tell: kind != TMPFS })
    }

    /// Whether the file's times will show, later and without a lease, that it has changed. On
    /// tmpfs, a store through a mapping does not change them.
    pub fn times_tell(&self) -> bool {
        self.times_tell
    }

    /// Returns the file, opened for reading.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether no process waits for the lease to be given up.
    pub fn is_undisturbed(&self) -> bool {
        // SAFETY: plain system call.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLEASE) == libc::F_RDLCK }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: plain system call. Closing gives the lease up, too, but a forked child may have a
        // copy of the descriptor for a moment.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}

const F_SETOWN_EX: i32 = 15;
const F_OWNER_TID: i32 = 0;

#[repr(C)]
struct OwnerEx {
    kind: i32,
    number: i32,
}

/// The holder of leases: the calling thread, which learns when a process asks to write.
#[derive(Debug)]
pub struct Holder<'word> {
    alive: Alive<'word>,
}

impl<'word> Holder<'word> {
    /// Makes the calling thread the holder. `word` has its thread ID as long as the holder lives.
    /// If the thread dies in any way, the kernel changes the word before any process gets past a
    /// lease: see [`Alive::begin`].
    pub fn begin(word: &'word AtomicU32) -> Self {
        let alive = Alive::begin(word);
        // SAFETY: the kernel reads a set that `signals` has filled.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals(), ptr::null_mut()) };
        Self { alive }
    }

    /// Returns the thread ID.
    pub fn number(&self) -> i32 {
        self.alive.number()
    }

    /// Waits until a process may have asked to write, [`wake`] was called, or the time is up.
    pub fn wait(&self, most: Duration) {
        let most = libc::timespec {
            tv_sec: most.as_secs().min(1 << 30) as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        // SAFETY: both structures are valid, and a null pointer asks for no siginfo.
        unsafe { libc::sigtimedwait(&signals(), ptr::null_mut(), &most) };
    }
}

/// Makes [`Holder::wait`] return in that thread of this process.
pub fn wake(holder: i32) {
    // SAFETY: plain system calls on ourselves. In that thread the signal is blocked.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), holder, libc::SIGIO) };
}

/// Returns the signals that notify the holder.
fn signals() -> libc::sigset_t {
    // SAFETY: zeros are a valid set.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGIO);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::THREAD_DIED;
    use std::fs::OpenOptions;
    use std::path::PathBuf;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("retake-lease-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_writer_waits_for_the_holder() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        let file = path("writer");
        std::fs::write(&file, "before").unwrap();
        let (told, hear) = mpsc::channel();
        let (begin, begun) = mpsc::channel::<Lease>();
        let seen = file.clone();
        let thread = std::thread::spawn(move || {
            let holder = Holder::begin(&WORD);
            told.send(holder.number()).unwrap();
            let lease = begun.recv().unwrap();
            while lease.is_undisturbed() {
                holder.wait(Duration::from_secs(60));
            }
            std::fs::read_to_string(seen).unwrap()
        });
        let number = hear.recv().unwrap();
        assert_eq!(WORD.load(Ordering::Acquire), number as u32);
        let writer = OpenOptions::new().append(true).open(&file).unwrap();
        let reader = File::open(&file).unwrap();
        assert!(Lease::take(&reader, number).is_err(), "it is open for writing");
        drop(writer);
        begin.send(Lease::take(&reader, number).unwrap()).unwrap();
        std::fs::write(&file, "after").unwrap();
        assert_eq!(thread.join().unwrap(), "before");
        assert_eq!(WORD.load(Ordering::Acquire), THREAD_DIED);
        std::fs::remove_file(file).unwrap();
    }
}
