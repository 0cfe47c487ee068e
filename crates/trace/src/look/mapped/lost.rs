//! The mappings of a process that is looked at only at the return of its calls.

use super::{MappedFiles, Region};
use crate::look::Sink;
use std::io;
use std::ops::Range;

impl MappedFiles {
    /// Forgets a process that was looked at before its end.
    pub fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// Takes the contents of pages that a call has just taken away: those of `lost`, and those of
    /// mappings that are gone.
    pub fn collect_lost(
        &mut self,
        pid: i32,
        lost: &Range<u64>,
        time_ns: u64,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let before = self.processes.get(&pid).cloned().unwrap_or_default();
        self.note(pid);
        let now = self.processes.get(&pid).cloned().unwrap_or_default();
        for region in before {
            let kept =
                now.iter().filter(|other| agree(other, &region)).map(|other| other.range.clone());
            let mut parts = without(region.range.clone(), kept);
            parts.push(lost.start.max(region.range.start)..lost.end.min(region.range.end));
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                self.collect_from_file(&region, &part, pid, time_ns, sink)?;
            }
        }
        Ok(())
    }
}

/// Returns whether two regions show the same bytes at the same addresses, where they overlap.
fn agree(one: &Region, other: &Region) -> bool {
    one.file == other.file
        && one.offset.wrapping_sub(one.range.start) == other.offset.wrapping_sub(other.range.start)
}

/// Returns the parts of a range that no other range covers.
fn without(range: Range<u64>, others: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut left = vec![range];
    for other in others {
        let cut = |part: Range<u64>| {
            [part.start..part.end.min(other.start), part.start.max(other.end)..part.end]
        };
        left = left.into_iter().flat_map(cut).filter(|part| !part.is_empty()).collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_cut_out() {
        let cut = |others: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let left = without(10..50, others.iter().map(|(start, end)| *start..*end));
            left.into_iter().map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(cut(&[]), [(10, 50)]);
        assert_eq!(cut(&[(20, 30), (40, 90)]), [(10, 20), (30, 40)]);
        assert_eq!(cut(&[(0, 5), (60, 70)]), [(10, 50)]);
        assert!(cut(&[(0, 25), (25, 50)]).is_empty());
    }
}
