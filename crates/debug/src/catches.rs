//! System calls, children being made, and signals: which of them a user wants to be told of.

use retake_kernel::context::{self, CAUGHT_WORDS};
use retake_kernel::ptrace;
use retake_snapshot::{Process, in_runtime};
use serde::{Deserialize, Serialize};
use std::io;

/// From where a call is announced to where its return is, a thread consumes fewer events.
const EVENTS_OF_CALL: u64 = 4;
const BITS: u64 = u64::BITS as u64;

/// What was caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    /// The program is about to make this system call.
    Call(u64),
    /// That one returns.
    Return(u64),
    /// The program has made this process,
    Fork(u32),
    /// and waited until it executed a program or ended.
    Vfork(u32),
}

/// What is to be caught.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catches {
    /// A bit for each system call.
    calls: [u64; CAUGHT_WORDS],
    /// Children that have memory of their own, and those of vfork.
    pub forks: bool,
}

impl Catches {
    /// These system calls from now on; `None`: all of them.
    pub fn set_calls(&mut self, numbers: Option<&mut dyn Iterator<Item = u64>>) {
        self.calls = [if numbers.is_none() { u64::MAX } else { 0 }; CAUGHT_WORDS];
        for number in numbers.into_iter().flatten() {
            if let Some(word) = self.calls.get_mut((number / BITS) as usize) {
                *word |= 1 << (number % BITS);
            }
        }
    }

    /// No system calls any more.
    pub fn clear_calls(&mut self) {
        self.calls = [0; CAUGHT_WORDS];
    }

    pub fn is_empty(&self) -> bool {
        !self.forks && self.calls == [0; CAUGHT_WORDS]
    }

    /// Whether this is to be told.
    pub fn wants(&self, caught: Caught) -> bool {
        match caught {
            Caught::Call(number) | Caught::Return(number) => self
                .calls
                .get((number / BITS) as usize)
                .is_some_and(|word| word >> (number % BITS) & 1 != 0),
            Caught::Fork(_) | Caught::Vfork(_) => self.forks,
        }
    }

    /// The same, and these system calls.
    #[must_use]
    pub fn and_calls(mut self, numbers: &[u16]) -> Self {
        for number in numbers.iter().copied().map(u64::from) {
            if let Some(word) = self.calls.get_mut((number / BITS) as usize) {
                *word |= 1 << (number % BITS);
            }
        }
        self
    }

    /// Tells a stopped thread which calls it is to announce: these, and all once it has consumed so
    /// many events.
    ///
    /// # Errors
    /// It is gone.
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

/// What an announcement of the runtime's says was caught, if it is of that kind.
pub(crate) fn announced(kind: u64, value: u64) -> Option<Caught> {
    Some(match kind {
        context::DEBUG_CALL => Caught::Call(value),
        context::DEBUG_RETURN => Caught::Return(value),
        context::DEBUG_FORK => Caught::Fork(value as u32),
        context::DEBUG_VFORK => Caught::Vfork(value as u32),
        _ => return None,
    })
}

/// An announcement at which a thread stops whether anybody wants it or not, because it is a place
/// that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// By the program's number.
    pub thread: u32,
    /// That it has consumed there.
    pub events: u64,
    /// As the runtime has them.
    pub kind: u64,
}

impl Told {
    /// Whether what a thread announces may be it.
    pub fn is_at(&self, process: &Process, tid: i32, kind: u64) -> bool {
        let context = process.context(tid).unwrap_or_default();
        self.kind == kind && self.thread == context.tid && self.events == context.event_count
    }

    /// From so many events on the thread must announce all calls.
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

    /// Whether all of them are among others.
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
