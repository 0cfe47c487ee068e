//! The rings in memory shared with the kernel. `bpf/record.h` defines their layout.

use crate::record::{HEADER_BYTES, Record};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest record in bytes.
const RECORD_LIMIT: usize = 1 << 20;
/// Offset in a ring of the reader's position. The writer's position is at 0.
const TAIL_OFFSET: usize = 64;
/// Offset of the ring's bytes.
const BYTES_OFFSET: usize = 4096;
/// Bytes after these, so that no record wraps.
const BYTES_BEHIND: usize = 2 * RECORD_LIMIT + 4096;

/// All rings, one for each processor, mapped into memory.
#[derive(Debug)]
pub struct Rings {
    memory: NonNull<u8>,
    count: usize,
    ring_bytes: usize,
}

// SAFETY: the memory is not bound to a thread, and only `&mut self` reads it or moves the tails.
unsafe impl Send for Rings {}

fn stride(ring_bytes: usize) -> usize {
    BYTES_OFFSET + ring_bytes + BYTES_BEHIND
}

impl Rings {
    /// Maps the `count` rings of a map. Each has `ring_bytes`, a power of two.
    pub(crate) fn map(map: BorrowedFd<'_>, count: usize, ring_bytes: usize) -> io::Result<Self> {
        let (bytes, protection) = (stride(ring_bytes) * count, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new shared mapping at a place that the kernel picks.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory =
            NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { memory, count, ring_bytes })
    }

    fn position(&self, ring: usize, offset: usize) -> &AtomicU64 {
        assert!(ring < self.count);
        // SAFETY: inside the mapping: the first page of a ring is there for its two positions,
        // which are aligned and only used as atomics.
        unsafe { self.memory.add(ring * stride(self.ring_bytes) + offset).cast().as_ref() }
    }

    /// Returns bytes of a ring from a position on, which must be mapped.
    fn bytes(&self, ring: usize, position: u64, count: usize) -> &[u8] {
        let offset = (position as usize) & (self.ring_bytes - 1);
        assert!(ring < self.count && count <= RECORD_LIMIT + 4096);
        // SAFETY: inside the mapping, as a ring is followed by room for two longest records. The
        // kernel writes only where head has not been and tail has passed, and `&mut self` of the
        // caller keeps tail where it is while this is borrowed.
        unsafe {
            std::slice::from_raw_parts(
                self.memory.as_ptr().add(ring * stride(self.ring_bytes) + BYTES_OFFSET + offset),
                count,
            )
        }
    }

    /// Passes all present records to `visit`, those of each processor in their order.
    ///
    /// # Errors Those of `visit`. The records up to the error have been taken.
    pub fn drain<E>(
        &mut self,
        mut visit: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for ring in 0..self.count {
            let head = self.position(ring, 0).load(Ordering::Acquire);
            let mut tail = self.position(ring, TAIL_OFFSET).load(Ordering::Relaxed);
            while tail < head {
                let first = self.bytes(ring, tail, HEADER_BYTES);
                let size = (Record::size(first) as usize).clamp(HEADER_BYTES, RECORD_LIMIT + 4096);
                let result = visit(Record::parse(self.bytes(ring, tail, size)));
                tail += size as u64;
                self.position(ring, TAIL_OFFSET).store(tail, Ordering::Release);
                result?;
            }
        }
        Ok(())
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` has made; nothing borrows it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), stride(self.ring_bytes) * self.count) };
    }
}
