//! Sets of addresses.

use serde::{Deserialize, Serialize};

/// Ranges of addresses, in order. No two touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a range that begins at or after the end of the last one.
    pub fn push(&mut self, start: u64, end: u64) {
        match self.0.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.0.push((start, end)),
        }
    }

    /// Adds a range anywhere.
    pub fn insert(&mut self, start: u64, end: u64) {
        let first = self.0.partition_point(|range| range.1 < start);
        let last = self.0.partition_point(|range| range.0 <= end);
        let joined = self.0[first..last]
            .iter()
            .fold((start, end), |(start, end), range| (start.min(range.0), end.max(range.1)));
        self.0.splice(first..last, [joined]);
    }

    /// The union of both.
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

    /// Whether the set contains some of these bytes.
    pub fn touch(&self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let after = self.0.partition_point(|(_, range_end)| *range_end <= address);
        self.0.get(after).is_some_and(|(start, _)| *start < end)
    }

    /// The parts of a range that are not in the set.
    pub fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut at, mut gaps) = (start, Vec::new());
        let first = self.0.partition_point(|range| range.1 <= start);
        for &(from, to) in self.0[first..].iter().take_while(|range| range.0 < end) {
            if at < from {
                gaps.push((at, from));
            }
            at = to;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }
}

impl FromIterator<(u64, u64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut all = Self::default();
        ranges.into_iter().for_each(|(start, end)| all.insert(start, end));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_found() {
        let mut one = Ranges::default();
        one.push(0x1000, 0x2000);
        one.push(0x2000, 0x3000);
        one.push(0x8000, 0x9000);
        let both = one.and(&Ranges(vec![(0x2000, 0x5000), (0x9000, 0xa000)]));
        assert_eq!(both, Ranges(vec![(0x1000, 0x5000), (0x8000, 0xa000)]));
        assert!(both.touch(0x4fff, 1) && both.touch(0xff8, 16) && both.touch(0x9ff8, 8));
        assert!(!both.touch(0x5000, 0x3000) && !both.touch(0, 0x1000) && !both.touch(0xa000, 8));
    }

    #[test]
    fn ranges_are_put_where_they_belong() {
        let mut all: Ranges = [(10, 20), (40, 50), (60, 70)].into_iter().collect();
        assert_eq!(all.gaps(0, 100), [(0, 10), (20, 40), (50, 60), (70, 100)]);
        assert_eq!((all.gaps(12, 18), all.gaps(15, 45)), (vec![], vec![(20, 40)]));
        all.insert(20, 25);
        all.insert(45, 60);
        assert_eq!(all, Ranges(vec![(10, 25), (40, 70)]));
        all.insert(80, 90);
        all.insert(0, 5);
        assert_eq!(all, Ranges(vec![(0, 5), (10, 25), (40, 70), (80, 90)]));
        all.insert(0, 100);
        assert_eq!(all, Ranges(vec![(0, 100)]));
    }
}
