//! The account of a thread that has ended: an event in the supervisor's stream.

use retake_contract::events::{EventKind, event::LAYOUT_BYTES as HEADER_BYTES};

use crate::bytes::read_u64;
use crate::ids::StreamId;

/// When a thread ran, what it did, how long it waited. Times are in nanoseconds since recording
/// began.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ThreadAccount {
    pub started_ns: u64,
    pub ended_ns: u64,
    /// The number of system calls.
    pub calls: u64,
    /// How many of them came through dispatch instead of a patched site.
    pub dispatched: u64,
    pub signals: u64,
    /// How often the thread got the baton from another thread.
    pub turns: u64,
    /// How often the thread was stopped between events.
    pub forced: u64,
    /// How often the thread waited for the baton, and for how long in total.
    pub waits: u64,
    pub wait_ns: u64,
}

impl ThreadAccount {
    /// The size of the event's body.
    pub const BYTES: usize = 9 * 8;

    /// Encodes the account as an event.
    pub fn event(&self, stream: StreamId) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + Self::BYTES);
        bytes.extend(((HEADER_BYTES + Self::BYTES) as u32).to_le_bytes());
        bytes.extend([EventKind::Thread as u8, 0, 0, 0]);
        bytes.extend(u64::from(stream.0).to_le_bytes());
        bytes.extend(self.fields().iter().flat_map(|field| field.to_le_bytes()));
        bytes
    }

    /// Adds the account of another thread. The times then span from the first start to the last
    /// end.
    pub fn add(&mut self, other: &Self) {
        self.started_ns = self.started_ns.min(other.started_ns);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        self.calls = self.calls.saturating_add(other.calls);
        self.dispatched = self.dispatched.saturating_add(other.dispatched);
        self.signals = self.signals.saturating_add(other.signals);
        self.turns = self.turns.saturating_add(other.turns);
        self.forced = self.forced.saturating_add(other.forced);
        self.waits = self.waits.saturating_add(other.waits);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
    }

    fn fields(&self) -> [u64; 9] {
        let Self {
            started_ns,
            ended_ns,
            calls,
            dispatched,
            signals,
            turns,
            forced,
            waits,
            wait_ns,
        } = *self;
        [started_ns, ended_ns, calls, dispatched, signals, turns, forced, waits, wait_ns]
    }

    /// Reads an account. The caller has checked that `body` has [`Self::BYTES`] bytes.
    pub(crate) fn read(body: &[u8]) -> Self {
        let [started_ns, ended_ns, calls, dispatched, signals, turns, forced, waits, wait_ns] =
            std::array::from_fn(|at| read_u64(body, at * 8));
        Self { started_ns, ended_ns, calls, dispatched, signals, turns, forced, waits, wait_ns }
    }
}
