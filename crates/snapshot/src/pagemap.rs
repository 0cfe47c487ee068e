//! The kernel's description of each page of a process: `/proc/PID/pagemap`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The size of a page.
pub const PAGE_BYTES: u64 = 4096;
/// The most pages that one read returns.
pub const PAGES_AT_ONCE: usize = 16 << 10;

const ENTRY_BYTES: usize = 8;
const FRAME: u64 = (1 << 55) - 1;
const EXCLUSIVE: u64 = 1 << 56;
const FILE: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;

/// A process's page map.
#[derive(Debug)]
pub struct Pagemap(File);

/// An entry of the page map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page(u64);

impl Pagemap {
    /// Opens the page map of a process.
    ///
    /// # Errors
    /// The process is gone, or access is denied.
    pub fn of(pid: i32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/pagemap")).map(Self)
    }

    /// Returns the pages from an address on, at most [`PAGES_AT_ONCE`].
    ///
    /// # Errors
    /// As [`Pagemap::of`].
    pub fn pages(&self, address: u64, count: usize) -> io::Result<Vec<Page>> {
        let mut bytes = vec![0; count.min(PAGES_AT_ONCE) * ENTRY_BYTES];
        self.0.read_exact_at(&mut bytes, address / PAGE_BYTES * ENTRY_BYTES as u64)?;
        let word = |entry: &[u8]| u64::from_le_bytes(std::array::from_fn(|index| entry[index]));
        Ok(bytes.chunks_exact(ENTRY_BYTES).map(|entry| Page(word(entry))).collect())
    }
}

/// Adds a page to runs of pages, which are in order.
pub fn push_page(runs: &mut Vec<Range<u64>>, address: u64) {
    match runs.last_mut() {
        Some(last) if last.end == address => last.end += PAGE_BYTES,
        _ => runs.push(address..address + PAGE_BYTES),
    }
}

impl Page {
    /// Whether the page is untouched: it shows its file, or zeros.
    pub fn is_absent(self) -> bool {
        self.0 & (PRESENT | SWAPPED) == 0
    }

    /// Whether the page shows its file, or is shared.
    pub fn is_of_file(self) -> bool {
        self.0 & FILE != 0
    }

    /// Whether the page may belong to this process alone.
    pub fn may_be_its_own(self) -> bool {
        self.0 & SWAPPED != 0 || self.0 & (PRESENT | EXCLUSIVE) == PRESENT | EXCLUSIVE
    }

    /// Whether two pages, of mappings of the same thing, certainly have the same contents. Only
    /// privileged processes see the page frames; for others the answer is no unless both pages are
    /// absent.
    pub fn is_same(self, other: Self) -> bool {
        let is_one = self.0 & PRESENT != 0
            && other.0 & PRESENT != 0
            && self.0 & FRAME != 0
            && self.0 & FRAME == other.0 & FRAME;
        is_one || self.is_absent() && other.is_absent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_compared() {
        let (absent, swapped, untold) = (Page(0), Page(SWAPPED | 5), Page(PRESENT));
        let (here, also_here, elsewhere) =
            (Page(PRESENT | 7), Page(PRESENT | EXCLUSIVE | 7), Page(PRESENT | 8));
        assert!(absent.is_same(absent) && here.is_same(also_here));
        for (one, other) in [
            (absent, here),
            (swapped, swapped),
            (untold, untold),
            (here, elsewhere),
            (absent, swapped),
        ] {
            assert!(!one.is_same(other) && !other.is_same(one), "{one:?} {other:?}");
        }
        assert!(
            also_here.may_be_its_own()
                && swapped.may_be_its_own()
                && !here.may_be_its_own()
                && !absent.may_be_its_own()
        );
    }

    #[test]
    fn what_was_written_is_there() {
        let bytes = vec![1u8; 3 * PAGE_BYTES as usize];
        let pages = Pagemap::of(std::process::id() as i32)
            .unwrap()
            .pages(bytes.as_ptr() as u64, 2)
            .unwrap();
        assert!(pages.len() == 2 && pages.iter().all(|page| !page.is_absent()));
    }
}
