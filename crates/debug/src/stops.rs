//! What stops the process for its user: to be taken away for a while, or added to.

use crate::catches::Catches;
use crate::text::Text;
use crate::watchpoints::Watchpoints;
use std::collections::{BTreeMap, BTreeSet};

/// Breakpoints, watchpoints and catchpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stops {
    pub breakpoints: BTreeSet<u64>,
    /// Agent expressions, of which one must hold at a breakpoint.
    pub conditions: BTreeMap<u64, Vec<Vec<u8>>>,
    pub watchpoints: Watchpoints,
    pub catches: Catches,
}

impl Stops {
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

    /// The conditions of a breakpoint; none: it stops each time.
    pub fn conditions_at(&self, address: u64) -> &[Vec<u8>] {
        self.conditions.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The breakpoints for which the processor itself watches, because a trap would be written
    /// over: as many as it has room for.
    pub fn watched_code(&self, text: &Text) -> Vec<u64> {
        let addresses = self.breakpoints.iter().copied();
        addresses
            .filter(|address| text.is_writable_code(*address))
            .take(self.watchpoints.left())
            .collect()
    }

    /// Whether it depends on what the program maps where it stops.
    pub fn heed_mappings(&self, text: &Text) -> bool {
        self.watchpoints.iter().next().is_some()
            || self.breakpoints.iter().any(|address| !text.is_lasting_code(*address))
    }

    /// Where the process stops for the breakpoints.
    pub fn places(&self, text: &Text) -> Vec<u64> {
        self.breakpoints.iter().flat_map(|&address| text.places(address)).collect()
    }
}
