//! The file a recording is written to, as the few operations the writer needs. Tests put a failing one in its place.

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
}

impl Storage for File {
    fn write_at(&mut self, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&*self, slices, offset)?)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes all of `slices` at `offset`, whatever pieces the storage takes them in.
pub(crate) fn write_all_at(storage: &mut dyn Storage, mut offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
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
