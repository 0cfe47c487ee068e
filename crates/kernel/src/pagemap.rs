//! Finds out which pages of a process are present, through `/proc/PID/pagemap`.

use crate::check;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// `PAGEMAP_SCAN` of `linux/fs.h`, with its structures; since Linux 6.7.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const REGIONS: usize = 512;

#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    region_count: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    told: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Which pages to find: those with all bits of `all`, any bit of `any` (0: no condition) and no bit
/// of `none`.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    all: u64,
    any: u64,
    none: u64,
}

/// Returns the parts of a memory range that show pages of files and are in the page tables: the
/// process touched them, or the kernel mapped them together with a neighbour.
///
/// # Errors
/// The process is gone or belongs to another user, or the kernel is older than 6.7.
pub fn present_file_pages(pid: i32, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    scan(pid, range, Wanted { all: PAGE_IS_PRESENT | PAGE_IS_FILE, any: 0, none: 0 })
}

/// Returns the parts of a private memory range with contents of their own: neither the same as in a
/// file nor untouched. They may include pages that cannot be read, because the program made them
/// guard pages.
///
/// # Errors
/// As [`present_file_pages`].
pub fn own_pages(pid: i32, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    scan(pid, range, Wanted { all: 0, any: PAGE_IS_PRESENT | PAGE_IS_SWAPPED, none: PAGE_IS_FILE })
}

fn scan(pid: i32, range: Range<u64>, wanted: Wanted) -> io::Result<Vec<Range<u64>>> {
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut regions = [Region::default(); REGIONS];
    let mut start = range.start;
    while start < range.end {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start,
            end: range.end,
            regions: regions.as_mut_ptr() as u64,
            region_count: REGIONS as u64,
            inverted: wanted.none,
            all_of: wanted.all | wanted.none,
            any_of: wanted.any,
            told: wanted.all | wanted.any,
            ..ScanArgument::default()
        };
        // SAFETY: the kernel reads and writes `argument`, and writes at most `region_count`
        // regions; both outlive the call.
        let count = check(i64::from(unsafe {
            libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &mut argument)
        }))?;
        for region in &regions[..(count as usize).min(REGIONS)] {
            match found.last_mut() {
                Some(last) if last.end == region.start => last.end = region.end,
                _ => found.push(region.start..region.end),
            }
        }
        if argument.walk_end <= start {
            break;
        }
        start = argument.walk_end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const PAGE: usize = 4096;

    type Found = io::Result<Vec<Range<u64>>>;

    /// Maps four pages of a file and writes to the third. Returns the range of that page, and what
    /// `find` finds in the whole mapping.
    fn with_third_written(sharing: i32, find: fn(i32, Range<u64>) -> Found) -> (Range<u64>, Found) {
        let file = crate::memory::executable_file(c"pages", &[1; 4 * PAGE]).unwrap();
        file.write_all_at(&[2], 0).unwrap();
        // SAFETY: a new mapping of our own file, used within its bounds and unmapped once.
        unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                4 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                sharing,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            std::hint::black_box(*start.cast::<u8>());
            *start.cast::<u8>().add(2 * PAGE) = 7;
            let (whole, third) = (start as u64, start as u64 + 2 * PAGE as u64);
            let found = find(std::process::id() as i32, whole..whole + 4 * PAGE as u64);
            libc::munmap(start, 4 * PAGE);
            (third..third + PAGE as u64, found)
        }
    }

    #[test]
    fn touched_pages_of_files_are_found() {
        let (page, found) = with_third_written(libc::MAP_SHARED, present_file_pages);
        match found {
            Ok(found) => {
                assert!(found.iter().any(|range| range.contains(&page.start)), "{found:x?}")
            }
            Err(_) => eprintln!("skipped: this kernel has no PAGEMAP_SCAN"),
        }
    }

    #[test]
    fn pages_that_were_written_are_ones_own() {
        let (page, found) = with_third_written(libc::MAP_PRIVATE, own_pages);
        match found {
            Ok(found) => assert_eq!(found, [page]),
            Err(_) => eprintln!("skipped: this kernel has no PAGEMAP_SCAN"),
        }
    }
}
