//! The Rust side of what the runtime and the supervisor share. It is generated from the
//! descriptions in `contract/`, with one module for each file. The runtime's C and assembly have
//! the same source.
//!
//! A structure in memory that several processes change consists of atomics. For any other, a module
//! has the offset of each field, and the size of the whole as `LAYOUT_BYTES`.

#![forbid(unsafe_code)]
#![allow(clippy::module_inception, reason = "a file is called after its main structure")]

pub mod files;

include!(concat!(env!("OUT_DIR"), "/contract.rs"));

use std::sync::atomic::Ordering;

/// Whether a supervisor of this build understands a runtime whose contract has this hash, version
/// and revision. `contract/README.md` has the rule.
pub fn serves(hash: &str, version: u32, revision: u32) -> bool {
    let is_this_version = version == VERSION && VERSION != 0;
    hash == HASH.to_string() || is_this_version && (0..=REVISION).contains(&revision)
}

impl header::Header {
    /// The slots that have ever been ready or claimed.
    pub fn used_slots(&self) -> &[header::Slot] {
        let used = self.slots_used.load(Ordering::Acquire) as usize;
        &self.slots[..used.min(self.slot_limit())]
    }

    /// The limit for the number of slots. Slots beyond it must not be touched.
    pub fn slot_limit(&self) -> usize {
        (self.slot_limit.load(Ordering::Relaxed) as usize).min(header::MAX_SLOTS)
    }
}

impl header::Affinity {
    /// Copies the affinity of another thread, of which this one is a copy.
    pub fn take(&self, original: &Self) {
        self.home.store(original.home.load(Ordering::Relaxed), Ordering::Relaxed);
        self.core_count.store(original.core_count.load(Ordering::Relaxed), Ordering::Relaxed);
        for (own, word) in self.cores.iter().zip(&original.cores) {
            own.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// Writes a value at the offset of a field.
///
/// # Panics
/// The value does not fit.
pub fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// Writes words into the bytes of a structure, beginning at the offset of a field.
///
/// # Panics
/// The words do not fit.
pub fn put_words(bytes: &mut [u8], offset: u64, words: &[u64]) {
    for (index, word) in words.iter().enumerate() {
        put(bytes, offset as usize + index * size_of::<u64>(), &word.to_le_bytes());
    }
}
