//! Equal slices of time. A trace of any length has as many as a drawing shows.

use serde::Serialize;

/// The most slices. If there are more, pairs of them are joined.
const MOST_SLICES: usize = 256;
const FIRST_WIDTH_NS: u64 = 100_000;

/// The calls in one slice of time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// The number of calls entered in it.
    pub calls: u64,
    /// The number of these calls that failed.
    pub errors: u64,
    /// The bytes that they read.
    pub read_bytes: u64,
    /// The bytes that they wrote.
    pub written_bytes: u64,
    /// Calls by duration. Element N counts those of less than 2^N nanoseconds, but at least half of
    /// that.
    pub by_latency: Vec<u64>,
}

impl Slice {
    fn join(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        if self.by_latency.len() < other.by_latency.len() {
            self.by_latency.resize(other.by_latency.len(), 0);
        }
        self.by_latency.iter_mut().zip(&other.by_latency).for_each(|(own, other)| *own += other);
    }
}

/// All slices since the first time seen.
#[derive(Debug, Default)]
pub(super) struct Slices {
    begin_ns: Option<u64>,
    width_ns: u64,
    slices: Vec<Slice>,
}

impl Slices {
    /// Returns nanoseconds since the trace began. It begins at the first time passed here.
    pub fn since_begin(&mut self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(*self.begin_ns.get_or_insert(time_ns))
    }

    /// Adds a call that was entered at `at_ns` and took `spent_ns`.
    pub fn add(&mut self, at_ns: u64, mut call: Slice, spent_ns: u64) {
        let class = (u64::BITS - spent_ns.leading_zeros()) as usize;
        call.by_latency = vec![0; class + 1];
        call.by_latency[class] = 1;
        self.width_ns = self.width_ns.max(FIRST_WIDTH_NS);
        while at_ns / self.width_ns >= MOST_SLICES as u64 {
            self.put_together();
        }
        let index = (at_ns / self.width_ns) as usize;
        if self.slices.len() <= index {
            self.slices.resize(index + 1, Slice::default());
        }
        self.slices[index].join(&call);
    }

    fn put_together(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let pairs = self.slices.chunks(2).map(|pair| {
            let mut joined = pair[0].clone();
            pair[1..].iter().for_each(|other| joined.join(other));
            joined
        });
        self.slices = pairs.collect();
    }

    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    pub fn into_slices(self) -> Vec<Slice> {
        self.slices
    }
}
