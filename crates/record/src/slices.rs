//! How long a thread may keep the baton while others wait for it and it comes to no sync point.
//! Then it is stopped where it is. That is expensive (`docs/FORCED.md`), so slices adapt:
//!
//! * Who computes may go on longer after each stop, up to [`LONGEST`] while all that wait were
//!   stopped in computing themselves, and up to [`LONGEST_FOR_CALLS`] while one waits that came
//!   from a call: it may have an answer to give.
//! * Who only waits for another thread, without a call, is stopped soon.
//! * Once somebody waited long after a call, those that make calls have the baton among themselves
//!   for as long, and threads that were stopped in computing wait: each of them would have to be
//!   stopped again (`baton_has_credit` in `runtime/order/baton.c`).
//! * The stops themselves take a small part of the time of a process that computes.

use crate::forcing;
use crate::shared_state::Recorder;
use retake_kernel::shared::{self, Slot};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// What a thread gets until more is known of it.
const FIRST: Duration = Duration::from_millis(10);
/// What a thread gets that only waits for another.
const SPINNING: Duration = Duration::from_millis(1);
/// Fairness among those that compute is a matter of a second.
const LONGEST: Duration = Duration::from_millis(240);
const LONGEST_FOR_CALLS: Duration = Duration::from_millis(10);
/// A thread that waits with a signal to deliver gets a turn so soon after the last stop, whatever
/// that stop took.
const LONGEST_REST_FOR_SIGNALS: Duration = Duration::from_millis(20);
/// All that wait together get at least one turn in about this time, as long as each slice is at
/// least [`SHORTEST_IN_CROWD`].
const ROUND: Duration = Duration::from_secs(1);
const SHORTEST_IN_CROWD: Duration = Duration::from_millis(20);
/// From one stop in a process to the next it is so many times as long as stopping took, and less
/// where a thread waits that came from a call.
const STOPS_IN_A_SLICE: u32 = 40;
const STOPS_FOR_CALLS: u32 = 16;

/// The threads that hold a baton while others wait for it.
#[derive(Default)]
pub(crate) struct Slices {
    /// With which turn, at how many sync points it kept it, and since when.
    holders: HashMap<usize, ((u64, u32), Instant)>,
    /// When a thread of a process was stopped last, by the process.
    stops: HashMap<u32, Instant>,
    looked: Option<Instant>,
}

impl Slices {
    /// Stops threads that have had their slice. Called every few milliseconds while somebody waits;
    /// returns when the next slice ends, at the earliest.
    pub fn end(&mut self, recorder: &Recorder) -> Duration {
        let now = Instant::now();
        let last_look = self.looked.replace(now).unwrap_or(now);
        let before = std::mem::take(&mut self.holders);
        let mut soonest = LONGEST;
        for (index, slot, waiters) in holders_others_wait_for(recorder) {
            let (turn, slice) = (slot.baton.turn.load(Relaxed), slice_of(slot));
            // One that spun the last time most likely does so since it got the baton.
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
                forcing::stop(slot);
                self.stops.insert(pid, now);
            }
            soonest = soonest.min(left);
        }
        self.stops.retain(|_, at| now - *at < LONGEST);
        soonest.max(SPINNING)
    }
}

/// How long a holder may go on, from when it was first seen with others waiting.
fn allowed(slice: Duration, waiters: Waiters) -> Duration {
    let crowded = (ROUND / waiters.all.max(1)).clamp(SHORTEST_IN_CROWD, LONGEST);
    slice.min(if waiters.from_calls > 0 { LONGEST_FOR_CALLS } else { crowded })
}

/// How long after a stop no thread of the process is stopped. A thread that spins does no work that
/// a stop could interrupt.
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

/// A thread has been stopped: `spins` if it only waits for another one.
pub(crate) fn stopped(slot: &Slot, spins: bool) {
    slot.baton.slice_us.store(next_slice(slice_of(slot), spins).as_micros() as u32, Relaxed);
}

/// How many threads wait for a baton, how many of them are not to wait for long because they came
/// from a call or have a signal to deliver, and how many have one.
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

/// Threads that hold a baton while others wait for it, with the numbers of their slots. Of the
/// baton of all processes that share memory only the number of waiting threads is known.
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

/// Processes that share all memory have one baton.
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
