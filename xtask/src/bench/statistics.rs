//! Figures of several runs.

use serde::Serialize;
use serde_json::{Value, json};

/// The spread of a baseline above which ratios to it mean nothing.
pub const NOISY_SPREAD: f64 = 0.4;

/// The figures of one mode, one per round.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Series {
    pub figures: Vec<f64>,
}

impl Series {
    pub fn push(&mut self, figure: f64) {
        assert!(figure.is_finite(), "figures are times or sizes");
        self.figures.push(figure);
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.figures.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Returns the middle figure, or the mean of the two in the middle. `None` if there are none.
    pub fn median(&self) -> Option<f64> {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            count if count % 2 == 1 => Some(sorted[middle]),
            _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        }
    }

    pub fn minimum(&self) -> Option<f64> {
        self.sorted().first().copied()
    }

    pub fn maximum(&self) -> Option<f64> {
        self.sorted().last().copied()
    }

    /// Returns maximum minus minimum, as a multiple of the median.
    pub fn spread(&self) -> Option<f64> {
        Some((self.maximum()? - self.minimum()?) / self.median()?)
    }

    /// Returns all figures and their summary, for programs.
    pub fn json(&self) -> Value {
        json!({
            "median": self.median(),
            "minimum": self.minimum(),
            "maximum": self.maximum(),
            "rounds": self.figures,
        })
    }

    pub fn is_noisy(&self) -> bool {
        self.spread().is_some_and(|spread| spread > NOISY_SPREAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(figures: &[f64]) -> Series {
        Series { figures: figures.to_vec() }
    }

    #[test]
    fn medians_and_spread() {
        assert_eq!(series(&[]).median(), None);
        assert_eq!(series(&[]).spread(), None);
        assert_eq!(series(&[3.0]).median(), Some(3.0));
        assert_eq!(series(&[3.0]).spread(), Some(0.0));
        assert_eq!(series(&[5.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(series(&[4.0, 1.0, 2.0, 9.0]).median(), Some(3.0));
        assert_eq!(series(&[5.0, 1.0, 2.0]).spread(), Some(2.0));
    }

    #[test]
    fn wide_spread_is_noise() {
        assert!(!series(&[1.0, 1.2, 1.39]).is_noisy());
        assert!(series(&[1.0, 1.0, 1.5]).is_noisy());
        assert!(!series(&[]).is_noisy());
    }
}
