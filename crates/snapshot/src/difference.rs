//! Where the memories of two processes differ, one of which is a copy of the other. Pages that
//! neither process has touched are not compared: programs reserve far more memory than they use.

use crate::pagemap::{PAGE_BYTES, PAGES_AT_ONCE, Pagemap, push_page};
use crate::process::Process;
use crate::runtime::in_runtime;
use retake_kernel::maps::{self, Mapping};
use retake_kernel::memory;
use std::ops::Range;

/// The number of bytes compared at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The two processes, of which `other` has no traps, and the ranges that are not compared.
struct Comparison<'a> {
    process: &'a Process,
    other: i32,
    pages: Option<(Pagemap, Pagemap)>,
    dead: &'a [Range<u64>],
}

/// Returns the first word of writable private memory in which a process differs from another one.
/// The `dead` ranges are left out: nothing reads them any more.
pub fn first_difference(process: &Process, other: i32, dead: &[Range<u64>]) -> Option<u64> {
    let mappings = maps::of_process(process.pid).ok()?;
    let theirs = maps::of_process(other).ok()?;
    let pages = Pagemap::of(process.pid).ok().zip(Pagemap::of(other).ok());
    let comparison = Comparison { process, other, pages, dead };
    let is_compared = |m: &&Mapping| {
        m.writable
            && m.readable
            && !m.shared
            && !in_runtime(m.start)
            && !process.memory.is_probe_page(m.start)
    };
    mappings.iter().filter(is_compared).find_map(|mapping| comparison.in_mapping(mapping, &theirs))
}

impl Comparison<'_> {
    fn in_mapping(&self, mapping: &Mapping, theirs: &[Mapping]) -> Option<u64> {
        let mut start = mapping.start;
        while start < mapping.end {
            let after = theirs.partition_point(|other| other.end <= start);
            // A mapping of one process may correspond to several adjacent ones in the other.
            let Some(other) =
                theirs.get(after).filter(|other| other.start <= start && other.readable)
            else {
                return Some(start);
            };
            let end = mapping.end.min(other.end);
            let found = if is_of_same(mapping, other) {
                self.in_alike(start, end)
            } else {
                self.in_bytes(start, end)
            };
            if found.is_some() {
                return found;
            }
            start = end;
        }
        None
    }

    /// Compares a range in mappings of the same thing.
    fn in_alike(&self, start: u64, end: u64) -> Option<u64> {
        let window = PAGES_AT_ONCE as u64 * PAGE_BYTES;
        (start..end).step_by(window as usize).find_map(|address| {
            let window_end = end.min(address + window);
            match self.suspects(address, window_end) {
                Some(runs) => runs.into_iter().find_map(|run| self.in_bytes(run.start, run.end)),
                None => self.in_bytes(address, window_end),
            }
        })
    }

    /// The runs of pages that may differ; `None` if that is unknown.
    fn suspects(&self, start: u64, end: u64) -> Option<Vec<Range<u64>>> {
        let count = ((end - start) / PAGE_BYTES) as usize;
        let (mine, theirs) = self.pages.as_ref()?;
        let (mine, theirs) = (mine.pages(start, count).ok()?, theirs.pages(start, count).ok()?);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (address, (one, other)) in
            (start..).step_by(PAGE_BYTES as usize).zip(mine.iter().zip(&theirs))
        {
            if !one.is_same(*other) {
                push_page(&mut runs, address);
            }
        }
        Some(runs)
    }

    fn in_bytes(&self, start: u64, end: u64) -> Option<u64> {
        (start..end)
            .step_by(PIECE_BYTES)
            .find_map(|address| self.in_piece(address, PIECE_BYTES.min((end - address) as usize)))
    }

    fn in_piece(&self, address: u64, count: usize) -> Option<u64> {
        let (left, right) = (
            memory::peek_vec(self.process.pid, address, count),
            memory::peek_vec(self.other, address, count),
        );
        let (Ok(mut left), Ok(right)) = (left, right) else { return Some(address) };
        self.process.memory.take_traps_out(address, &mut left);
        if left == right {
            return None;
        }
        let words = left.chunks(8).zip(right.chunks(8)).enumerate();
        let mut differing = words
            .filter(|(_, (left, right))| left != right)
            .map(|(index, _)| address + 8 * index as u64);
        differing.find(|address| !self.dead.iter().any(|range| range.contains(address)))
    }
}

/// Whether untouched pages at the same address have the same contents.
fn is_of_same(one: &Mapping, other: &Mapping) -> bool {
    let origin = |mapping: &Mapping| {
        (
            mapping.device,
            mapping.inode,
            (mapping.inode != 0).then(|| mapping.start.wrapping_sub(mapping.offset)),
        )
    };
    !other.shared && origin(one) == origin(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_pages_of_one_file_are_alike() {
        let line = |text: &str| maps::parse(text).unwrap().remove(0);
        let file = line("10000-20000 rw-p 00003000 08:01 77 /data\n");
        assert!(is_of_same(&file, &line("14000-20000 rw-p 00007000 08:01 77 /data\n")));
        assert!(!is_of_same(&file, &line("14000-20000 rw-p 00003000 08:01 77 /data\n")));
        assert!(!is_of_same(&file, &line("10000-20000 rw-p 00003000 08:01 78 /data\n")));
        assert!(!is_of_same(&file, &line("10000-20000 rw-p 00000000 00:00 0\n")));
        assert!(is_of_same(
            &line("10000-20000 rw-p 00000000 00:00 0\n"),
            &line("8000-30000 rw-p 00000000 00:00 0 [heap]\n")
        ));
    }
}
