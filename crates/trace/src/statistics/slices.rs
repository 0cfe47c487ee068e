//! Time in equal slices, as many as a picture shows, however long the trace is.

use serde::Serialize;

/// More slices than these are put together in pairs.
const MOST_SLICES: usize = 256;
const FIRST_WIDTH_NS: u64 = 100_000;

/// What happened in one slice of time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// Calls entered in it.
    pub calls: u64,
    /// Of them, those that failed.
    pub errors: u64,
    /// Bytes read by them.
    pub read_bytes: u64,
    /// Bytes written by them.
    pub written_bytes: u64,
    /// How long they took: element N counts those of less than 2^N nanoseconds, and not less than
    /// half of that.
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

/// All slices since the first time that was seen.
#[derive(Debug, Default)]
pub(super) struct Slices {
    begin_ns: Option<u64>,
    width_ns: u64,
    slices: Vec<Slice>,
}

impl Slices {
    /// Nanoseconds since the trace began; the first time asked for is the beginning.
    pub fn since_begin(&mut self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(*self.begin_ns.get_or_insert(time_ns))
    }

    /// Adds a call that was entered then and took so long.
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
