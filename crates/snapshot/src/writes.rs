//! The pages that a process wrote to since it was last copied. Right after a fork it shares every
//! page with the copy. A page that belongs to it alone was written since, or was new.

use crate::pagemap::{PAGE_BYTES, PAGES_AT_ONCE, Pagemap};
use crate::ranges::Ranges;
use retake_kernel::maps;

/// The pages that a stopped process wrote to since its last copy; `None` if that is unknown.
pub fn since_copy(pid: i32) -> Option<Ranges> {
    let pagemap = Pagemap::of(pid).ok()?;
    let mut writes = Ranges::default();
    for mapping in maps::of_process(pid).ok()?.iter().filter(|mapping| mapping.writable) {
        if mapping.shared {
            writes.push(mapping.start, mapping.end);
            continue;
        }
        add_written(&mut writes, &pagemap, mapping.start, mapping.end)?;
    }
    Some(writes)
}

fn add_written(writes: &mut Ranges, pagemap: &Pagemap, start: u64, end: u64) -> Option<()> {
    for piece in (start..end).step_by(PAGES_AT_ONCE * PAGE_BYTES as usize) {
        let pages = pagemap.pages(piece, (end - piece).div_ceil(PAGE_BYTES) as usize).ok()?;
        for (address, page) in (piece..).step_by(PAGE_BYTES as usize).zip(pages) {
            if page.may_be_its_own() {
                writes.push(address, address + PAGE_BYTES);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test does not fork its process, because other tests would get that child. So it uses a
    /// page that was never shared.
    #[test]
    fn a_fresh_page_counts_as_written() {
        let page = vec![1u8; 3 * PAGE_BYTES as usize];
        let writes = since_copy(std::process::id() as i32).unwrap();
        assert!(writes.touch(page.as_ptr() as u64 + PAGE_BYTES, 8));
    }
}
