//! The program's filters for its system calls (seccomp). The header holds them for all processes of
//! a session, and each names the filter installed before it. A thread holds the index of its last
//! filter. Another session may have them at other indices.

use retake_kernel::shared::{Filter, Header, MAX_FILTER_STEPS, MAX_FILTERS};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Stands for the index of a filter if the thread is in strict mode, which needs none.
const STRICT: u32 = u32::MAX;
/// The most steps that the kernel allows in a program. The filters of a thread are fewer.
const MOST_STEPS: usize = 4096;

/// A saved filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    /// The number in the list of the filter before it, plus 1; 0 if there is none.
    before: u32,
    steps: Vec<u64>,
}

/// The filters of some threads. Each comes after the one that was installed before it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Filters(Vec<Saved>);

impl Filters {
    /// Returns the filters that these indices lead to, and the number in the list for each index.
    pub fn of(header: &Header, places: &[u32]) -> (Self, Vec<u32>) {
        let mut known = Vec::new();
        for &place in places.iter().filter(|place| **place != STRICT) {
            let mut at = place;
            while let Some(filter) =
                filter_at(header, at).filter(|_| !known.contains(&at) && known.len() < MAX_FILTERS)
            {
                known.push(at);
                at = filter.before.load(Relaxed);
            }
        }
        // Each filter was installed after the one that it names.
        known.sort_unstable();
        let number = |place: u32| {
            known.iter().position(|known| *known == place).map_or(0, |index| index as u32 + 1)
        };
        let save = |place: &u32| {
            let filter = filter_at(header, *place)?;
            let first = filter.first_step.load(Relaxed) as usize;
            let steps = header
                .filter_steps
                .get(first..first.checked_add(filter.step_count.load(Relaxed) as usize)?)?;
            Some(Saved {
                before: number(filter.before.load(Relaxed)),
                steps: steps.iter().map(|step| step.load(Relaxed)).collect(),
            })
        };
        let saved = known.iter().filter_map(save).collect();
        (
            Self(saved),
            places
                .iter()
                .map(|place| if *place == STRICT { STRICT } else { number(*place) })
                .collect(),
        )
    }

    /// Returns what is wrong with the filters, or with the `numbers` that threads have of them, if
    /// anything is.
    pub fn fault(&self, numbers: &[u32]) -> Option<&'static str> {
        let is_sound = |(index, one): (usize, &Saved)| {
            one.before as usize <= index && (1..=MOST_STEPS).contains(&one.steps.len())
        };
        let is_known = |number: &u32| *number == STRICT || *number as usize <= self.0.len();
        let is_right = self.0.iter().enumerate().all(is_sound) && numbers.iter().all(is_known);
        (!is_right).then_some("its filters for system calls make no sense")
    }

    /// Puts the filters into another session's header. Returns the indices there of these
    /// `numbers`; `None` if there is no room.
    pub fn put_into(&self, header: &Header, numbers: &[u32]) -> Option<Vec<u32>> {
        let mut places = vec![0];
        for saved in &self.0 {
            let before = *places.get(saved.before as usize)?;
            places.push(
                find(header, before, &saved.steps).or_else(|| add(header, before, &saved.steps))?,
            );
        }
        numbers
            .iter()
            .map(|number| {
                if *number == STRICT { Some(STRICT) } else { places.get(*number as usize).copied() }
            })
            .collect()
    }
}

/// The filter at an index, counted from 1.
fn filter_at(header: &Header, place: u32) -> Option<&Filter> {
    let filter = header.filters.get((place as usize).checked_sub(1)?)?;
    (filter.ready.load(Acquire) != 0).then_some(filter)
}

/// The index of an equal filter.
fn find(header: &Header, before: u32, steps: &[u64]) -> Option<u32> {
    let count = header.filter_count.load(Acquire).min(MAX_FILTERS as u32);
    (1..=count).find(|place| {
        let Some(filter) = filter_at(header, *place) else { return false };
        let first = filter.first_step.load(Relaxed) as usize;
        let known = header
            .filter_steps
            .get(first..first.saturating_add(filter.step_count.load(Relaxed) as usize));
        let is_same = |known: &[std::sync::atomic::AtomicU64]| {
            known.len() == steps.len()
                && known.iter().zip(steps).all(|(one, other)| one.load(Relaxed) == *other)
        };
        filter.before.load(Relaxed) == before && known.is_some_and(is_same)
    })
}

fn add(header: &Header, before: u32, steps: &[u64]) -> Option<u32> {
    let is_full = header.filter_count.load(Acquire) as usize >= MAX_FILTERS;
    if is_full || header.filter_step_count.load(Acquire) as usize + steps.len() > MAX_FILTER_STEPS {
        return None;
    }
    let first = header.filter_step_count.fetch_add(steps.len() as u32, AcqRel);
    let index = header.filter_count.fetch_add(1, AcqRel);
    let filter = header.filters.get(index as usize)?;
    let room =
        header.filter_steps.get(first as usize..(first as usize).checked_add(steps.len())?)?;
    for (to, from) in room.iter().zip(steps) {
        to.store(*from, Relaxed);
    }
    filter.before.store(before, Relaxed);
    filter.first_step.store(first, Relaxed);
    filter.step_count.store(steps.len() as u32, Relaxed);
    filter.ready.store(1, Release);
    Some(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_kernel::shared::{HeaderSegment, MODE_REPLAY};

    #[test]
    fn filters_find_other_places() {
        let header = HeaderSegment::create(MODE_REPLAY, 0).unwrap();
        let header = header.get();
        let first = add(header, 0, &[1, 2, 3]).unwrap();
        add(header, 0, &[9]).unwrap();
        let last = add(header, first, &[4]).unwrap();
        let (filters, numbers) = Filters::of(header, &[last, 0, STRICT, first]);
        assert_eq!((filters.0.len(), &numbers[..]), (2, &[2, 0, STRICT, 1][..]));
        let other = HeaderSegment::create(MODE_REPLAY, 0).unwrap();
        let other = other.get();
        add(other, 0, &[7; 5]).unwrap();
        let places = filters.put_into(other, &numbers).unwrap();
        assert_eq!(places, [3, 0, STRICT, 2]);
        // The filters are there already.
        assert_eq!(filters.put_into(other, &numbers).unwrap(), places);
        let (again, numbers_again) = Filters::of(other, &places);
        assert_eq!((again.0, numbers_again), (filters.0.clone(), numbers.clone()));
        assert!(filters.fault(&numbers).is_none() && filters.fault(&[3]).is_some());
        for (before, steps) in [(1, vec![1]), (0, vec![]), (0, vec![0; MOST_STEPS + 1])] {
            assert!(Filters(vec![Saved { before, steps }]).fault(&[]).is_some());
        }
    }
}
