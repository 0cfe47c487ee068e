//! The assignment of traced threads to workers.

use crate::access::{Ticket, Tickets};

/// The workers as the planner sees them. Threads that exist at the same time have workers of their
/// own, up to the limit. Beyond it, threads share workers.
#[derive(Debug)]
pub struct Pool {
    maximum: u32,
    workers: Vec<Worker>,
    /// Workers without a thread, the most recently used one last.
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Worker {
    /// The number of calls given to it.
    sequence: u64,
    /// The number of its threads.
    threads: u32,
    /// For every other worker, the last call that this worker has waited for.
    known: Vec<u64>,
}

impl Pool {
    /// Makes a pool of at most `maximum` workers, and at least one.
    pub fn new(maximum: u32) -> Self {
        Self { maximum: maximum.max(1), workers: Vec::new(), free: Vec::new() }
    }

    /// Returns a worker for a new thread, and whether another thread shares it.
    pub fn take(&mut self) -> (u32, bool) {
        let worker = match self.free.pop() {
            Some(worker) => worker,
            None if (self.workers.len() as u32) < self.maximum => {
                self.workers.push(Worker::default());
                self.workers.len() as u32 - 1
            }
            None => {
                let lightest =
                    (0..self.workers.len()).min_by_key(|index| self.workers[*index].threads);
                lightest.expect("there is at least one worker") as u32
            }
        };
        let threads = &mut self.workers[worker as usize].threads;
        *threads += 1;
        (worker, *threads > 1)
    }

    /// Takes a worker back from a thread that ended.
    pub fn give_back(&mut self, worker: u32) {
        let threads = &mut self.workers[worker as usize].threads;
        *threads -= 1;
        if *threads == 0 {
            self.free.push(worker);
        }
    }

    /// The ticket of a worker's next call.
    pub fn next_ticket(&self, worker: u32) -> Ticket {
        Ticket { worker, sequence: self.workers[worker as usize].sequence + 1 }
    }

    /// The ticket of a worker's last call.
    pub fn last_ticket(&self, worker: u32) -> Ticket {
        Ticket { worker, sequence: self.workers[worker as usize].sequence }
    }

    /// Counts a call of the worker. Removes dependencies that an earlier call of the worker has
    /// waited for already.
    pub fn reduce(&mut self, worker: u32, dependencies: &mut Tickets) {
        let worker_count = self.workers.len();
        let own = &mut self.workers[worker as usize];
        own.sequence += 1;
        own.known.resize(worker_count, 0);
        dependencies.retain(|ticket| {
            let known = &mut own.known[ticket.worker as usize];
            let is_needed = ticket.worker != worker && ticket.sequence > *known;
            *known = (*known).max(ticket.sequence);
            is_needed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_workers_only_beyond_the_limit() {
        let mut pool = Pool::new(2);
        assert_eq!(pool.take(), (0, false));
        assert_eq!(pool.take(), (1, false));
        assert_eq!(pool.take(), (0, true));
        pool.give_back(1);
        assert_eq!(pool.take(), (1, false));
    }

    #[test]
    fn nobody_waits_twice_or_for_himself() {
        let mut pool = Pool::new(2);
        assert_eq!([pool.take().0, pool.take().0], [0, 1]);
        pool.reduce(1, &mut Tickets::new());
        let ticket = Ticket { worker: 1, sequence: 1 };
        let mut first = Tickets::from_slice(&[ticket]);
        pool.reduce(0, &mut first);
        assert_eq!(first.as_slice(), [ticket]);
        let mut second = Tickets::from_slice(&[ticket, Ticket { worker: 0, sequence: 1 }]);
        pool.reduce(0, &mut second);
        assert!(second.is_empty());
        assert_eq!(pool.next_ticket(0).sequence, 3);
    }
}
