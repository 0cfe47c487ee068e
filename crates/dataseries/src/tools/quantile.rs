//! Quantiles of a stream of numbers in little memory.
//!
//! Values are counted in buckets. The numbers of a bucket agree in sign, exponent and the first
//! eight bits after the point. A quantile is therefore exact for whole numbers up to 512.
//! Otherwise, it is at most 0.4 % too close to zero.
//!
//! The histogram is our own: hdrhistogram counts whole numbers from zero up, but fields may be
//! negative or fractions.

use std::collections::BTreeMap;

/// The low bits of a double, which do not affect the bucket.
const DROPPED_BITS: u32 = 44;
const SIGN: u64 = 1 << 63;

/// The number of values in each bucket. NaN is not counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quantiles {
    buckets: BTreeMap<u32, u64>,
    count: u64,
}

impl Quantiles {
    /// Counts a value. Returns whether that took a new bucket.
    pub(crate) fn add(&mut self, value: f64) -> bool {
        if value.is_nan() {
            return false;
        }
        // Zeros of both signs share a bucket.
        let bits = (value + 0.0).to_bits();
        // Maps doubles to numbers in the same order. Negative ones are inverted.
        let ordered = if bits & SIGN != 0 { !bits } else { bits | SIGN };
        self.count += 1;
        let counter = self.buckets.entry((ordered >> DROPPED_BITS) as u32).or_insert(0);
        *counter += 1;
        *counter == 1
    }

    /// Returns the value of rank ⌈q·n⌉. A share `q` of all values, from 0 to 1, is not above it.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        for (&bucket, &count) in &self.buckets {
            below += count;
            if below >= rank {
                let ordered = u64::from(bucket) << DROPPED_BITS;
                let bits = if ordered & SIGN != 0 { ordered & !SIGN } else { !ordered };
                return Some(f64::from_bits(bits >> DROPPED_BITS << DROPPED_BITS));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_whole_numbers_are_exact() {
        let mut quantiles = Quantiles::default();
        for value in -100..=100 {
            quantiles.add(f64::from(value));
        }
        assert_eq!(quantiles.quantile(0.0), Some(-100.0));
        assert_eq!(quantiles.quantile(0.5), Some(0.0));
        assert_eq!(quantiles.quantile(1.0), Some(100.0));
        assert_eq!(Quantiles::default().quantile(0.5), None);
    }

    #[test]
    fn large_numbers_are_within_half_a_percent() {
        let mut quantiles = Quantiles::default();
        let values: Vec<f64> = (1..10_000).map(|i| f64::from(i) * 1234.567).collect();
        for &value in &values {
            quantiles.add(value);
        }
        for q in [0.01, 0.5, 0.9, 0.99] {
            let exact = values[(q * values.len() as f64).ceil() as usize - 1];
            let found = quantiles.quantile(q).expect("there are values");
            assert!(found <= exact && found > exact * 0.996, "{q}: {found} {exact}");
        }
    }
}
