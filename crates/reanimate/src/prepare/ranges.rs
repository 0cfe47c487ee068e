//! Sets of byte ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// The most ranges. Beyond this, ranges are joined: the set then covers too much, but its memory is
/// limited.
const MAXIMUM_RANGES: usize = 1 << 16;

/// A set of byte ranges of a file, stored by start and end. They neither touch nor overlap.
#[derive(Debug, Default)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        if let Some((before, before_end)) =
            self.ends.range(..=start).next_back().map(|(start, end)| (*start, *end))
            && before_end >= start
        {
            start = before;
            end = end.max(before_end);
        }
        let mut covered = Vec::new();
        for (other, other_end) in self.ends.range(start..=end) {
            covered.push(*other);
            end = end.max(*other_end);
        }
        for other in covered {
            self.ends.remove(&other);
        }
        self.ends.insert(start, end);
        if self.ends.len() > MAXIMUM_RANGES {
            self.insert(0..end);
        }
    }

    /// The parts of a range that are not in the set.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        let before = self.ends.range(..=at).next_back();
        let covering = before
            .into_iter()
            .chain(self.ends.range(at.saturating_add(1)..range.end.max(at.saturating_add(1))));
        for (start, end) in covering {
            if *start > at {
                missing.push(at..(*start).min(range.end));
            }
            at = at.max(*end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_as_sets_of_bytes(inserted in proptest::collection::vec((0_u64..64, 0_u64..64),
            0..20), asked in (0_u64..64, 0_u64..64)) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 64];
            for (start, end) in inserted {
                ranges.insert(start..end);
                (start..end).for_each(|byte| bytes[byte as usize] = true);
            }
            let mut missing = [false; 64];
            for range in ranges.missing(asked.0..asked.1) {
                range.for_each(|byte| missing[byte as usize] = true);
            }
            for byte in 0..64_u64 {
                let expected = (asked.0..asked.1).contains(&byte) && !bytes[byte as usize];
                prop_assert_eq!(missing[byte as usize], expected, "byte {}", byte);
            }
        }
    }

    #[test]
    fn there_are_never_too_many() {
        let mut ranges = Ranges::default();
        (0..MAXIMUM_RANGES as u64 + 10).for_each(|index| ranges.insert(index * 2..index * 2 + 1));
        assert!(ranges.ends.len() <= MAXIMUM_RANGES);
    }
}
