//! Read leases: while one lasts nobody has the file open for writing, nor a mapping through which
//! it could be changed. Who wants to open it so, or to truncate it, waits until the lease is given
//! up, and the kernel tells its holder with a signal.

use crate::check;
use crate::shared::HOLDER_DIED;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// Magic numbers of the file systems on which all changes come through this kernel's own opens: of
/// a network's, others may change a file without our knowing. On overlayfs a mapping outlives what
/// the kernel counts.
const LOCAL: [i64; 6] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    TMPFS,
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
];
const TMPFS: i64 = 0x0102_1994;
/// How long the kernel waits for a holder, in seconds; 0: for ever.
const BREAK_TIME: &str = "/proc/sys/fs/lease-break-time";

/// How long a lease lasts at least after somebody wants to write, if nobody gives it up.
///
/// # Errors
/// The kernel does not say.
pub fn break_time() -> io::Result<Duration> {
    let seconds = std::fs::read_to_string(BREAK_TIME)?;
    let seconds: u32 = seconds.trim().parse().map_err(io::Error::other)?;
    Ok(if seconds == 0 { Duration::MAX } else { Duration::from_secs(seconds.into()) })
}

/// One lease. It is given up when this is dropped.
#[derive(Debug)]
pub struct Lease {
    file: File,
    times_tell: bool,
}

impl Lease {
    /// Takes one on the file of `file`, for a thread that waits with [`Holder::wait`].
    ///
    /// # Errors
    /// `WouldBlock` if somebody has it open for writing; it is another user's; its file system has
    /// none that mean anything.
    pub fn take(file: &File, holder: i32) -> io::Result<Self> {
        // A lease belongs to what was opened, and that must be for reading only.
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

    /// Whether the file's times tell, later and without a lease, that it has changed since. On
    /// tmpfs a store through a mapping leaves them as they are.
    pub fn times_tell(&self) -> bool {
        self.times_tell
    }

    /// The file, opened for reading.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether nobody waits for it to be given up.
    pub fn is_undisturbed(&self) -> bool {
        // SAFETY: plain system call.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLEASE) == libc::F_RDLCK }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: plain system call. Closing gives it up, too; but somebody may have a copy of the
        // descriptor for a moment.
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

/// As the kernel has it.
#[derive(Debug)]
#[repr(C)]
struct RobustList {
    next: *const RobustList,
    offset: i64,
    pending: AtomicPtr<AtomicU32>,
}

// SAFETY: nobody follows its first pointer but the kernel.
unsafe impl Sync for RobustList {}

/// The calling thread, which is told when somebody wants to write.
#[derive(Debug)]
pub struct Holder<'word> {
    number: i32,
    word: &'word AtomicU32,
    list: &'static RobustList,
}

impl<'word> Holder<'word> {
    /// Makes it that. Its number is in `word` as long as this lives. When it dies, however that
    /// happens, the kernel changes that before anybody gets past a lease: it clears the number and
    /// sets `HOLDER_DIED`.
    pub fn begin(word: &'word AtomicU32) -> Self {
        let number = crate::signals::own_tid();
        let list = Box::leak(Box::new(RobustList {
            next: ptr::null(),
            offset: 0,
            pending: AtomicPtr::new(ptr::from_ref(word).cast_mut()),
        }));
        list.next = ptr::from_ref(list); // it has nothing in it but what is pending
        // SAFETY: the list is never freed, and refers to the word only while that is borrowed.
        // Nothing here uses robust mutexes, for which the C library had another one.
        unsafe {
            let bytes = size_of::<RobustList>();
            libc::syscall(libc::SYS_set_robust_list, ptr::from_ref(list), bytes);
            libc::pthread_sigmask(libc::SIG_BLOCK, &signals(), ptr::null_mut());
        }
        word.store(number as u32, Ordering::Release);
        Self { number, word, list }
    }

    /// The thread's number.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Waits until somebody may want to write, or [`wake`] was called, or so long.
    pub fn wait(&self, most: Duration) {
        let most = libc::timespec {
            tv_sec: most.as_secs().min(1 << 30) as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        // SAFETY: both structures are valid; nobody wants to know about the signal.
        unsafe { libc::sigtimedwait(&signals(), ptr::null_mut(), &most) };
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        self.word.store(HOLDER_DIED, Ordering::SeqCst);
        self.list.pending.store(ptr::null_mut(), Ordering::SeqCst);
    }
}

/// Lets [`Holder::wait`] return in that thread of this process.
pub fn wake(holder: i32) {
    // SAFETY: plain system calls on ourselves. In that thread the signal is blocked.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), holder, libc::SIGIO) };
}

/// What tells the holder.
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
    use std::fs::OpenOptions;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicI32;
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
        assert_eq!(WORD.load(Ordering::Acquire), HOLDER_DIED);
        std::fs::remove_file(file).unwrap();
    }

    /// The word is on a page that both processes have; the child is killed.
    #[test]
    fn the_kernel_tells_of_a_holder_that_was_killed() {
        // SAFETY: new memory, used as atomics, whose every bit pattern is valid; the child only
        // makes calls that are allowed after a fork, but for memory that nobody else holds.
        unsafe {
            let page = libc::mmap(
                ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            let word = &*page.cast::<AtomicU32>();
            let number = &*page.cast::<AtomicI32>().add(1);
            let child = libc::fork();
            if child == 0 {
                let holder = Holder::begin(word);
                number.store(holder.number(), Ordering::SeqCst);
                loop {
                    libc::pause();
                }
            }
            while number.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(word.load(Ordering::SeqCst), child as u32);
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
            assert_eq!(word.load(Ordering::SeqCst), HOLDER_DIED);
            libc::munmap(page, 4096);
        }
    }
}
