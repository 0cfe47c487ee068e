//! Work on many things at once, on all cores.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread::{available_parallelism, scope};

/// More threads hardly help, as memory is the limit.
const MOST_THREADS: usize = 8;

/// Does the work on each item, and returns the results in the order of the items.
pub fn map<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let count = available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(items.len());
    if count <= 1 {
        return items.into_iter().map(work).collect();
    }
    let left = Mutex::new(items.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || -> Vec<(usize, R)> {
        std::iter::from_fn(next).map(|(index, item)| (index, work(item))).collect()
    };
    let mut done: Vec<(usize, R)> = scope(|scope| {
        let others: Vec<_> = (1..count).map(|_| scope.spawn(some)).collect();
        let own = some();
        let joined = others.into_iter().map(|one| one.join().expect("the work does not panic"));
        own.into_iter().chain(joined.flatten()).collect()
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        let doubled = map(items.clone(), |item| 2 * item);
        assert!(items.iter().zip(doubled).all(|(item, result)| result == 2 * item));
        assert!(map(Vec::<u8>::new(), |item| item).is_empty());
    }
}
