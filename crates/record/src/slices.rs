//! How long a thread may keep the baton while others wait for it and it reaches no sync point.
//! After that it is stopped wherever it is. Stops are expensive (`docs/FORCED.md`), so slices
//! adapt:
//!
//! * A computing thread gets a longer slice after each stop: up to [`LONGEST`] while all waiting
//!   threads were stopped while computing, and up to [`LONGEST_FOR_CALLS`] while a waiting thread
//!   comes from a call, since it may have an answer to give.
//! * A thread that only waits for another one, without a call, is stopped soon.
//! * If a thread waited long after a call, the threads that make calls keep the baton among
//!   themselves for as long. Threads that were stopped while computing wait: each of them would
//!   have to be stopped again (`baton_has_credit` in `runtime/order/baton.c`).
//! * The stops themselves take only a small part of the time of a computing process.

use crate::forcing;
use crate::shared_state::Recorder;
use retake_kernel::shared::{self, Slot};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// The first slice of a thread.
const FIRST: Duration = Duration::from_millis(10);
/// The slice of a thread that only waits for another one.
const SPINNING: Duration = Duration::from_millis(1);
/// The longest slice. Computing threads need fairness only over about a second.
const LONGEST: Duration = Duration::from_millis(240);
const LONGEST_FOR_CALLS: Duration = Duration::from_millis(10);
/// The longest rest after a stop while a thread waits with a signal to deliver, however long the
/// stop took.
const LONGEST_REST_FOR_SIGNALS: Duration = Duration::from_millis(20);
/// Each waiting thread gets a turn in about this time, as long as slices are at least
/// [`SHORTEST_IN_CROWD`].
const ROUND: Duration = Duration::from_secs(1);
const SHORTEST_IN_CROWD: Duration = Duration::from_millis(20);
/// The time between two stops in a process, in multiples of the cost of a stop. It is shorter while
/// a thread from a call waits.
const STOPS_IN_A_SLICE: u32 = 40;
const STOPS_FOR_CALLS: u32 = 16;

/// The threads that hold a baton while others wait for it.
#[derive(Default)]
pub(crate) struct Slices {
    /// For each slot: its turn, the number of sync points at which it kept the baton, and the time
    /// since when.
    holders: HashMap<usize, ((u64, u32), Instant)>,
    /// When a thread of each process was last stopped.
    stops: HashMap<u32, Instant>,
    looked: Option<Instant>,
}

impl Slices {
    /// Stops threads whose slice is over. Called every few milliseconds while a thread waits.
    /// Returns the earliest time until the next slice ends.
    pub fn end(&mut self, recorder: &Recorder) -> Duration {
        let now = Instant::now();
        let last_look = self.looked.replace(now).unwrap_or(now);
        let before = std::mem::take(&mut self.holders);
        let mut soonest = LONGEST;
        for (index, slot, waiters) in holders_others_wait_for(recorder) {
            let (turn, slice) = (slot.baton.turn.load(Relaxed), slice_of(slot));
            // A thread that spun last time has most likely spun since it got the baton.
            let first_seen = if slice <= SPINNING { last_look.max(now - SPINNING) } else { now };
            let place = (turn, slot.baton.kept.load(Relaxed));
            let since = before
                .get(&index)
                .filter(|(known, _)| *known == place)
                .map_or(first_seen, |(_, since)| *since);
            self.holders.insert(index, (place, since));
            let pid = slot.pid.load(Relaxed);
            let stop_cost = Duration::from_micros(slot.baton.stop_us.load(Relaxed).into());
            let rest = self.stops.get(&pid).map_or(Duration::ZERO, |at| {
                rest_after_stop(slice, stop_cost, waiters).saturating_sub(now - *at)
            });
            let left = allowed(slice, waiters).saturating_sub(now - since).max(rest);
            if left.is_zero() {
                forcing::stop(recorder, slot);
                self.stops.insert(pid, now);
            }
            soonest = soonest.min(left);
        }
        self.stops.retain(|_, at| now - *at < LONGEST);
        soonest.max(SPINNING)
    }
}

/// How long a holder may go on, from the moment when it was first seen with others waiting.
fn allowed(slice: Duration, waiters: Waiters) -> Duration {
    let crowded = (ROUND / waiters.all.max(1)).clamp(SHORTEST_IN_CROWD, LONGEST);
    slice.min(if waiters.from_calls > 0 { LONGEST_FOR_CALLS } else { crowded })
}

/// How long after a stop no thread of the process is stopped again. A spinning thread needs no
/// rest: a stop does not interrupt useful work.
fn rest_after_stop(slice: Duration, stop_cost: Duration, waiters: Waiters) -> Duration {
    let longest = if waiters.signalled > 0 { LONGEST_REST_FOR_SIGNALS } else { LONGEST };
    let times = if waiters.from_calls > 0 { STOPS_FOR_CALLS } else { STOPS_IN_A_SLICE };
    if slice <= SPINNING { Duration::ZERO } else { (stop_cost * times).min(longest) }
}

fn slice_of(slot: &Slot) -> Duration {
    match slot.baton.slice_us.load(Relaxed) {
        0 => FIRST,
        us => Duration::from_micros(us.into()),
    }
}

fn next_slice(slice: Duration, spins: bool) -> Duration {
    if spins { SPINNING } else { (2 * slice).min(LONGEST) }
}

/// Adapts the slice of a thread that was stopped. `spins`: it only waits for another thread.
pub(crate) fn stopped(slot: &Slot, spins: bool) {
    slot.baton.slice_us.store(next_slice(slice_of(slot), spins).as_micros() as u32, Relaxed);
}

/// How many threads wait for a baton, how many of them come from a call or with a signal and must
/// not wait long, and how many have a signal.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Waiters {
    all: u32,
    from_calls: u32,
    signalled: u32,
}

impl Waiters {
    fn add(&mut self, slot: &Slot) {
        self.all += 1;
        let state = slot.baton.state.load(Relaxed);
        self.from_calls += u32::from(state != shared::BATON_STOPPED);
        self.signalled += u32::from(state == shared::BATON_SIGNALLED);
    }
}

/// Whether the thread of a slot waits for its baton.
pub(crate) fn waits(slot: &Slot) -> bool {
    matches!(
        slot.baton.state.load(Relaxed),
        shared::BATON_WAITING | shared::BATON_STOPPED | shared::BATON_SIGNALLED
    )
}

/// Returns the threads that hold a baton while others wait for it, by slot. For the baton that
/// several processes share, all waiting threads count: which of them wait for it is not known.
pub(crate) fn holders_others_wait_for(recorder: &Recorder) -> Vec<(usize, &Slot, Waiters)> {
    let header = recorder.header();
    let live = || {
        header
            .used_slots()
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.state.load(Relaxed) == shared::SLOT_LIVE)
    };
    let shared_holder = header.shared_domain.lock.load(Acquire);
    let shared_waiters = header.shared_domain.waiters.load(Relaxed);
    let mut of_processes: HashMap<u32, Waiters> = HashMap::new();
    let mut of_all = Waiters::default();
    for (_, slot) in live().filter(|(_, slot)| waits(slot)) {
        of_processes.entry(owner_of_memory(slot)).or_default().add(slot);
        of_all.add(slot);
    }
    live()
        .filter(|(_, slot)| slot.baton.state.load(Relaxed) == shared::BATON_HOLDING)
        .filter_map(|(index, slot)| {
            let is_shared = shared_waiters > 0 && slot.stream.load(Relaxed) + 1 == shared_holder;
            let waiters = if is_shared {
                Some(of_all)
            } else {
                of_processes.get(&owner_of_memory(slot)).copied()
            };
            waiters.map(|waiters| (index, slot, waiters))
        })
        .collect()
}

/// Returns the process that stands for a memory: processes that share all memory have one baton.
fn owner_of_memory(slot: &Slot) -> u32 {
    match slot.memory_of.load(Relaxed) {
        0 => slot.pid.load(Relaxed),
        owner => owner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Duration = Duration::from_micros(300);
    const COMPUTING: Waiters = Waiters { all: 1, from_calls: 0, signalled: 0 };
    const FROM_CALL: Waiters = Waiters { all: 2, from_calls: 1, signalled: 0 };
    const SIGNALLED: Waiters = Waiters { all: 2, from_calls: 1, signalled: 1 };

    #[test]
    fn slices_of_those_that_compute_grow() {
        let slices: Vec<Duration> =
            std::iter::successors(Some(FIRST), |slice| Some(next_slice(*slice, false)))
                .take(8)
                .collect();
        assert!(slices.is_sorted() && slices[7] == LONGEST);
        assert_eq!(allowed(LONGEST, COMPUTING), LONGEST);
        assert_eq!(allowed(LONGEST, FROM_CALL), LONGEST_FOR_CALLS);
        let crowd = Waiters { all: 10, ..COMPUTING };
        assert_eq!(allowed(LONGEST, crowd) * crowd.all, ROUND);
    }

    #[test]
    fn who_spins_is_stopped_soon_whatever_it_costs() {
        let slice = next_slice(LONGEST, true);
        assert_eq!(allowed(slice, COMPUTING), SPINNING);
        assert!(rest_after_stop(slice, 100 * CHEAP, COMPUTING).is_zero());
        assert!(allowed(next_slice(slice, false), COMPUTING) > SPINNING);
    }

    #[test]
    fn stops_take_a_small_part_of_the_time() {
        assert_eq!(rest_after_stop(FIRST, CHEAP, COMPUTING), CHEAP * STOPS_IN_A_SLICE);
        assert!(rest_after_stop(FIRST, CHEAP, FROM_CALL) < CHEAP * STOPS_IN_A_SLICE);
        assert_eq!(rest_after_stop(FIRST, Duration::from_secs(1), COMPUTING), LONGEST);
    }

    #[test]
    fn who_has_a_signal_to_deliver_waits_for_some_tens_of_milliseconds() {
        let rest = rest_after_stop(LONGEST, Duration::from_secs(1), SIGNALLED);
        assert!(rest.max(allowed(LONGEST, SIGNALLED)) <= Duration::from_millis(20));
    }
}
