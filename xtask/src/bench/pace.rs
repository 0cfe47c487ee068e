//! The time that measurements may take.

use std::time::{Duration, Instant};

use super::workload::Workload;

/// Fewer rounds than this say nothing about spread. Only a workload that is far over its share gets
/// two.
const WANTED_ROUNDS: usize = 3;
const FEWEST_ROUNDS: usize = 2;
const FAR_OVER_PERCENT: u32 = 125;

/// The least time of a workload, even if the benchmark is late.
const LEAST_SHARE: Duration = Duration::from_secs(3);

/// The number of rounds of a workload, and their time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The highest number of rounds.
    pub rounds: usize,
    pub strace_rounds: usize,
    /// The time of all rounds of a workload. Without it all rounds are made.
    pub share: Option<Duration>,
    /// The time after which strace is stopped. It is known to be much slower.
    pub strace_limit: Duration,
    /// The seconds that a server is driven in each run.
    pub load_seconds: u64,
    /// Whether a workload that exceeds a limit is run once more under perf.
    pub profile: bool,
}

impl Pace {
    /// Returns the pace for servers. Each of their runs lasts as long as its load, so they get half
    /// of the rounds.
    pub fn for_server(self) -> Self {
        Self { rounds: self.rounds.div_ceil(2), ..self }
    }

    /// Returns whether there is another round after `done` rounds in `spent`.
    pub fn goes_on(&self, done: usize, spent: Duration) -> bool {
        let Some(share) = self.share else {
            return done < self.rounds;
        };
        let is_far_over = spent >= share * FAR_OVER_PERCENT / 100;
        let fewest = if is_far_over { FEWEST_ROUNDS } else { WANTED_ROUNDS };
        done < self.rounds.min(fewest) || (done < self.rounds && spent < share)
    }
}

/// Returns the weight of a workload. Servers take longer: they are started, driven and stopped.
fn weight(workload: &Workload) -> u32 {
    if workload.is_server() { 2 } else { 1 }
}

/// Divides a limited time between workloads. Time that one leaves goes to the next ones.
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

    /// Returns the first workload's share of the time left for all of `left`.
    pub fn share(&self, left: &[Workload]) -> Option<Duration> {
        let all: u32 = left.iter().map(weight).sum();
        let remaining = self.whole?.saturating_sub(self.start.elapsed());
        let share = remaining * left.first().map_or(1, weight) / all.max(1);
        Some(share.max(LEAST_SHARE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(share: Option<u64>) -> Pace {
        Pace {
            rounds: 5,
            strace_rounds: 1,
            share: share.map(Duration::from_secs),
            strace_limit: Duration::MAX,
            load_seconds: 1,
            profile: false,
        }
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
        assert_eq!(
            (
                pace(None).for_server().rounds,
                pace(None).for_server().for_server().for_server().rounds
            ),
            (3, 1)
        );
    }

    #[test]
    fn shares_divide_what_is_left() {
        let program = Workload::default();
        let server = Workload { load: "x".to_owned(), ..Workload::default() };
        let clock = Clock::start(Some(Duration::from_secs(100)));
        let between = |left: &[Workload], low, high| {
            let share = clock.share(left).unwrap();
            assert!(
                Duration::from_secs(low) <= share && share <= Duration::from_secs(high),
                "{share:?}"
            );
        };
        between(&vec![program.clone(); 10], 9, 10);
        between(&[server.clone(), program.clone(), program.clone()], 49, 50);
        between(&vec![program; 1000], 3, 3);
        assert_eq!(Clock::start(None).share(&[server]), None);
    }
}
