//! What is known about a stretch of the program's way. Going backwards uses it to skip stretches.

use crate::catches::Signals;
use crate::executed::Executed;
use crate::inferior::Inferior;
use retake_snapshot::Ranges;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Agent expressions, one of which must hold. If there are none, there is no condition.
type Conditions = Vec<Vec<u8>>;

/// What is known about a stretch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Past {
    /// The memory that it wrote to; `None` if that is unknown.
    pub writes: Option<Ranges>,
    /// The signals that it got, as far as it was run forwards.
    pub signals: Signals,
    /// Breakpoints that it did not reach.
    #[serde(skip)]
    pub unhit: Unhit,
    /// The instructions that it executed.
    pub executed: Executed,
    /// Its CPU time, as far as that is known.
    pub ran: Duration,
}

impl Past {
    /// For a stretch without an instruction.
    pub fn nothing() -> Self {
        let unhit = Unhit { is_all: true, ..Unhit::default() };
        Self {
            writes: Some(Ranges::default()),
            unhit,
            executed: Executed::nothing(),
            ..Self::default()
        }
    }

    /// Joins two consecutive stretches.
    pub fn and(&self, other: &Self) -> Self {
        let writes =
            self.writes.clone().zip(other.writes.as_ref()).map(|(one, other)| one.and(other));
        Self {
            writes,
            signals: self.signals.and(other.signals),
            unhit: self.unhit.and(&other.unhit),
            executed: self.executed.and(&other.executed),
            ran: self.ran + other.ran,
        }
    }
}

/// Breakpoints that were set all the time and did not stop the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unhit {
    /// Whether the stretch executed nothing, so that no breakpoint could stop it.
    is_all: bool,
    known: BTreeMap<u64, Conditions>,
}

impl Unhit {
    /// Takes the breakpoints of a run that ended where the process is.
    pub fn of_run(inferior: &Inferior) -> Self {
        let mut this = Self::default();
        this.add(inferior);
        // The breakpoint here may have ended the run, or not.
        let here = inferior.program_counter().unwrap_or(0);
        this.known.remove(&here);
        this
    }

    /// Adds the breakpoints that are set, none of which stopped a run.
    pub fn add(&mut self, inferior: &Inferior) {
        let conditions =
            |address: &u64| inferior.stops.conditions.get(address).cloned().unwrap_or_default();
        for address in &inferior.stops.breakpoints {
            if !self.has(*address, &conditions(address)) {
                self.known.insert(*address, conditions(address));
            }
        }
    }

    /// Whether a breakpoint certainly did not stop the program.
    pub fn has(&self, address: u64, conditions: &[Vec<u8>]) -> bool {
        self.is_all
            || self.known.get(&address).is_some_and(|known| known.is_empty() || known == conditions)
    }

    /// Adds what `other` knows about the same stretch.
    pub fn or(&mut self, other: &Self) {
        self.is_all |= other.is_all;
        for (address, conditions) in &other.known {
            if !self.has(*address, conditions) {
                self.known.insert(*address, conditions.clone());
            }
        }
    }

    fn and(&self, other: &Self) -> Self {
        match (self.is_all, other.is_all) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => {
                let both = self
                    .known
                    .iter()
                    .filter(|(address, conditions)| other.has(**address, conditions));
                Self {
                    is_all: false,
                    known: both
                        .map(|(address, conditions)| (*address, conditions.clone()))
                        .collect(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhit(known: &[(u64, &[u8])]) -> Unhit {
        let one = |(address, condition): &(u64, &[u8])| {
            (*address, if condition.is_empty() { vec![] } else { vec![condition.to_vec()] })
        };
        Unhit { is_all: false, known: known.iter().map(one).collect() }
    }

    #[test]
    fn what_two_stretches_did_not_hit() {
        let one = unhit(&[(1, b""), (2, b"x"), (3, b"x")]);
        let other = unhit(&[(1, b"x"), (2, b""), (4, b"")]);
        // If only a condition did not hold, the breakpoint is known not to stop the program with
        // that condition only.
        assert_eq!(one.and(&other), unhit(&[(2, b"x")]));
        assert_eq!(other.and(&one), unhit(&[(1, b"x")]));
        assert_eq!(Past::nothing().unhit.and(&one), one);
        assert_eq!(Unhit::default().and(&one), Unhit::default());
        assert!(
            one.has(1, &[b"y".to_vec()])
                && one.has(2, &[b"x".to_vec()])
                && !one.has(2, &[])
                && !one.has(4, &[])
        );
        assert!(Past::nothing().unhit.has(9, &[]));
    }
}
