//! The pages of a mapping that have contents of their own. Another session gets the other pages
//! from the same file, or as zeros.

use crate::pagemap::{PAGE_BYTES, PAGES_AT_ONCE, Pagemap, push_page};
use retake_kernel::pagemap;
use std::io;
use std::ops::Range;

/// The pages of a private mapping of a stopped process that have contents of their own.
///
/// # Errors
/// The process is gone.
pub(super) fn own_pages(pid: i32, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    // Older kernels must be asked about each page.
    pagemap::own_pages(pid, range.clone()).or_else(|_| own_pages_one_by_one(pid, range))
}

fn own_pages_one_by_one(pid: i32, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let pagemap = Pagemap::of(pid)?;
    let mut found: Vec<Range<u64>> = Vec::new();
    for start in range.clone().step_by(PAGES_AT_ONCE * PAGE_BYTES as usize) {
        let pages = pagemap.pages(start, ((range.end - start) / PAGE_BYTES) as usize)?;
        for (address, page) in (start..).step_by(PAGE_BYTES as usize).zip(pages) {
            if !page.is_absent() && !page.is_of_file() {
                push_page(&mut found, address);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same() {
        let pid = std::process::id() as i32;
        let bytes = vec![1u8; 64 * PAGE_BYTES as usize];
        let start = (bytes.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let range = start..start + 32 * PAGE_BYTES;
        let one_by_one = own_pages_one_by_one(pid, range.clone()).unwrap();
        assert!(one_by_one.len() == 1 && one_by_one[0] == range, "{one_by_one:x?}");
        match pagemap::own_pages(pid, range) {
            Ok(found) => assert_eq!(found, one_by_one),
            Err(_) => eprintln!("skipped: this kernel has no PAGEMAP_SCAN"),
        }
    }
}
