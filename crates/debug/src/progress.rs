//! Tells how far a copy has come in a stretch without events, from counters of the program.
//!
//! A long computation nearly always counts something, in a register or near the top of its stack. A
//! value that has grown with time from checkpoint to checkpoint is taken for such a counter. It
//! only tells when to look for a place, not where the place is. So a wrong guess does no harm.

use crate::checkpoint::Checkpoint;
use crate::inferior::Inferior;
use crate::place::{Place, STACK_POINTER};
use retake_kernel::memory;
use std::time::Duration;

/// The fewest checkpoints that show what grows with time.
const FEWEST_POINTS: usize = 3;
const MOST_POINTS: usize = 6;
/// The memory examined for counters: from a little below the stack's top, where called functions
/// have data, up to this far above.
const BELOW_BYTES: u64 = 128;
const ABOVE_BYTES: u64 = 2048;
/// How unevenly a counter may grow, since the machine's speed changes.
const MOST_UNEVEN: f64 = 2.5;
/// The number of counters used. Not every one of them goes on as before.
const MOST_COUNTERS: usize = 5;
const WORD: usize = 8;

/// The location of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counter {
    Register(usize),
    /// The address of a word.
    Word(u64),
}

/// Counters that grow on the way to a place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Each counter with its value at the place.
    counters: Vec<(Counter, u64)>,
    /// The values at the beginning of the way.
    begin: Vec<Option<u64>>,
}

/// Registers and the memory around a stack's top.
struct Sample {
    registers: [u64; STACK_POINTER],
    words: Vec<u64>,
}

impl Progress {
    /// Finds counters for the way to the checkpoint with this number. The way begins where the
    /// thread returned from its last event.
    pub fn to(all: &[Checkpoint], end: usize) -> Self {
        let there = &all[end].place;
        let is_of_stretch = |one: &&Checkpoint| {
            one.place.mark == there.mark
                && one.place.thread == there.thread
                && one.place.announces.is_none()
        };
        let before =
            all[..=end].iter().rev().take_while(is_of_stretch).take(MOST_POINTS - 1).count();
        let after = all[end + 1..].iter().take_while(is_of_stretch).take(1).count();
        let points = &all[end + 1 - before..end + 1 + after];
        if points.len() < FEWEST_POINTS {
            return Self::default();
        }
        let first = there.stack().saturating_sub(BELOW_BYTES) & !(WORD as u64 - 1);
        let samples: Vec<Sample> = points.iter().map(|one| Sample::of(one, first)).collect();
        let ran: Vec<Duration> = points[1..].iter().map(|one| one.since.ran).collect();
        let registers = (0..STACK_POINTER).map(Counter::Register);
        let words = (0..samples.iter().map(|sample| sample.words.len()).min().unwrap_or(0))
            .map(|index| Counter::Word(first + (index * WORD) as u64));
        let mut found: Vec<(f64, Counter, u64)> = registers
            .chain(words)
            .filter_map(|counter| {
                let values: Vec<u64> =
                    samples.iter().map(|sample| sample.value(counter, first)).collect();
                Some((unevenness(&values, &ran)?, counter, values[before - 1]))
            })
            .collect();
        found.sort_by(|one, other| one.0.total_cmp(&other.0));
        found.truncate(MOST_COUNTERS);
        Self {
            counters: found.into_iter().map(|(_, counter, value)| (counter, value)).collect(),
            begin: Vec::new(),
        }
    }

    /// Reads the counters at the beginning of the way, where the copy is.
    pub fn begin(&mut self, copy: &Inferior, here: &Place) {
        self.begin =
            self.counters.iter().map(|(counter, _)| value_in(*counter, copy, here)).collect();
    }

    /// The part of the way that the copy has gone, as the median of the counters. More than 1 means
    /// that it is beyond the place. `None` if the counters do not tell.
    pub fn part(&self, copy: &Inferior, here: &Place) -> Option<f64> {
        let part = |((counter, end), begin): (&(Counter, u64), &Option<u64>)| {
            let (now, begin) = (value_in(*counter, copy, here)?, (*begin)?);
            let [behind, whole] = [now, *end].map(|value| value.wrapping_sub(begin) as i64 as f64);
            Some(behind / whole).filter(|part| part.is_finite())
        };
        let mut parts: Vec<f64> = self.counters.iter().zip(&self.begin).filter_map(part).collect();
        parts.sort_by(f64::total_cmp);
        parts.get(parts.len() / 2).copied()
    }
}

impl Sample {
    fn of(checkpoint: &Checkpoint, first: u64) -> Self {
        let bytes =
            memory::peek_vec(checkpoint.snapshot.pid, first, (BELOW_BYTES + ABOVE_BYTES) as usize)
                .unwrap_or_default();
        let words = bytes
            .chunks_exact(WORD)
            .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
            .collect();
        Self { registers: std::array::from_fn(|index| checkpoint.place.register(index)), words }
    }

    fn value(&self, counter: Counter, first: u64) -> u64 {
        match counter {
            Counter::Register(index) => self.registers[index],
            Counter::Word(address) => self.words[(address - first) as usize / WORD],
        }
    }
}

fn value_in(counter: Counter, copy: &Inferior, here: &Place) -> Option<u64> {
    match counter {
        Counter::Register(index) => Some(here.register(index)),
        Counter::Word(address) => copy.process.memory.word(address),
    }
}

/// The ratio of a value's fastest growth to its slowest; `None` if it is no counter.
fn unevenness(values: &[u64], ran: &[Duration]) -> Option<f64> {
    let grown = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) as i64 as f64);
    let speeds: Vec<f64> =
        grown.zip(ran).map(|(grown, ran)| grown / ran.as_secs_f64().max(1e-6)).collect();
    let [slowest, fastest] =
        [f64::min, f64::max].map(|choose| speeds.iter().copied().reduce(choose));
    let (slowest, fastest) =
        if slowest? > 0.0 { (slowest?, fastest?) } else { (-fastest?, -slowest?) };
    (slowest > 0.0 && fastest < slowest * MOST_UNEVEN).then(|| fastest / slowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_with_time() {
        let ran = [100, 120, 100].map(Duration::from_millis);
        assert!(unevenness(&[0, 100, 220, 320], &ran).is_some_and(|uneven| uneven < 1.01));
        assert!(
            unevenness(&[u64::MAX, u64::MAX - 90, u64::MAX - 220, u64::MAX - 330], &ran)
                .is_some_and(|uneven| uneven < 1.3)
        );
        assert!(
            unevenness(&[u64::MAX - 50, 50, 160, 260], &ran).is_some(),
            "counters may run over"
        );
        assert_eq!(unevenness(&[0, 100, 50, 150], &ran), None);
        assert_eq!(unevenness(&[7, 7, 7, 7], &ran), None);
        assert_eq!(unevenness(&[0, 100, 1000, 1100], &ran), None);
    }
}
