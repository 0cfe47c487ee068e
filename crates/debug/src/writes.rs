//! Which pages a process wrote to since it was last copied. Right after a fork it shares every page with the copy; one that it alone has now, it has
//! written to, or had not then.

use crate::pagemap::{PAGE_BYTES, PAGES_AT_ONCE, Pagemap};
use retake_kernel::maps;

/// Ranges of addresses, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Writes(Vec<(u64, u64)>);

impl Writes {
    /// Of a process, which is stopped, since the last copy of it was made. `None`: that cannot be told.
    pub fn since_copy(pid: i32) -> Option<Self> {
        let pagemap = Pagemap::of(pid).ok()?;
        let mut writes = Self::default();
        for mapping in maps::of_process(pid).ok()?.iter().filter(|mapping| mapping.writable) {
            if mapping.shared {
                writes.add(mapping.start, mapping.end);
                continue;
            }
            writes.scan(&pagemap, mapping.start, mapping.end)?;
        }
        Some(writes)
    }

    fn scan(&mut self, pagemap: &Pagemap, start: u64, end: u64) -> Option<()> {
        for piece in (start..end).step_by(PAGES_AT_ONCE * PAGE_BYTES as usize) {
            let pages = pagemap.pages(piece, (end - piece).div_ceil(PAGE_BYTES) as usize).ok()?;
            for (address, page) in (piece..).step_by(PAGE_BYTES as usize).zip(pages) {
                if page.may_be_its_own() {
                    self.add(address, address + PAGE_BYTES);
                }
            }
        }
        Some(())
    }

    fn add(&mut self, start: u64, end: u64) {
        match self.0.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.0.push((start, end)),
        }
    }

    /// Both.
    pub fn and(mut self, other: &Self) -> Self {
        self.0.extend(&other.0);
        self.0.sort_unstable();
        let mut all = Self::default();
        for (start, end) in self.0 {
            match all.0.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => all.0.push((start, end)),
            }
        }
        all
    }

    /// Whether some of these bytes may have been written.
    pub fn touch(&self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let after = self.0.partition_point(|(_, range_end)| *range_end <= address);
        self.0.get(after).is_some_and(|(start, _)| *start < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_found() {
        let mut one = Writes::default();
        one.add(0x1000, 0x2000);
        one.add(0x2000, 0x3000);
        one.add(0x8000, 0x9000);
        let both = one.and(&Writes(vec![(0x2000, 0x5000), (0x9000, 0xa000)]));
        assert_eq!(both, Writes(vec![(0x1000, 0x5000), (0x8000, 0xa000)]));
        assert!(both.touch(0x4fff, 1) && both.touch(0xff8, 16) && both.touch(0x9ff8, 8));
        assert!(!both.touch(0x5000, 0x3000) && !both.touch(0, 0x1000) && !both.touch(0xa000, 8));
    }

    /// A child that the test's own process copies itself to would be another test's too: so its pages are looked at before and after one.
    #[test]
    fn a_fresh_page_counts_as_written() {
        let page = vec![1u8; 3 * PAGE_BYTES as usize];
        let writes = Writes::since_copy(std::process::id() as i32).unwrap();
        assert!(writes.touch(page.as_ptr() as u64 + PAGE_BYTES, 8));
    }
}
