//! How much time the measurements may take.

use std::time::{Duration, Instant};

/// Fewer rounds than this say nothing about spread. Only a workload that is far over its share makes do with two.
const WANTED_ROUNDS: usize = 3;
const FEWEST_ROUNDS: usize = 2;

/// The least that a workload gets, however late it is.
const LEAST_SHARE: Duration = Duration::from_secs(3);

/// How many rounds of a workload, and how long they may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The most.
    pub rounds: usize,
    pub strace_rounds: usize,
    /// What the rounds of one workload may take together; without it all rounds are made.
    pub share: Option<Duration>,
    /// strace is stopped then: that it is so much slower is known.
    pub strace_limit: Duration,
    /// How long a server is driven in each run.
    pub load_seconds: u64,
}

impl Pace {
    /// For servers: each of their runs lasts as long as the load, so half of the rounds must do.
    pub fn for_server(self) -> Self {
        Self { rounds: self.rounds.div_ceil(2), ..self }
    }

    /// Whether there shall be another round after `done` rounds in `spent`.
    pub fn goes_on(&self, done: usize, spent: Duration) -> bool {
        let Some(share) = self.share else {
            return done < self.rounds;
        };
        let is_far_over = spent >= share * 2;
        let fewest = if is_far_over { FEWEST_ROUNDS } else { WANTED_ROUNDS };
        done < self.rounds.min(fewest) || (done < self.rounds && spent < share)
    }
}

/// Divides a limited time between workloads: what one leaves goes to those that follow.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    whole: Option<Duration>,
}

impl Clock {
    /// Starts now. Without a limit everything is measured in full.
    pub fn start(whole: Option<Duration>) -> Self {
        Self { start: Instant::now(), whole }
    }

    /// The share of the next of `left` workloads, of what time is left.
    pub fn share(&self, left: usize) -> Option<Duration> {
        let left = u32::try_from(left.max(1)).unwrap_or(u32::MAX);
        let remaining = self.whole?.saturating_sub(self.start.elapsed());
        Some((remaining / left).max(LEAST_SHARE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(share: Option<u64>) -> Pace {
        Pace { rounds: 5, strace_rounds: 1, share: share.map(Duration::from_secs), strace_limit: Duration::MAX, load_seconds: 1 }
    }

    #[test]
    fn time_ends_the_rounds_but_not_before_there_are_some() {
        let seconds = Duration::from_secs;
        assert!(pace(None).goes_on(4, seconds(1000)) && !pace(None).goes_on(5, seconds(0)));
        assert!(pace(Some(10)).goes_on(4, seconds(9)) && !pace(Some(10)).goes_on(5, seconds(9)));
        assert!(pace(Some(10)).goes_on(2, seconds(12)), "a spread needs three");
        assert!(!pace(Some(10)).goes_on(3, seconds(12)));
        assert!(pace(Some(10)).goes_on(1, seconds(30)) && !pace(Some(10)).goes_on(2, seconds(30)));
    }

    #[test]
    fn servers_have_half_of_the_rounds() {
        assert_eq!((pace(None).for_server().rounds, pace(None).for_server().for_server().for_server().rounds), (3, 1));
    }

    #[test]
    fn shares_divide_what_is_left() {
        let clock = Clock::start(Some(Duration::from_secs(100)));
        assert!(clock.share(10).unwrap() > Duration::from_secs(9));
        assert_eq!(clock.share(1000), Some(LEAST_SHARE));
        assert_eq!(Clock::start(None).share(3), None);
    }
}
