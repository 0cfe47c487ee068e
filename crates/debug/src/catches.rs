//! The system calls, new children and signals at which a user wants to stop.

use retake_kernel::context::{self, CAUGHT_WORDS};
use retake_kernel::ptrace;
use retake_snapshot::{Process, in_runtime};
use serde::{Deserialize, Serialize};
use std::io;

/// More events than a thread consumes between the announcements of a call and of its return.
const EVENTS_OF_CALL: u64 = 4;
const BITS: u64 = u64::BITS as u64;

/// What was caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    /// The program is about to make this system call.
    Call(u64),
    /// This call returns.
    Return(u64),
    /// The program has made this process.
    Fork(u32),
    /// The program has made this process with vfork, and waited until it executed a program or
    /// ended.
    Vfork(u32),
}

/// The events to catch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catches {
    /// A bit for each system call.
    calls: [u64; CAUGHT_WORDS],
    /// Whether to catch new children, with memory of their own or made by vfork.
    pub forks: bool,
}

impl Catches {
    /// Catches these system calls from now on; `None` stands for all.
    pub fn set_calls(&mut self, numbers: Option<&mut dyn Iterator<Item = u64>>) {
        self.calls = [if numbers.is_none() { u64::MAX } else { 0 }; CAUGHT_WORDS];
        for number in numbers.into_iter().flatten() {
            if let Some(word) = self.calls.get_mut((number / BITS) as usize) {
                *word |= 1 << (number % BITS);
            }
        }
    }

    /// Catches no system calls any more.
    pub fn clear_calls(&mut self) {
        self.calls = [0; CAUGHT_WORDS];
    }

    pub fn is_empty(&self) -> bool {
        !self.forks && self.calls == [0; CAUGHT_WORDS]
    }

    /// Whether to stop for this.
    pub fn wants(&self, caught: Caught) -> bool {
        match caught {
            Caught::Call(number) | Caught::Return(number) => self
                .calls
                .get((number / BITS) as usize)
                .is_some_and(|word| word >> (number % BITS) & 1 != 0),
            Caught::Fork(_) | Caught::Vfork(_) => self.forks,
        }
    }

    /// Returns the same catches and these system calls.
    #[must_use]
    pub fn and_calls(mut self, numbers: &[u16]) -> Self {
        for number in numbers.iter().copied().map(u64::from) {
            if let Some(word) = self.calls.get_mut((number / BITS) as usize) {
                *word |= 1 << (number % BITS);
            }
        }
        self
    }

    /// Tells a stopped thread which calls to announce: the caught ones, and all calls once it has
    /// consumed `told_from` events.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn arm(&self, process: &Process, tid: i32, told_from: Option<u64>) -> io::Result<()> {
        let base = ptrace::registers(tid)?.gs_base;
        if !in_runtime(base) {
            return Ok(());
        }
        let told_from = told_from.map_or(0, |events| events.saturating_add(1));
        let calls: Vec<u8> = self.calls.iter().flat_map(|word| word.to_le_bytes()).collect();
        process.memory.write(base + context::CAUGHT, &calls)?;
        process.memory.write(base + context::TOLD_FROM, &told_from.to_le_bytes())
    }
}

/// The caught event that the runtime's announcement stands for, if it stands for one.
pub(crate) fn announced(kind: u64, value: u64) -> Option<Caught> {
    Some(match kind {
        context::DEBUG_CALL => Caught::Call(value),
        context::DEBUG_RETURN => Caught::Return(value),
        context::DEBUG_FORK => Caught::Fork(value as u32),
        context::DEBUG_VFORK => Caught::Vfork(value as u32),
        _ => return None,
    })
}

/// An announcement at which a thread stops even if the user does not want it, because it is a place
/// that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// The program's ID of the thread.
    pub thread: u32,
    /// The number of events that the thread has consumed there.
    pub events: u64,
    /// The runtime's value for the kind of announcement.
    pub kind: u64,
}

impl Told {
    /// Whether a thread's announcement may be this one.
    pub fn is_at(&self, process: &Process, tid: i32, kind: u64) -> bool {
        let context = process.context(tid).unwrap_or_default();
        self.kind == kind && self.thread == context.tid && self.events == context.event_count
    }

    /// The number of events from which on the thread must announce all calls.
    pub fn from(self) -> u64 {
        self.events.saturating_sub(EVENTS_OF_CALL)
    }
}

/// Signals, a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signals(u64);

impl Signals {
    pub const ALL: Self = Self(u64::MAX);

    pub fn of(numbers: impl Iterator<Item = i32>) -> Self {
        numbers.fold(Self::default(), Self::with)
    }

    pub fn with(self, number: i32) -> Self {
        Self(self.0 | 1u64.checked_shl((number - 1) as u32).unwrap_or(0))
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn has(self, number: i32) -> bool {
        self != Self::default() && self.with(number) == self
    }

    /// Whether all of these signals are in `others`.
    pub fn are_in(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_wanted_by_number() {
        let mut catches = Catches::default();
        assert!(catches.is_empty() && !catches.wants(Caught::Call(1)));
        catches.set_calls(Some(&mut [1u64, 231, 5000].into_iter()));
        assert!(catches.wants(Caught::Call(1)) && catches.wants(Caught::Return(231)));
        assert!(
            !catches.wants(Caught::Call(2))
                && !catches.wants(Caught::Call(5000))
                && !catches.wants(Caught::Fork(7))
        );
        catches.set_calls(None);
        assert!(catches.wants(Caught::Return(2)));
        catches.clear_calls();
        catches.forks = true;
        assert!(
            !catches.wants(Caught::Call(1))
                && catches.wants(Caught::Vfork(7))
                && !catches.is_empty()
        );
    }

    #[test]
    fn signals_are_sets() {
        let two = Signals::of([1, 64].into_iter());
        assert!(two.has(1) && two.has(64) && !two.has(2));
        assert!(
            two.are_in(two.with(9)) && !two.with(9).are_in(two) && Signals::default().are_in(two)
        );
    }
}
