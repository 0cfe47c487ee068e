//! What was dropped from a recording while it was made, to bound its size: a note in the
//! supervisor's own stream.

use retake_contract::events::{EventKind, event::LAYOUT_BYTES as HEADER_BYTES};

use crate::bytes::read_u64;
use crate::ids::StreamId;

/// A set of numbers, stored as disjoint half-open ranges. Adding and searching take logarithmic
/// time in the number of ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Builds a set from ranges that may overlap and be in any order, as in a hostile recording.
    fn of(mut list: Vec<(u64, u64)>) -> Self {
        list.sort_unstable();
        let mut ranges = Self::default();
        list.into_iter().for_each(|(first, end)| ranges.add(first, end));
        ranges
    }

    /// Adds the numbers from `first` up to, but not including, `end`. Adjacent ranges are joined.
    pub fn add(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let from = self.0.partition_point(|range| range.1 < first);
        let to = self.0.partition_point(|range| range.0 <= end);
        let joined = self.0[from..to]
            .iter()
            .fold((first, end), |all, range| (all.0.min(range.0), all.1.max(range.1)));
        self.0.splice(from..to, [joined]);
    }

    /// Adds all numbers of another set.
    pub fn add_all(&mut self, others: &Self) {
        others.0.iter().for_each(|&(first, end)| self.add(first, end));
    }

    /// Whether the set has this number.
    pub fn contains(&self, number: u64) -> bool {
        self.from(number).is_some_and(|range| range.0 <= number)
    }

    /// Returns the first range that ends after `number`.
    pub fn from(&self, number: u64) -> Option<(u64, u64)> {
        self.0.get(self.0.partition_point(|range| range.1 <= number)).copied()
    }

    /// Returns how many numbers the set has.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, range| sum.saturating_add(range.1 - range.0))
    }

    /// Returns the ranges in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// What was dropped from a recording. Everything else can be replayed without it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The number of processes that are gone entirely, or up to the program that they executed.
    pub processes: u64,
    /// The number of dropped events.
    pub events: u64,
    /// The number of dropped bytes of streams.
    pub bytes: u64,
    /// When the last of these processes had ended, in nanoseconds since recording began.
    pub until_ns: u64,
    /// The streams that are gone.
    pub streams: Ranges,
    /// The streams with only their beginning left, which replay plays in the memory of another
    /// process.
    pub cut: Ranges,
    /// The numbers of console output that replay will not print.
    pub console: Ranges,
}

const FIXED_BYTES: usize = 7 * 8;
const RANGE_BYTES: usize = 16;

impl Dropped {
    /// Whether nothing was dropped.
    pub fn is_nothing(&self) -> bool {
        self.processes == 0
    }

    /// Whether this stream is gone.
    pub fn has_stream(&self, stream: StreamId) -> bool {
        self.streams.contains(u64::from(stream.0))
    }

    /// Whether only the beginning of this stream is left.
    pub fn has_cut(&self, stream: StreamId) -> bool {
        self.cut.contains(u64::from(stream.0))
    }

    /// Encodes the note as an event.
    pub fn event(&self) -> Vec<u8> {
        let ranges = [&self.streams, &self.cut, &self.console];
        let count: usize = ranges.iter().map(|ranges| ranges.0.len()).sum();
        let size = HEADER_BYTES + FIXED_BYTES + count * RANGE_BYTES;
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(
            u32::try_from(size)
                .expect("a hundred million ranges are no bounded recording")
                .to_le_bytes(),
        );
        bytes.extend([EventKind::Dropped as u8, 0, 0, 0]);
        bytes.extend(0_u64.to_le_bytes());
        let counts = ranges.map(|ranges| ranges.0.len() as u64);
        let fixed =
            [self.processes, self.events, self.bytes, self.until_ns].into_iter().chain(counts);
        let all = fixed.chain(
            ranges
                .into_iter()
                .flat_map(|ranges| ranges.0.iter().flat_map(|range| [range.0, range.1])),
        );
        bytes.extend(all.flat_map(u64::to_le_bytes));
        bytes
    }

    /// Reads the body of an event. The caller has checked that it has at least
    /// [`Self::body_bytes`].
    pub(crate) fn read(body: &[u8]) -> Self {
        let fixed: [u64; 7] = std::array::from_fn(|at| read_u64(body, at * 8));
        let [processes, events, bytes, until_ns, counts @ ..] = fixed;
        let mut at = FIXED_BYTES;
        let [streams, cut, console] = counts.map(|count| {
            let end = at + count as usize * RANGE_BYTES;
            let list = body[at..end]
                .chunks_exact(RANGE_BYTES)
                .map(|range| (read_u64(range, 0), read_u64(range, 8)));
            at = end;
            Ranges::of(list.collect())
        });
        Self { processes, events, bytes, until_ns, streams, cut, console }
    }

    /// Returns the size that a body with this beginning must have. The size is larger than any body
    /// if the counts are too large.
    pub(crate) fn body_bytes(body: &[u8]) -> usize {
        if body.len() < FIXED_BYTES {
            return FIXED_BYTES;
        }
        let counts = (4..7).map(|at| read_u64(body, at * 8));
        let bytes = counts
            .fold(0_u64, u64::saturating_add)
            .saturating_mul(RANGE_BYTES as u64)
            .saturating_add(FIXED_BYTES as u64);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_event;

    fn ranges(list: &[(u64, u64)]) -> Ranges {
        let mut ranges = Ranges::default();
        list.iter().for_each(|&(first, end)| ranges.add(first, end));
        assert_eq!(ranges, Ranges::of(list.to_vec()));
        ranges
    }

    #[test]
    fn ranges_join_where_they_touch() {
        type Pairs<'a> = &'a [(u64, u64)];
        let cases: [(Pairs, Pairs); 6] = [
            (&[(1, 2), (2, 3)], &[(1, 3)]),
            (&[(5, 6), (1, 2)], &[(1, 2), (5, 6)]),
            (&[(1, 2), (5, 6), (2, 5)], &[(1, 6)]),
            (&[(1, 9), (3, 4)], &[(1, 9)]),
            (&[(1, 2), (3, 4), (5, 6), (0, 10)], &[(0, 10)]),
            (&[(4, 4), (7, 3)], &[]),
        ];
        for (added, expected) in cases {
            assert_eq!(ranges(added).iter().collect::<Vec<_>>(), expected, "{added:?}");
        }
        let some = ranges(&[(3, 5), (8, 9)]);
        assert_eq!((0..10).filter(|number| some.contains(*number)).collect::<Vec<_>>(), [3, 4, 8]);
        assert_eq!(
            (some.from(0), some.from(4), some.from(5), some.from(9)),
            (Some((3, 5)), Some((3, 5)), Some((8, 9)), None)
        );
        assert_eq!(some.count(), 3);
    }

    #[test]
    fn a_note_reads_back() {
        let dropped = Dropped {
            processes: 3,
            events: 100,
            bytes: 9000,
            until_ns: 77,
            streams: ranges(&[(1, 3), (7, 8)]),
            cut: ranges(&[(5, 6)]),
            console: ranges(&[(0, 40)]),
        };
        let bytes = dropped.event();
        let (event, size) = parse_event(&bytes).unwrap();
        assert_eq!((size, event.as_dropped()), (bytes.len(), Some(dropped.clone())));
        assert!(
            dropped.has_stream(StreamId(2))
                && !dropped.has_stream(StreamId(3))
                && dropped.has_cut(StreamId(5))
        );
    }

    #[test]
    fn hostile_counts_are_refused() {
        let good = Dropped { streams: ranges(&[(1, 2)]), ..Dropped::default() }.event();
        for count in [2, 1 << 32, u64::MAX, u64::MAX / 16] {
            for at in 4..7 {
                let mut bad = good.clone();
                bad[HEADER_BYTES + at * 8..][..8].copy_from_slice(&count.to_le_bytes());
                assert!(parse_event(&bad).is_err(), "{count} at {at}");
            }
        }
    }
}
