//! Dependencies between calls: calls that use the same thing keep their order, and all other calls
//! need not wait.
//!
//! Everything that calls can conflict on (a name in a directory, the content of a file, the
//! position of an open file) has an [`AccessLog`]. A call that joins the log learns which earlier
//! calls it has to wait for.

use smallvec::SmallVec;

/// The place of a call: the worker that executes it, and its number among that worker's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Index of the worker.
    pub worker: u32,
    /// Number of the call among the worker's, from 1.
    pub sequence: u64,
}

impl Ticket {
    /// The ticket of a lookup during planning. It is not logged, and no call waits for it.
    pub const NOBODY: Self = Self { worker: 0, sequence: 0 };
}

/// Calls to wait for: the last one of each worker.
pub type Tickets = SmallVec<[Ticket; 2]>;

/// Adds a ticket, keeping only the last of each worker.
pub fn add(tickets: &mut Tickets, ticket: Ticket) {
    match tickets.iter_mut().find(|other| other.worker == ticket.worker) {
        Some(other) => other.sequence = other.sequence.max(ticket.sequence),
        None => tickets.push(ticket),
    }
}

/// How a call uses something. Uses of the same kind may happen in any order, except
/// [`Access::Exclusive`] ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The call only reads.
    Share,
    /// The call changes a part that is ordered separately, such as an entry of a directory.
    Change,
    /// The call changes the whole.
    Exclusive,
}

/// The latest uses of one thing: a group of uses that may overlap, and the group before it, which
/// all of them wait for.
#[derive(Debug, Default)]
pub struct AccessLog {
    access: Option<Access>,
    current: Tickets,
    previous: Tickets,
}

impl AccessLog {
    /// Logs a use, and adds the uses that it has to wait for to `dependencies`.
    pub fn join(&mut self, access: Access, ticket: Ticket, dependencies: &mut Tickets) {
        if ticket == Ticket::NOBODY {
            return;
        }
        if access == Access::Exclusive || self.access != Some(access) {
            self.previous = std::mem::take(&mut self.current);
            self.access = Some(access);
        }
        add(&mut self.current, ticket);
        self.previous.iter().for_each(|earlier| add(dependencies, *earlier));
    }

    /// Moves every logged call into `tickets`, for a log that replaces this one.
    pub fn drain_into(self, tickets: &mut Tickets) {
        self.current.into_iter().chain(self.previous).for_each(|ticket| add(tickets, ticket));
    }

    /// Returns a log whose next uses wait for these calls.
    pub fn after(tickets: &Tickets) -> Self {
        Self { access: None, current: tickets.clone(), previous: Tickets::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(worker: u32, sequence: u64) -> Ticket {
        Ticket { worker, sequence }
    }

    fn joined(log: &mut AccessLog, access: Access, ticket: Ticket) -> Vec<Ticket> {
        let mut dependencies = Tickets::new();
        log.join(access, ticket, &mut dependencies);
        dependencies.to_vec()
    }

    #[test]
    fn readers_wait_for_the_writer_and_the_writer_for_all_readers() {
        let mut log = AccessLog::default();
        assert!(joined(&mut log, Access::Exclusive, ticket(0, 1)).is_empty());
        assert_eq!(joined(&mut log, Access::Share, ticket(1, 1)), [ticket(0, 1)]);
        assert_eq!(joined(&mut log, Access::Share, ticket(2, 1)), [ticket(0, 1)]);
        assert_eq!(joined(&mut log, Access::Exclusive, ticket(0, 2)), [ticket(1, 1), ticket(2, 1)]);
        assert_eq!(joined(&mut log, Access::Exclusive, ticket(1, 2)), [ticket(0, 2)]);
    }

    #[test]
    fn changes_do_not_wait_for_changes_but_looks_do() {
        let mut log = AccessLog::default();
        assert!(joined(&mut log, Access::Change, ticket(0, 1)).is_empty());
        assert!(joined(&mut log, Access::Change, ticket(1, 1)).is_empty());
        assert_eq!(joined(&mut log, Access::Share, ticket(2, 1)), [ticket(0, 1), ticket(1, 1)]);
        assert_eq!(joined(&mut log, Access::Change, ticket(0, 2)), [ticket(2, 1)]);
    }

    #[test]
    fn a_worker_is_waited_for_once() {
        let mut log = AccessLog::default();
        for sequence in 1..100 {
            joined(&mut log, Access::Share, ticket(0, sequence));
        }
        assert_eq!(joined(&mut log, Access::Exclusive, ticket(1, 1)), [ticket(0, 99)]);
    }

    #[test]
    fn a_forgotten_log_is_remembered_by_its_heir() {
        let mut log = AccessLog::default();
        joined(&mut log, Access::Exclusive, ticket(0, 7));
        joined(&mut log, Access::Share, ticket(1, 3));
        let mut tickets = Tickets::new();
        log.drain_into(&mut tickets);
        let mut heir = AccessLog::after(&tickets);
        let dependencies = joined(&mut heir, Access::Share, ticket(2, 1));
        assert_eq!(dependencies, [ticket(1, 3), ticket(0, 7)]);
    }
}
