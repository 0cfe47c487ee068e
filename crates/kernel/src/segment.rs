//! System V shared memory: attached by ID, without paths or descriptors, and removed with its last
//! user process.

use crate::check;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

const PAGE: usize = 4096;

/// The limit of segments in this IPC namespace, and how many exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentCount {
    /// The limit, `kernel.shmmni`.
    pub most: u64,
    /// The number of segments of all users.
    pub used: u64,
}

impl SegmentCount {
    /// Returns the present counts; `None` if the kernel does not tell.
    pub fn now() -> Option<Self> {
        /// `struct shminfo`.
        #[repr(C)]
        struct Limits {
            largest: u64,
            smallest: u64,
            most: u64,
            others: [u64; 6],
        }
        /// `struct shm_info`.
        #[repr(C)]
        struct Usage {
            used: i32,
            others: [u64; 5],
        }
        const IPC_INFO: i32 = 3;
        const SHM_INFO: i32 = 14;
        let mut limits = Limits { largest: 0, smallest: 0, most: 0, others: [0; 6] };
        let mut usage = Usage { used: 0, others: [0; 5] };
        // SAFETY: this command fills a `struct shminfo`, of which `Limits` has the layout.
        check(unsafe { libc::shmctl(0, IPC_INFO, (&raw mut limits).cast()) }.into()).ok()?;
        // SAFETY: this command fills a `struct shm_info`, of which `Usage` has the layout.
        check(unsafe { libc::shmctl(0, SHM_INFO, (&raw mut usage).cast()) }.into()).ok()?;
        Some(Self { most: limits.most, used: usage.used.max(0) as u64 })
    }

    /// Returns how many more segments can be created.
    pub fn free(&self) -> u64 {
        self.most.saturating_sub(self.used)
    }
}

/// A segment of this process, attached and already marked for removal.
#[derive(Debug)]
pub struct Segment {
    id: i32,
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: within this process the memory belongs to this value alone. Other processes access it
// through atomics (`shared`) or in the order of the ring protocol.
unsafe impl Send for Segment {}
// SAFETY: as above; the methods that hand out references say what the caller must keep.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates a segment of zeros that only this user may read and write.
    ///
    /// # Errors
    /// Those of shmget, shmat or shmctl: no memory, the limits of `/proc/sys/kernel/shm*`, or no
    /// System V memory at all.
    pub fn create(bytes: usize) -> io::Result<Self> {
        Self::create_for(0o700, bytes)
    }

    /// Creates a segment of one empty page for other processes to attach. The kernel then tells
    /// which process attached it, whatever its ID is in its own namespace.
    ///
    /// # Errors
    /// As [`Segment::create`].
    pub fn token() -> io::Result<Self> {
        Self::create_for(0o777, 1)
    }

    fn create_for(mode: i32, bytes: usize) -> io::Result<Self> {
        // SAFETY: plain system call, no memory of ours involved.
        let id = check(i64::from(unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, mode) }))? as i32;
        // SAFETY: the kernel chooses the address, so nothing of ours is replaced.
        let address = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        let failed = address as isize == -1;
        let error = io::Error::last_os_error();
        // SAFETY: plain system call; the segment stays until the last detach.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        match NonNull::new(address.cast()) {
            Some(address) if !failed => Ok(Self { id, address, bytes }),
            _ => Err(error),
        }
    }

    /// Attaches a segment of this size that another process of this user created.
    ///
    /// # Errors
    /// The segment no longer exists, or is smaller.
    pub fn attach(id: i32, bytes: usize) -> io::Result<Self> {
        // SAFETY: an all-zero structure of integers is valid.
        let mut about: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills one structure of that type.
        check(i64::from(unsafe { libc::shmctl(id, libc::IPC_STAT, &mut about) }))?;
        if about.shm_segsz < bytes {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the kernel chooses the address, so nothing of ours is replaced.
        let address = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        match NonNull::new(address.cast()) {
            Some(address) if address.as_ptr() as isize != -1 => Ok(Self { id, address, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Creates a segment with these bytes, followed by zeros.
    ///
    /// # Errors
    /// As [`Segment::create`].
    pub fn with_bytes(content: &[u8], bytes: usize) -> io::Result<Self> {
        let segment = Self::create(bytes.max(content.len()))?;
        // SAFETY: the segment is at least as long as `content`, and no other process knows it.
        unsafe {
            std::ptr::copy_nonoverlapping(content.as_ptr(), segment.address.as_ptr(), content.len())
        };
        Ok(segment)
    }

    /// Makes the kernel create all pages at once, for a segment that is about to be filled: one
    /// fault for each page costs more than filling it. If the kernel cannot, pages are created when
    /// they are touched.
    pub fn populate(&self) {
        // SAFETY: a range of our own memory, whose content this does not change.
        unsafe {
            libc::madvise(self.address.as_ptr().cast(), self.bytes, libc::MADV_POPULATE_WRITE)
        };
    }

    /// Returns the ID by which others attach the segment.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the start of the attached memory.
    pub(crate) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Returns the bytes `[start, start + count)` for reading.
    ///
    /// The bytes must not change while the slice lives. The ring protocol keeps the bytes between
    /// tail and head unchanged.
    ///
    /// # Panics
    /// If the range is not within the segment.
    pub fn slice(&self, start: usize, count: usize) -> &[u8] {
        assert!(
            start.checked_add(count).is_some_and(|end| end <= self.bytes),
            "within the segment"
        );
        // SAFETY: in bounds by the assertion. By the ring protocol, callers keep the promise above
        // that the bytes do not change.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr().add(start), count) }
    }

    /// Unmaps the whole pages within a range. This process must not use them any more; other
    /// processes still have them.
    pub(crate) fn forget(&self, range: Range<usize>) {
        let (start, end) =
            (range.start.next_multiple_of(PAGE), range.end.min(self.bytes) / PAGE * PAGE);
        if start < end {
            // SAFETY: pages of our own mapping, which the caller promises not to use.
            unsafe { libc::munmap(self.address.as_ptr().add(start).cast(), end - start) };
        }
    }

    /// Writes bytes from `start` on.
    ///
    /// No other thread or process may read or write them meanwhile. The ring protocol gives the
    /// memory beyond the head to the producer alone, which stands still while the supervisor writes
    /// for it.
    ///
    /// # Panics
    /// If the range is not within the segment.
    pub fn write(&self, start: usize, bytes: &[u8]) {
        let end = start.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.bytes), "within the segment");
        // SAFETY: in bounds by the assertion; `bytes` lies outside the segment. The ring protocol
        // ensures that this process has no reference to that range.
        unsafe {
            let to = self.address.as_ptr().add(start);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        };
    }

    /// Returns all bytes for writing. No other process may know the segment yet.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the segment has that length, and `self` is borrowed exclusively. No other process
        // has it attached yet.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.bytes) }
    }

    /// Returns the last process that attached or detached the segment, by its ID in our PID
    /// namespace.
    pub fn last_user(&self) -> Option<i32> {
        // SAFETY: `status` is a plain structure that IPC_STAT fills.
        let pid = unsafe {
            let mut status: libc::shmid_ds = std::mem::zeroed();
            if libc::shmctl(self.id, libc::IPC_STAT, &mut status) == 0 {
                status.shm_lpid
            } else {
                0
            }
        };
        (pid > 0).then_some(pid)
    }

    /// Gives the segment to a user, so that a process that changed its user can attach it.
    pub fn give_to(&self, user: u32) {
        // SAFETY: `status` is a plain structure that IPC_STAT fills before IPC_SET reads it.
        unsafe {
            let mut status: libc::shmid_ds = std::mem::zeroed();
            if libc::shmctl(self.id, libc::IPC_STAT, &mut status) == 0
                && status.shm_perm.uid != user
            {
                status.shm_perm.uid = user;
                libc::shmctl(self.id, libc::IPC_SET, &mut status);
            }
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: attached by `create`, and no reference outlives this value.
        unsafe { libc::shmdt(self.address.as_ptr().cast()) };
    }
}

/// Whether this process created the segment with this ID.
pub fn is_own(id: i32) -> bool {
    // SAFETY: an all-zero structure of integers is valid.
    let mut about: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills one structure of that type.
    let found = unsafe { libc::shmctl(id, libc::IPC_STAT, &mut about) } == 0;
    found && about.shm_cpid as u32 == std::process::id()
}
