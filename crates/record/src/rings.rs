//! The layout of rings in memory. One segment for each ring would exhaust the machine's segments,
//! and one mapping for each the process's mappings. So many rings share a segment, a *pool*.
//!
//! The first threads have large rings in small pools, since every process attaches whole pools. A
//! thousand threads seldom write all at once, so rings get smaller as their number grows, and their
//! total size stays bounded.

use retake_kernel::segment::{Segment, SegmentCount};
use retake_kernel::shared::{MAX_POOLS, MAX_SLOTS, RING_BYTES, RING_SLACK, SMALL_RING_BYTES};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// How the slots of a recording are spread over pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Rings of the most useful size.
    Ample,
    /// For processes with a small address-space limit: everything is as small as possible.
    Scarce,
}

/// One pool of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The first slot whose ring is in this pool.
    pub first: usize,
    pub rings: usize,
    /// The size of each ring, without the slack after it.
    pub ring_bytes: usize,
    /// The offset of the pool among all pools.
    pub offset: u64,
}

impl Shape {
    /// The distance from one ring to the next.
    fn stride(&self) -> usize {
        self.ring_bytes + RING_SLACK
    }

    pub fn bytes(&self) -> usize {
        self.rings * self.stride()
    }

    /// The slots whose rings are in this pool.
    pub fn slots(&self) -> Range<usize> {
        self.first..self.first + self.rings
    }

    /// The offset of a slot's ring in the pool.
    pub fn place(&self, slot: usize) -> usize {
        (slot - self.first) * self.stride()
    }
}

/// Slots below this number have large rings; slots below [`MIDDLE_SLOTS`] have rings of medium
/// size.
const LARGE_SLOTS: usize = 256;
const MIDDLE_SLOTS: usize = 2048;
/// The most rings in a pool.
const MOST_RINGS: usize = 512;
/// How many segments are left to others: this number, or this fraction of all if that is less.
const LEFT_SEGMENTS: u64 = 128;
const LEFT_PART: u64 = 8;
/// Pools begin where the kernel may use large pages for page tables.
const ALIGNMENT: u64 = 1 << 21;

impl Plan {
    fn ring_bytes(self, slot: usize) -> usize {
        match self {
            Self::Ample if slot < LARGE_SLOTS => RING_BYTES,
            Self::Ample if slot < MIDDLE_SLOTS => RING_BYTES / 4,
            _ => SMALL_RING_BYTES,
        }
    }

    fn first_rings(self) -> usize {
        match self {
            Self::Ample => 8,
            Self::Scarce => 4,
        }
    }

    /// Returns the pools in order. Each pool doubles the number of rings, up to a limit. Together
    /// they have a ring for every slot.
    pub fn shapes(self) -> impl Iterator<Item = Shape> {
        let shape = move |first: usize, offset: u64| {
            let rings = first.clamp(self.first_rings(), MOST_RINGS).min(MAX_SLOTS - first);
            Shape { first, rings, ring_bytes: self.ring_bytes(first), offset }
        };
        std::iter::successors(Some(shape(0, 0)), move |before| {
            let first = before.first + before.rings;
            let offset = (before.offset + before.bytes() as u64).next_multiple_of(ALIGNMENT);
            (first < MAX_SLOTS).then(|| shape(first, offset))
        })
        .take(MAX_POOLS)
    }
}

/// One ring in its pool.
#[derive(Debug)]
pub(crate) struct Ring {
    pool: Arc<Segment>,
    start: usize,
    bytes: usize,
}

impl Ring {
    /// Returns the ring of a slot.
    pub fn of(pool: &Arc<Segment>, shape: &Shape, slot: usize) -> Self {
        Self { pool: Arc::clone(pool), start: shape.place(slot), bytes: shape.ring_bytes }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the `count` bytes written from position `from` on, in two pieces if they wrap around
    /// the end of the ring.
    ///
    /// The bytes must not change while the slices live. The ring protocol keeps the bytes between
    /// tail and head unchanged.
    pub fn pieces(&self, from: u64, count: usize) -> [&[u8]; 2] {
        let at = from as usize % self.bytes;
        let first = count.min(self.bytes - at);
        [self.pool.slice(self.start + at, first), self.pool.slice(self.start, count - first)]
    }

    /// Writes bytes at a position, for a producer that stands still.
    pub fn write(&self, from: u64, bytes: &[u8]) {
        let at = from as usize % self.bytes;
        let (first, second) = bytes.split_at(bytes.len().min(self.bytes - at));
        self.pool.write(self.start + at, first);
        self.pool.write(self.start, second);
    }
}

/// Creates the memory of a pool. The last segments of the machine are left to other recordings,
/// which may need one for their first pool.
///
/// # Errors
/// As [`Segment::create`], or an error if only the segments left to others are free.
pub(crate) fn create(shape: &Shape) -> io::Result<Arc<Segment>> {
    if shape.first > 0
        && let Some(count) = SegmentCount::now()
        && count.free() <= LEFT_SEGMENTS.min(count.most / LEFT_PART)
    {
        return Err(io::Error::other(format!(
            "{} of {} segments of shared memory are in use (kernel.shmmni), and the last ones are \
            reserved for other recordings",
            count.used, count.most
        )));
    }
    Segment::create(shape.bytes()).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_kernel::shared::{POOLS, WINDOWS};

    #[test]
    fn every_slot_has_a_ring_of_its_own_in_one_of_few_pools() {
        for (plan, most_pools) in [(Plan::Ample, 80), (Plan::Scarce, 80)] {
            let shapes: Vec<Shape> = plan.shapes().collect();
            let (mut slot, mut end) = (0, 0);
            for shape in &shapes {
                assert!(shape.first == slot && shape.offset >= end, "{plan:?}: {shape:?}");
                assert!(shape.rings > 0 && shape.ring_bytes.is_power_of_two());
                slot += shape.rings;
                end = shape.offset + shape.bytes() as u64;
            }
            assert_eq!(slot, MAX_SLOTS, "{plan:?}");
            assert!(shapes.len() <= most_pools, "{plan:?}: {} pools", shapes.len());
            assert!(end <= WINDOWS - POOLS, "{plan:?}: {end} bytes");
        }
    }

    #[test]
    fn what_is_written_across_the_end_of_a_ring_is_read_there() {
        let shape = Plan::Scarce.shapes().next().unwrap();
        let pool = create(&shape).unwrap();
        let ring = Ring::of(&pool, &shape, 1);
        let from = 5 * ring.bytes() as u64 - 3;
        ring.write(from, b"abcdefg");
        assert_eq!(ring.pieces(from, 7), [b"abc".as_slice(), b"defg"]);
        let other = Ring::of(&pool, &shape, 0);
        assert_eq!(other.pieces(0, other.bytes())[0], vec![0; other.bytes()]);
    }
}
