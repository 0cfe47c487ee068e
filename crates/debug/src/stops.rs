//! What stops the process for its user: to be taken away for a while, or added to.

use crate::catches::Catches;
use crate::debuggee::Debuggee;
use crate::watchpoints::Watchpoints;
use std::collections::{BTreeMap, BTreeSet};

/// Breakpoints, watchpoints and catchpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stops {
    breakpoints: BTreeSet<u64>,
    conditions: BTreeMap<u64, Vec<Vec<u8>>>,
    watchpoints: Watchpoints,
    catches: Catches,
}

impl Stops {
    /// Those that are set.
    pub fn of(debuggee: &Debuggee) -> Self {
        Self {
            breakpoints: debuggee.breakpoints.clone(),
            conditions: debuggee.conditions.clone(),
            watchpoints: debuggee.watchpoints.clone(),
            catches: debuggee.catches.clone(),
        }
    }

    /// Breakpoints alone.
    pub fn at(addresses: &BTreeSet<u64>) -> Self {
        Self { breakpoints: addresses.clone(), ..Self::default() }
    }

    /// And these breakpoints, which have no conditions.
    pub fn and(mut self, addresses: BTreeSet<u64>) -> Self {
        self.conditions.retain(|address, _| !addresses.contains(address));
        self.breakpoints.extend(addresses);
        self
    }

    /// Makes them those that are set.
    pub fn put(self, debuggee: &mut Debuggee) {
        debuggee.breakpoints = self.breakpoints;
        debuggee.conditions = self.conditions;
        debuggee.watchpoints = self.watchpoints;
        debuggee.catches = self.catches;
    }
}
