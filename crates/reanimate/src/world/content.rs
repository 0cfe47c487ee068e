//! Uses of the bytes of a file, by range. Threads that work on different parts of a file need not
//! wait for each other.

use std::collections::HashMap;
use std::ops::Range;

use crate::access::{Access, AccessLog, Ticket, Tickets};

/// The granularity of conflicts. A call on more than [`MAXIMUM_CHUNKS`] chunks uses the whole file.
const CHUNK_BYTES: u64 = 256 << 10;
const MAXIMUM_CHUNKS: u64 = 16;

/// The uses of one file's bytes.
#[derive(Debug, Default)]
pub struct Content {
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    whole: AccessLog,
    chunks: HashMap<u64, AccessLog>,
}

impl Content {
    /// Logs a read. A read at the end of the file depends on the size, and is a shared use of the
    /// whole like any other read.
    pub fn read(&mut self, range: Range<u64>, ticket: Ticket, dependencies: &mut Tickets) {
        self.partly(range, Access::Share, ticket, dependencies);
    }

    /// Logs a write. If it may have made the file longer, it conflicts with uses of the size.
    pub fn write(&mut self, range: Range<u64>, ticket: Ticket, dependencies: &mut Tickets) {
        let end = range.end;
        if self.size.is_some_and(|size| end <= size) {
            self.partly(range, Access::Exclusive, ticket, dependencies);
        } else {
            self.whole(ticket, dependencies);
            self.size = self.size.map(|size| size.max(end));
        }
    }

    /// Logs a use of the size only.
    pub fn look(&mut self, ticket: Ticket, dependencies: &mut Tickets) {
        self.whole.join(Access::Share, ticket, dependencies);
    }

    /// Logs a change of the size, or of an unknown part.
    pub fn whole(&mut self, ticket: Ticket, dependencies: &mut Tickets) {
        self.whole.join(Access::Exclusive, ticket, dependencies);
        // Every use of a chunk is also a shared use of the whole, so that the call waits for all of
        // them.
        self.chunks.clear();
    }

    fn partly(
        &mut self,
        range: Range<u64>,
        access: Access,
        ticket: Ticket,
        dependencies: &mut Tickets,
    ) {
        let first = range.start / CHUNK_BYTES;
        let last = range.end.saturating_sub(1).max(range.start) / CHUNK_BYTES;
        if last - first >= MAXIMUM_CHUNKS {
            return self.whole(ticket, dependencies);
        }
        self.whole.join(Access::Share, ticket, dependencies);
        for chunk in first..=last {
            self.chunks.entry(chunk).or_default().join(access, ticket, dependencies);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn waits(uses: impl FnOnce(&mut Tickets)) -> Vec<(u32, u64)> {
        let mut dependencies = Tickets::new();
        uses(&mut dependencies);
        dependencies.iter().map(|ticket| (ticket.worker, ticket.sequence)).collect()
    }

    fn ticket(worker: u32, sequence: u64) -> Ticket {
        Ticket { worker, sequence }
    }

    #[test]
    fn different_parts_are_independent_and_the_same_part_is_not() {
        let mut content = Content { size: Some(4096 * KIB), ..Default::default() };
        assert!(waits(|all| content.write(0..4 * KIB, ticket(0, 1), all)).is_empty());
        assert!(waits(|all| content.write(1024 * KIB..1028 * KIB, ticket(1, 1), all)).is_empty());
        assert_eq!(waits(|all| content.read(0..4 * KIB, ticket(2, 1), all)), [(0, 1)]);
        assert_eq!(waits(|all| content.write(2 * KIB..3 * KIB, ticket(1, 2), all)), [(2, 1)]);
        assert!(waits(|all| content.look(ticket(3, 1), all)).is_empty());
    }

    #[test]
    fn growth_is_seen_by_all() {
        let mut content = Content { size: Some(0), ..Default::default() };
        assert!(waits(|all| content.write(0..KIB, ticket(0, 1), all)).is_empty());
        assert_eq!(waits(|all| content.look(ticket(1, 1), all)), [(0, 1)]);
        assert_eq!(waits(|all| content.write(KIB..2 * KIB, ticket(0, 2), all)), [(1, 1)]);
        assert_eq!(content.size, Some(2 * KIB));
        assert_eq!(waits(|all| content.read(KIB..2 * KIB, ticket(1, 2), all)), [(0, 2)]);
    }

    #[test]
    fn ranges_without_end_use_the_whole() {
        let mut content = Content { size: Some(u64::MAX), ..Default::default() };
        content.read(0..u64::MAX, ticket(0, 1), &mut Tickets::new());
        content.read(u64::MAX..u64::MAX, ticket(0, 2), &mut Tickets::new());
        assert!(content.chunks.len() <= 1);
    }
}
