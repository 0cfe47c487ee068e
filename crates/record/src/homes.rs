//! The runtime binds threads to a core while they take turns often (`runtime/order/home.c`). Two
//! tasks are left to the supervisor.
//!
//! A thread that takes no more turns would stay bound to that core, next to other bound threads,
//! until its next turn. The supervisor unbinds it.
//!
//! And the kernel cannot move a bound thread. When a client wakes on the core of the server that
//! answers it, the kernel takes tens of milliseconds to move it away again, even if another core is
//! idle. So the supervisor moves bound threads when another process computes on their core.

use crate::idle::{IdleTimes, MOST_CORES};
use crate::shared_state::Recorder;
use retake_kernel::call_tracer::{Processors, current_processor};
use retake_kernel::{process, shared};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// A thread without a turn for this time, or at most twice this time, is unbound.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often the supervisor checks what else runs on the core of bound threads.
pub(crate) const PERIOD: Duration = Duration::from_millis(4);
const SHORTEST_PERIOD: Duration = Duration::from_millis(3);
/// The most processes to watch: reading the clock of one costs as much as a short system call.
const MOST_PROCESSES: usize = 64;
/// After a move, the scheduler needs time to place the other threads.
const REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_millis(640);

pub(crate) struct Homes {
    freed: Instant,
    /// The last turn of each thread bound at that time, by slot.
    turns: HashMap<usize, u64>,
    idle: IdleTimes,
    seen: Option<Seen>,
    moved: Instant,
    rest: Duration,
}

/// The counters at one time.
struct Seen {
    at: Instant,
    idle: Vec<(u32, Duration)>,
    bound: BTreeMap<Bound, Busy>,
}

/// Threads that take turns with each other, and the core to which they are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    core: u32,
    domain: u32,
}

/// The processes of these threads, and how long they have computed on any core.
#[derive(Debug, Default, Clone)]
struct Busy {
    processes: BTreeSet<u32>,
    computed: Duration,
}

impl Homes {
    pub fn new(recorder: &Recorder) -> Self {
        let now = Instant::now();
        recorder
            .header()
            .homes_watched
            .store(IdleTimes::exist_for(current_processor()).into(), Relaxed);
        Self {
            freed: now,
            turns: HashMap::new(),
            idle: IdleTimes::default(),
            seen: None,
            moved: now,
            rest: REST,
        }
    }

    /// Whether threads are bound, so that [`Homes::look`] should be called again after [`PERIOD`].
    pub fn are_watched(&self) -> bool {
        self.seen.is_some()
    }

    /// Unbinds idle threads and moves crowded ones. May be called at any rate.
    pub fn look(&mut self, recorder: &Recorder) {
        if self.freed.elapsed() >= PATIENCE {
            self.free(recorder);
        }
        if self.seen.as_ref().is_some_and(|seen| seen.at.elapsed() < SHORTEST_PERIOD) {
            return;
        }
        let header = recorder.header();
        if header.homes_watched.load(Relaxed) == 0 {
            self.seen = None;
            return;
        }
        header.crowded_home.store(0, Relaxed);
        let before = self.seen.take();
        self.seen = self.see(recorder);
        let Some(now) = &self.seen else { return };
        let roomier = before
            .and_then(|before| roomier(&before, now))
            .filter(|_| self.moved.elapsed() >= self.rest);
        if let Some((bound, core)) = roomier {
            self.rest = if self.moved.elapsed() < 4 * self.rest {
                LONGEST_REST.min(2 * self.rest)
            } else {
                REST
            };
            self.moved = Instant::now();
            header.crowded_domain.store(bound.domain, Relaxed);
            header.roomy_home.store(core + 1, Relaxed);
            header.crowded_home.store(bound.core + 1, Release);
        }
    }

    /// Reads the counters. Returns `None` if no threads are bound, or too many.
    fn see(&mut self, recorder: &Recorder) -> Option<Seen> {
        let mut all: BTreeMap<Bound, Busy> = BTreeMap::new();
        for (_, slot, home) in bound(recorder) {
            let bound = Bound { core: home - 1, domain: slot.baton.domain.load(Relaxed) };
            all.entry(bound).or_default().processes.insert(slot.pid.load(Relaxed));
        }
        let processes: usize = all.values().map(|busy| busy.processes.len()).sum();
        if !(1..=MOST_PROCESSES).contains(&processes) {
            return None;
        }
        let cores: BTreeSet<u32> = all.keys().map(|bound| bound.core).collect();
        let cores = cores.into_iter().take(MOST_CORES).collect();
        if !self.idle.include(&cores) {
            self.idle = IdleTimes::around(&cores);
        }
        for busy in all.values_mut() {
            busy.computed = busy.processes.iter().map(|pid| process::computed(*pid as i32)).sum();
        }
        Some(Seen { at: Instant::now(), idle: self.idle.read(), bound: all })
    }

    /// Unbinds the threads that took no turn.
    fn free(&mut self, recorder: &Recorder) {
        self.freed = Instant::now();
        let before = std::mem::take(&mut self.turns);
        for (index, slot, _) in bound(recorder) {
            let turn = slot.baton.turn.load(Relaxed);
            if before.get(&index) == Some(&turn) {
                slot.affinity.home.store(0, Relaxed);
                let cores = slot.affinity.cores.iter().map(|word| word.load(Relaxed));
                // The thread may be gone, or we may no longer have the right to bind it.
                let _ = Processors::from_words(cores).give(slot.tid.load(Relaxed) as i32);
            } else {
                self.turns.insert(index, turn);
            }
        }
    }
}

/// The bound threads, each with its slot number and its core plus 1.
fn bound(recorder: &Recorder) -> impl Iterator<Item = (usize, &shared::Slot, u32)> {
    let slots = recorder.header().slots[..recorder.slot_count()].iter().enumerate();
    slots.filter_map(|(index, slot)| {
        let home = if slot.state.load(Acquire) == shared::SLOT_LIVE {
            slot.affinity.home.load(Relaxed)
        } else {
            0
        };
        (home > 0).then_some((index, slot, home))
    })
}

/// Finds threads that had their core only part of the time because others used it, and a core that
/// was idle most of the time.
fn roomier(before: &Seen, now: &Seen) -> Option<(Bound, u32)> {
    let passed = now.at - before.at;
    let idle = |core: u32| {
        let at =
            |seen: &Seen| seen.idle.iter().find(|(known, _)| *known == core).map(|(_, idle)| *idle);
        Some(at(now)?.saturating_sub(at(before)?))
    };
    let is_crowded = |bound: &Bound, busy: &Busy| {
        let earlier =
            before.bound.get(bound).filter(|earlier| earlier.processes == busy.processes)?;
        let by_others = passed
            .saturating_sub(busy.computed.saturating_sub(earlier.computed))
            .saturating_sub(idle(bound.core)?);
        Some(10 * by_others >= 3 * passed)
    };
    let (bound, _) =
        now.bound.iter().find(|(bound, busy)| is_crowded(bound, busy) == Some(true))?;
    let others = now
        .idle
        .iter()
        .filter(|(core, _)| *core != bound.core)
        .filter_map(|(core, _)| Some((*core, idle(*core)?)));
    others
        .filter(|(_, idle)| 10 * *idle >= 6 * passed)
        .max_by_key(|(_, idle)| *idle)
        .map(|(core, _)| (*bound, core))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(10);
    const FIRST: Bound = Bound { core: 1, domain: 7 };
    const SECOND: Bound = Bound { core: 1, domain: 9 };

    fn start(bound: &[Bound]) -> Seen {
        let idle = (0..3).map(|core| (core, Duration::from_secs(u64::from(core)))).collect();
        let busy = |bound: &Bound| Busy {
            processes: BTreeSet::from([bound.domain]),
            computed: Duration::from_secs(3),
        };
        Seen {
            at: Instant::now(),
            idle,
            bound: bound.iter().map(|bound| (*bound, busy(bound))).collect(),
        }
    }

    /// The counters ten milliseconds later, when each process computed for `computed` milliseconds
    /// and each core was idle for as many as `idle` says.
    fn after(before: &Seen, computed: u64, idle: &[u64]) -> Seen {
        let idle = before
            .idle
            .iter()
            .zip(idle)
            .map(|((core, so_far), more)| (*core, *so_far + Duration::from_millis(*more)));
        let mut bound = before.bound.clone();
        bound.values_mut().for_each(|busy| busy.computed += Duration::from_millis(computed));
        Seen { at: before.at + WINDOW, idle: idle.collect(), bound }
    }

    #[test]
    fn who_has_a_core_with_others_moves_to_one_that_is_idle() {
        let before = start(&[FIRST]);
        assert_eq!(roomier(&before, &after(&before, 5, &[7, 0, 9])), Some((FIRST, 2)));
        assert_eq!(roomier(&before, &after(&before, 5, &[7, 0, 2])), Some((FIRST, 0)));
    }

    #[test]
    fn one_of_two_on_a_core_moves() {
        let before = start(&[FIRST, SECOND]);
        assert_eq!(roomier(&before, &after(&before, 5, &[7, 0, 9])), Some((FIRST, 2)));
        assert_eq!(
            roomier(&before, &after(&before, 2, &[9, 6, 9])),
            None,
            "there is room for both"
        );
    }

    #[test]
    fn who_has_a_core_alone_or_can_go_nowhere_stays() {
        let before = start(&[FIRST]);
        assert_eq!(roomier(&before, &after(&before, 5, &[9, 4, 9])), None, "idle for a part of it");
        assert_eq!(roomier(&before, &after(&before, 9, &[9, 0, 9])), None, "busy all the time");
        assert_eq!(roomier(&before, &after(&before, 12, &[9, 0, 0])), None, "on several cores");
        assert_eq!(
            roomier(&before, &after(&before, 5, &[5, 0, 5])),
            None,
            "the others are used as well"
        );
    }

    #[test]
    fn what_cannot_be_compared_says_nothing() {
        let (before, crowded) = (start(&[FIRST]), [9, 0, 9]);
        assert_eq!(roomier(&start(&[SECOND]), &after(&before, 2, &crowded)), None);
        let mut other = after(&before, 2, &crowded);
        other.bound.values_mut().for_each(|busy| _ = busy.processes.insert(8));
        assert_eq!(roomier(&before, &other), None);
        assert_eq!(
            roomier(&before, &Seen { idle: Vec::new(), ..after(&before, 2, &crowded) }),
            None,
            "the kernel keeps no account"
        );
    }
}
