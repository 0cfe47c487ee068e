//! The header's lists of files. The runtime finds a file by its inode, in buckets.

use crate::header::{FILE_BUCKETS, Header, SHARED_FILE_BUCKETS, SharedFile};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::UNIX_EPOCH;

/// The device of a file. Inodes are reused, so the high half has bits of the file's creation time,
/// if the file system keeps that. The runtime's `identify_file` computes the same number.
pub fn lasting_device(metadata: &Metadata) -> u64 {
    let made = metadata
        .created()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .filter(|since| since.as_secs() > 0);
    let mixed =
        made.map_or(0, |since| (since.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    metadata.dev() | mixed & 0xffff_ffff_0000_0000
}

impl Header {
    /// Enters a file whose entry in the table is complete. Only one thread may do this at a time.
    pub fn enter_file(&self, index: usize) {
        let entry = &self.files[index];
        let bucket = &self.file_buckets[entry.inode.load(Relaxed) as usize % FILE_BUCKETS];
        entry.next.store(bucket.load(Relaxed), Relaxed);
        bucket.store(index as u32 + 1, Release);
        self.file_count.store(index as u32 + 1, Release);
    }

    /// The files whose mappings may see writes. `None` if there are more than the table can hold;
    /// then every file counts as such.
    pub fn shared_files(&self) -> Option<&[SharedFile]> {
        self.shared_files.get(..self.shared_file_places.load(Acquire) as usize)
    }

    /// Makes later writes to this file be repeated on the session's copy. No other thread may enter
    /// files meanwhile.
    pub fn note_shared_file(&self, device: u64, inode: u64) {
        let bucket = &self.shared_file_buckets[inode as usize % SHARED_FILE_BUCKETS];
        let behind =
            |next: u32| next.checked_sub(1).map(|place| &self.shared_files[place as usize]);
        let mut bucket_files = std::iter::successors(behind(bucket.load(Acquire)), |file| {
            behind(file.next.load(Relaxed))
        });
        if bucket_files
            .any(|file| file.device.load(Relaxed) == device && file.inode.load(Relaxed) == inode)
        {
            return;
        }
        let place = self.shared_file_places.fetch_add(1, AcqRel);
        let Some(file) = self.shared_files.get(place as usize) else { return };
        file.device.store(device, Relaxed);
        file.inode.store(inode, Relaxed);
        file.next.store(bucket.load(Relaxed), Relaxed);
        bucket.store(place + 1, Release);
        self.shared_file_count.fetch_add(1, Release);
    }
}
