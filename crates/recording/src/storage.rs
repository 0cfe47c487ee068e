//! The file a recording is written to, as the few operations the writer needs. Tests put a failing
//! one in its place.

use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io::{self, IoSlice};

/// A file written at its end. What lies past the end the writer remembers has no meaning.
pub(crate) trait Storage: Send {
    /// Writes some of `slices` at `offset`; returns how many bytes, never more than they have.
    fn write_at(&mut self, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Cuts the file off.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;

    /// Waits until what was written would survive a loss of power.
    fn sync(&mut self) -> io::Result<()>;

    /// Gives back what was kept for later writes: the file ends at `bytes`.
    fn release(&mut self, _bytes: u64) {}
}

/// A file whose next blocks are reserved before they are written, many at once: to find a block for
/// each page as it is written is a third of what a write costs. Its size is that of what was
/// written, so nobody who reads it sees the difference.
#[derive(Debug)]
pub(crate) struct ReservingFile {
    file: File,
    /// The end of the blocks that it has; `None` once there were none to be had.
    reserved: Option<u64>,
}

/// A file that grows beyond this is likely to grow more; reserving for shorter ones would cost more
/// than it saves.
const RESERVE_FROM: u64 = 1 << 20;
/// As much is reserved at once at most: it is missing elsewhere, and stays behind if we are killed.
const MOST_RESERVED: u64 = 64 << 20;

impl ReservingFile {
    /// An empty file.
    pub(crate) fn new(file: File) -> Self {
        Self { file, reserved: Some(0) }
    }

    fn reserve(&mut self, offset: u64, bytes: u64) {
        let end = offset + bytes;
        if offset < RESERVE_FROM || self.reserved.is_none_or(|reserved| end <= reserved) {
            return;
        }
        let length = bytes + (offset / 2).min(MOST_RESERVED);
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, length) {
            Ok(()) => self.reserved = Some(offset + length),
            Err(_) => {
                // A full disk, or a file system that cannot: what it took nevertheless is given
                // back.
                let _ = self.file.set_len(offset);
                self.reserved = None;
            }
        }
    }
}

impl Storage for ReservingFile {
    fn write_at(&mut self, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.reserve(offset, slices.iter().map(|slice| slice.len() as u64).sum());
        Ok(rustix::io::pwritev(&self.file, slices, offset)?)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        self.reserved = self.reserved.map(|_| bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn release(&mut self, bytes: u64) {
        // To set the size that it has frees what lies behind.
        let _ = self.truncate(bytes);
        self.reserved = None;
    }
}

impl Drop for ReservingFile {
    fn drop(&mut self) {
        if self.reserved.is_some_and(|reserved| reserved != 0)
            && let Ok(metadata) = self.file.metadata()
        {
            self.release(metadata.len());
        }
    }
}

/// Writes all of `slices` at `offset`, whatever pieces the storage takes them in.
pub(crate) fn write_all_at(
    storage: &mut dyn Storage,
    mut offset: u64,
    slices: &mut [IoSlice<'_>],
) -> io::Result<()> {
    let mut rest = slices;
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match storage.write_at(offset, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                offset += count as u64;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn blocks_are_reserved_and_given_back() {
        let path = std::env::temp_dir().join(format!("retake-reserving-{}", std::process::id()));
        let file = File::create_new(&path).unwrap();
        let handle = file.try_clone().unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut storage = ReservingFile::new(file);
        let bytes = vec![1; 1 << 20];
        let mut end = 0;
        for _ in 0..3 {
            write_all_at(&mut storage, end, &mut [IoSlice::new(&bytes)]).unwrap();
            end += bytes.len() as u64;
        }
        let used = || handle.metadata().unwrap().blocks() * 512;
        assert_eq!(handle.metadata().unwrap().len(), end, "its size is what was written");
        if storage.reserved.is_some() {
            assert!(used() > end, "{}", used());
        }
        storage.release(end);
        assert_eq!(handle.metadata().unwrap().len(), end);
        assert!(used() <= end + (64 << 10), "{}: what was reserved is free again", used());
    }
}
