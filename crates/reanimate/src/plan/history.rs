//! Orders that are stricter than the common uses of files: by time, or of all calls.

use std::collections::VecDeque;

use crate::access::{Ticket, add};
use crate::action::Task;
use crate::options::Order;

/// The number of calls of each worker whose returns are kept. Of older calls only the last is kept.
const MAXIMUM_REMEMBERED: usize = 64;

/// The planned calls, as far as an order needs them.
#[derive(Debug)]
pub struct History {
    order: Order,
    /// The previous call, which the next call waits for if the order is strict.
    last: Option<Ticket>,
    workers: Vec<Returns>,
}

/// The return times of a worker's latest calls, with their numbers.
#[derive(Debug, Default)]
struct Returns {
    latest: VecDeque<(u64, u64)>,
    /// The number of the last call before those.
    earlier: u64,
}

impl History {
    /// Makes an empty history.
    pub fn new(order: Order) -> Self {
        Self { order, last: None, workers: Vec::new() }
    }

    /// Adds the dependencies that the order demands to the next call of a worker, and keeps the
    /// call.
    pub fn add(&mut self, ticket: Ticket, task: &mut Task) {
        match self.order {
            Order::Resource => {}
            Order::Overlap => self.add_overlap(ticket, task),
            Order::Strict => {
                if let Some(last) = self.last {
                    add(&mut task.dependencies, last);
                }
                self.last = Some(ticket);
            }
        }
    }

    fn add_overlap(&mut self, ticket: Ticket, task: &mut Task) {
        for (worker, returns) in self.workers.iter().enumerate() {
            let sequence = returns.before(task.call.entered_ns);
            if sequence > 0 && worker != ticket.worker as usize {
                add(&mut task.dependencies, Ticket { worker: worker as u32, sequence });
            }
        }
        let index = ticket.worker as usize;
        if self.workers.len() <= index {
            self.workers.resize_with(index + 1, Returns::default);
        }
        self.workers[index].push(task.call.returned_ns.max(task.call.entered_ns), ticket.sequence);
    }
}

impl Returns {
    fn push(&mut self, returned_ns: u64, sequence: u64) {
        self.latest.push_back((returned_ns, sequence));
        if self.latest.len() > MAXIMUM_REMEMBERED
            && let Some((_, sequence)) = self.latest.pop_front()
        {
            self.earlier = sequence;
        }
    }

    /// The number of the last call that had returned by this time, or 0.
    fn before(&self, time_ns: u64) -> u64 {
        let found = self.latest.iter().rev().find(|(returned_ns, _)| *returned_ns <= time_ns);
        found.map_or(self.earlier, |(_, sequence)| *sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Tickets;
    use crate::action::Action;
    use retake_trace_format::TracedCall;

    fn task(entered_ns: u64, returned_ns: u64) -> Task {
        let call = TracedCall { entered_ns, returned_ns, ..TracedCall::default() };
        Task { call, action: Action::Order, dependencies: Tickets::new(), identity: None }
    }

    fn ticket(worker: u32, sequence: u64) -> Ticket {
        Ticket { worker, sequence }
    }

    #[test]
    fn only_calls_that_did_not_overlap_are_waited_for() {
        let mut history = History::new(Order::Overlap);
        history.add(ticket(0, 1), &mut task(10, 20));
        let mut overlapping = task(15, 30);
        history.add(ticket(1, 1), &mut overlapping);
        assert!(overlapping.dependencies.is_empty());
        let mut later = task(25, 40);
        history.add(ticket(2, 1), &mut later);
        assert_eq!(later.dependencies.as_slice(), [ticket(0, 1)]);
    }

    #[test]
    fn little_is_remembered() {
        let mut history = History::new(Order::Overlap);
        (0..1000).for_each(|index| {
            history.add(ticket(0, index + 1), &mut task(index * 10, index * 10 + 5))
        });
        assert!(history.workers[0].latest.len() <= MAXIMUM_REMEMBERED);
        let mut early = task(20, 30);
        history.add(ticket(1, 1), &mut early);
        assert_eq!(early.dependencies[0].worker, 0);
    }

    #[test]
    fn strict_order_is_one_at_a_time() {
        let mut history = History::new(Order::Strict);
        history.add(ticket(0, 1), &mut task(10, 20));
        let mut next = task(12, 14);
        history.add(ticket(1, 1), &mut next);
        assert_eq!(next.dependencies.as_slice(), [ticket(0, 1)]);
    }
}
