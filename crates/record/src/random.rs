//! Reproducible random numbers.

/// A random-number generator that depends only on its seed (SplitMix64, as in the runtime).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates the generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns one of several values, each with the same probability.
    pub fn choice<T: Copy, const COUNT: usize>(&mut self, choices: [T; COUNT]) -> T {
        choices[self.below(COUNT as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_every_number() {
        let (mut one, mut same) = (Random::new(9), Random::new(9));
        assert!((0..100).all(|_| one.next() == same.next()));
    }
}
