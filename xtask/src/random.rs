//! Random numbers that are the same everywhere.

/// `SplitMix64`: the same numbers on every machine, from one release to the next.
#[derive(Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    /// A number below `count`; `None` if that is 0. `count` must be small: the remainder slightly
    /// favours small numbers.
    pub fn below(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| (self.next() % count as u64) as usize)
    }

    /// One of `all`, which must have at least one element.
    pub fn pick<'all, T>(&mut self, all: &'all [T]) -> &'all T {
        &all[self.below(all.len()).expect("there is a choice")]
    }
}
