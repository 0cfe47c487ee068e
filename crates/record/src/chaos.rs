//! Chaos: disturbs the recorded program so that rare interleavings show up.
//!
//! All randomness comes from one seed. The runtime decides what depends only on the seed and the
//! thread: which thread gets the baton next, where a thread yields it, how long a thread sleeps
//! before it takes it again (`runtime/order/chaos.c`). This module decides how often that happens.
//! It also stops computing threads at random moments, after slices of random length.
//!
//! No single mixture finds every bug: frequent preemptions hide what a rare one shows. So each seed
//! has its own mixture.

use crate::random::Random;
use crate::shared_state::Recorder;
use crate::{forcing, slices};
use retake_kernel::shared::Header;
use retake_supervisor::worker::{Stop, Worker};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The shortest slice of a computing thread.
const SHORTEST_SLICE: Duration = Duration::from_micros(40);
/// The number of scales. A slice is the shortest one, times a power of two below this exponent,
/// times a random number from one to two.
const SLICE_SCALES: u64 = 9;

/// How often each disturbance happens, as one in so many; 0 means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mixture {
    yield_one_in: u32,
    step_one_in: u32,
    delay_one_in: u32,
    delay_most_us: u32,
}

impl Mixture {
    fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Long delays are rare.
        let (delay_one_in, delay_most_us) =
            random.choice([(0, 0), (2, 100), (4, 1_000), (8, 5_000), (32, 40_000)]);
        Self {
            yield_one_in: random.choice([2, 4, 8, 32]),
            step_one_in: random.choice([1, 1, 3, 0]),
            delay_one_in,
            delay_most_us,
        }
    }
}

/// Tells the runtime the seed and the mixture. The runtime takes a seed of 0 as "no chaos", so
/// another seed replaces it.
pub(crate) fn announce(header: &Header, seed: u64) {
    let seed = if seed == 0 { u64::MAX } else { seed };
    let mixture = Mixture::of_seed(seed);
    header.chaos.yield_one_in.store(mixture.yield_one_in, Relaxed);
    header.chaos.step_one_in.store(mixture.step_one_in, Relaxed);
    header.chaos.delay_one_in.store(mixture.delay_one_in, Relaxed);
    header.chaos.delay_most_us.store(mixture.delay_most_us, Relaxed);
    header.chaos.seed.store(seed, Relaxed);
    // Processes without a baton also check for chaos at each call.
    header.yield_tick.store(1, Relaxed);
}

/// The thread that ends slices at random moments.
pub(crate) struct Slicer(Worker);

impl Slicer {
    pub fn start(recorder: &Arc<Recorder>, seed: u64) -> Self {
        let recorder = Arc::clone(recorder);
        Self(Worker::start(|| {}, move |stop| run(&recorder, stop, Random::new(!seed))))
    }

    pub fn stop(self) {
        let _ = self.0.end();
    }
}

fn run(recorder: &Recorder, stop: &Stop, mut random: Random) {
    while !stop.is_told() {
        std::thread::sleep(slice(&mut random));
        for (_, slot, _) in slices::holders_others_wait_for(recorder) {
            forcing::stop(recorder, slot);
        }
    }
}

fn slice(random: &mut Random) -> Duration {
    let scaled = SHORTEST_SLICE * (1 << random.below(SLICE_SCALES));
    scaled + scaled * (random.below(100) as u32) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_mixture() {
        assert_eq!(Mixture::of_seed(7), Mixture::of_seed(7));
    }

    #[test]
    fn seeds_differ_in_their_mixtures() {
        let mixtures: Vec<Mixture> = (1..=64).map(Mixture::of_seed).collect();
        assert!(mixtures.iter().any(|mixture| mixture.step_one_in == 0));
        assert!(mixtures.iter().any(|mixture| mixture.step_one_in > 0 && mixture.delay_one_in > 0));
        assert!(
            mixtures.iter().all(|mixture| mixture.delay_most_us < 1_000_000),
            "nanoseconds of a delay are below a second"
        );
    }

    #[test]
    fn slices_are_of_many_lengths() {
        let mut random = Random::new(3);
        let slices: Vec<Duration> = (0..1000).map(|_| slice(&mut random)).collect();
        assert!(
            slices.iter().all(|slice| (SHORTEST_SLICE..Duration::from_millis(25)).contains(slice))
        );
        assert!(
            slices.iter().any(|slice| *slice < Duration::from_micros(100))
                && slices.iter().any(|slice| *slice > Duration::from_millis(5))
        );
    }
}
