//! The file to which a recording is written, reduced to the operations that the writer needs. Tests
//! replace it with one that fails.

use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io::{self, IoSlice};

/// A file that is written at its end. Bytes after the end that the writer remembers have no
/// meaning.
pub(crate) trait Storage: Send {
    /// Writes some of the bytes of `slices` at `offset`. Returns how many, at most all of them.
    fn write_at(&mut self, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Truncates the file.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;

    /// Waits until everything written would survive a power loss.
    fn sync(&mut self) -> io::Result<()>;

    /// Releases blocks reserved for later writes. The file ends at `bytes`.
    fn release(&mut self, _bytes: u64) {}
}

/// A file that reserves many blocks ahead of its writes. Finding a block for each page as it is
/// written takes a third of the time of a write. The file's size covers only what was written, so
/// readers see no difference.
#[derive(Debug)]
pub(crate) struct ReservingFile {
    file: File,
    /// The end of the reserved blocks; `None` after a reservation failed.
    reserved: Option<u64>,
}

/// Reserving starts at this size: a file that grows beyond it is likely to grow more. For shorter
/// files, reserving would cost more than it saves.
const RESERVE_FROM: u64 = 1 << 20;
/// The most bytes reserved at once. They are missing elsewhere, and stay reserved if the recorder
/// is killed.
const MOST_RESERVED: u64 = 64 << 20;

impl ReservingFile {
    /// Wraps an empty file.
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
                // The disk is full, or the file system cannot reserve blocks. Release any that it
                // took nevertheless.
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
        // Setting the current size frees the blocks after it.
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

/// Writes all of `slices` at `offset`, in as many writes as the storage needs.
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
