//! What the runtime and the supervisor share, made of the descriptions in `contract/`: one module
//! for each of its files. The runtime's C and assembly are made of the same.
//!
//! Structures in memory that both change at any time consist of atomics. Of the others there is a
//! module with the offset of each field, and `LAYOUT_BYTES`, the size of the whole.

#![forbid(unsafe_code)]
#![allow(clippy::module_inception, reason = "a file is called after its main structure")]

pub mod files;

include!(concat!(env!("OUT_DIR"), "/contract.rs"));

use std::sync::atomic::Ordering;

impl header::Header {
    /// The slots that have ever been ready or claimed.
    pub fn used_slots(&self) -> &[header::Slot] {
        let used = self.slots_used.load(Ordering::Acquire) as usize;
        &self.slots[..used.min(self.slot_limit())]
    }

    /// How many slots there can be; those behind them are not to be touched.
    pub fn slot_limit(&self) -> usize {
        (self.slot_limit.load(Ordering::Relaxed) as usize).min(header::MAX_SLOTS)
    }
}

impl header::Affinity {
    /// Takes over what another thread's is: a copy of that thread begins to run there.
    pub fn take(&self, original: &Self) {
        self.home.store(original.home.load(Ordering::Relaxed), Ordering::Relaxed);
        self.core_count.store(original.core_count.load(Ordering::Relaxed), Ordering::Relaxed);
        for (own, word) in self.cores.iter().zip(&original.cores) {
            own.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// Writes the bytes of a value to the offset of a field.
///
/// # Panics
/// They do not fit.
pub fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// Writes words into the bytes of a structure, from the offset of a field on.
///
/// # Panics
/// They do not fit.
pub fn put_words(bytes: &mut [u8], offset: u64, words: &[u64]) {
    for (index, word) in words.iter().enumerate() {
        put(bytes, offset as usize + index * size_of::<u64>(), &word.to_le_bytes());
    }
}
