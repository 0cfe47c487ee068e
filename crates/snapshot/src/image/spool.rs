//! The private memory of a process that goes on, as it was while all its threads stood still.

use super::{ImageError, Result};
use crate::pagemap::PAGE_BYTES;
use retake_kernel::memory;
use retake_recording::MAX_PIECE_BYTES;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The most that is read of a process: it stands still meanwhile, and it all fits in memory.
const MOST_BYTES: u64 = 512 << 20;

/// Parts of memory, by their addresses. What could not be read is missing.
#[derive(Debug, Default)]
pub(super) struct Spool(BTreeMap<u64, Vec<u8>>);

impl Spool {
    /// Reads these ranges of whole pages.
    ///
    /// # Errors
    /// `Refused` if they are too large. The process is gone.
    pub fn read<'a>(pid: i32, ranges: impl Iterator<Item = &'a Range<u64>>) -> Result<Self> {
        let memory = memory::of_process(pid)?;
        let (mut spool, mut room) = (Self::default(), MOST_BYTES);
        for range in ranges {
            let bytes = range.end - range.start;
            let Some(left) = room.checked_sub(bytes) else {
                let why = format!("process {pid} has too much memory to be read in passing");
                return Err(ImageError::Refused(why));
            };
            room = left;
            for start in range.clone().step_by(MAX_PIECE_BYTES) {
                spool.read_piece(&memory, start, MAX_PIECE_BYTES.min((range.end - start) as usize));
            }
        }
        Ok(spool)
    }

    /// Where a piece cannot be read as a whole, some of its pages are guard pages.
    fn read_piece(&mut self, memory: &File, start: u64, bytes: usize) {
        let mut piece = vec![0; bytes];
        if memory.read_exact_at(&mut piece, start).is_ok() {
            self.0.insert(start, piece);
        } else if bytes > PAGE_BYTES as usize {
            for page in (start..start + bytes as u64).step_by(PAGE_BYTES as usize) {
                self.read_piece(memory, page, PAGE_BYTES as usize);
            }
        }
    }

    /// Copies what was read at an address. Returns false if some of it is missing.
    pub fn copy(&self, address: u64, to: &mut [u8]) -> bool {
        let mut done = 0;
        while done < to.len() {
            let at = address + done as u64;
            let Some((start, piece)) = self.0.range(..=at).next_back() else { return false };
            let Some(rest) = piece.get((at - start) as usize..).filter(|rest| !rest.is_empty())
            else {
                return false;
            };
            let count = rest.len().min(to.len() - done);
            to[done..done + count].copy_from_slice(&rest[..count]);
            done += count;
        }
        true
    }

    /// Changes what was read at an address. Returns false if some of it is missing.
    pub fn change(&mut self, address: u64, bytes: &[u8]) -> bool {
        let Some((start, piece)) = self.0.range_mut(..=address).next_back() else { return false };
        let offset = (address - start) as usize;
        let Some(place) = piece.get_mut(offset..offset + bytes.len()) else { return false };
        place.copy_from_slice(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_copied_and_changed() {
        let bytes = vec![7u8; 8 * PAGE_BYTES as usize];
        let start = (bytes.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let ranges = [start..start + PAGE_BYTES, start + PAGE_BYTES..start + 3 * PAGE_BYTES];
        let pid = std::process::id() as i32;
        let mut spool = Spool::read(pid, ranges.iter()).unwrap();
        assert!(spool.change(start + PAGE_BYTES, &[8, 9]), "a word of the second piece");
        let mut found = [0; 4];
        assert!(spool.copy(start + PAGE_BYTES - 1, &mut found), "from one piece to the next");
        assert_eq!(found, [7, 8, 9, 7]);
        assert!(!spool.copy(start + 3 * PAGE_BYTES - 1, &mut found), "behind the end");
        assert!(!spool.copy(start - 1, &mut found) && !spool.change(start - 1, &[1]));
        assert!(!spool.change(start + 3 * PAGE_BYTES - 1, &[1, 2]));
    }

    #[test]
    fn too_much_memory_is_refused() {
        let huge = 0..MOST_BYTES + PAGE_BYTES;
        let error = Spool::read(std::process::id() as i32, [huge].iter()).unwrap_err();
        assert!(error.to_string().contains("too much memory"), "{error}");
    }
}
