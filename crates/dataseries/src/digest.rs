//! The two digests of an extent, and the chain over all extents.
//!
//! The implementation of the Jenkins hash is our own: the chain needs only its mixing step, which
//! libraries do not offer.

use crate::order::ByteOrder;

/// Seed of the hash over an extent's partly unpacked data, and of the chain.
pub(crate) const EXTENT_SEED: u32 = 1972;
/// Seed of the hash over the tail.
pub(crate) const TAIL_SEED: u32 = 1776;
/// Length words of the string pool are hashed in batches of this many.
pub(crate) const LENGTH_BATCH: usize = 1024;

/// The mixing step of the 1996 Jenkins hash, on three words.
#[inline]
fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for (first, second, third) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    (a, b, c)
}

/// The 1996 Jenkins hash of `data`, continuing from `seed`. Words are read in little-endian order,
/// whatever the order of the file.
pub(crate) fn jenkins(seed: u32, data: &[u8]) -> u32 {
    const GOLDEN: u32 = 0x9e37_79b9;
    let (mut a, mut b, mut c) = (GOLDEN, GOLDEN, seed);
    let (blocks, rest) = data.as_chunks::<12>();
    for block in blocks {
        a = a.wrapping_add(ByteOrder::Little.u32(block, 0));
        b = b.wrapping_add(ByteOrder::Little.u32(block, 4));
        c = c.wrapping_add(ByteOrder::Little.u32(block, 8));
        (a, b, c) = mix(a, b, c);
    }
    let mut last = [0_u8; 12];
    let (head, tail) = rest.split_at(rest.len().min(8));
    last[..head.len()].copy_from_slice(head);
    // The low byte of the last word belongs to the length.
    last[9..9 + tail.len()].copy_from_slice(tail);
    a = a.wrapping_add(ByteOrder::Little.u32(&last, 0));
    b = b.wrapping_add(ByteOrder::Little.u32(&last, 4));
    c = c.wrapping_add(data.len() as u32).wrapping_add(ByteOrder::Little.u32(&last, 8));
    mix(a, b, c).2
}

/// Returns the chained checksum after one more extent with these two digests.
pub(crate) fn chain(previous: u32, data_digest: u32, packed_digest: u32) -> u32 {
    mix(data_digest ^ packed_digest, previous, EXTENT_SEED).2
}

/// The Adler-32 checksum of a packed extent, without the four bytes at offset 16 that store it.
///
/// # Panics
/// If `packed` is shorter than 20 bytes, which no extent is.
pub(crate) fn packed_digest(packed: &[u8]) -> u32 {
    let mut adler = simd_adler32::Adler32::new();
    adler.write(&packed[..16]);
    adler.write(&packed[20..]);
    adler.finish()
}

/// The hash of the partly unpacked data: fixed records, pool, then the pool's length words in
/// batches.
pub(crate) struct DataDigest {
    hash: u32,
    batch: Vec<u8>,
}

impl DataDigest {
    /// Begins with the fixed records, whose nulls are expanded.
    pub(crate) fn new(fixed: &[u8]) -> Self {
        Self { hash: jenkins(EXTENT_SEED, fixed), batch: Vec::with_capacity(LENGTH_BATCH * 4) }
    }

    /// Adds the whole pool, including the four zero bytes at its start.
    pub(crate) fn pool(&mut self, pool: &[u8]) {
        self.hash = jenkins(self.hash, pool);
    }

    /// Adds the length word of the next pool entry, as it is stored.
    #[inline]
    pub(crate) fn length_word(&mut self, word: &[u8]) {
        self.batch.extend_from_slice(word);
        if self.batch.len() == LENGTH_BATCH * 4 {
            self.hash = jenkins(self.hash, &self.batch);
            self.batch.clear();
        }
    }

    /// Returns the digest. The last batch is added even if it is empty.
    pub(crate) fn finish(self) -> u32 {
        jenkins(self.hash, &self.batch)
    }
}
