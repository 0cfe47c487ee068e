//! What stops the process for its user. It can be removed for a while, or added to.

use crate::catches::Catches;
use crate::text::Text;
use crate::watchpoints::Watchpoints;
use std::collections::{BTreeMap, BTreeSet};

/// Breakpoints, watchpoints and catchpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stops {
    pub breakpoints: BTreeSet<u64>,
    /// Agent expressions for a breakpoint, one of which must hold.
    pub conditions: BTreeMap<u64, Vec<Vec<u8>>>,
    pub watchpoints: Watchpoints,
    pub catches: Catches,
}

impl Stops {
    /// Makes breakpoints alone.
    pub fn at(addresses: &BTreeSet<u64>) -> Self {
        Self { breakpoints: addresses.clone(), ..Self::default() }
    }

    /// Adds these breakpoints, which have no conditions.
    pub fn and(mut self, addresses: BTreeSet<u64>) -> Self {
        self.conditions.retain(|address, _| !addresses.contains(address));
        self.breakpoints.extend(addresses);
        self
    }

    /// The conditions of a breakpoint. If there are none, it stops each time.
    pub fn conditions_at(&self, address: u64) -> &[Vec<u8>] {
        self.conditions.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The breakpoints that the processor watches, as many as it has room for. The program would
    /// overwrite traps there.
    pub fn watched_code(&self, text: &Text) -> Vec<u64> {
        let addresses = self.breakpoints.iter().copied();
        addresses
            .filter(|address| text.is_writable_code(*address))
            .take(self.watchpoints.left())
            .collect()
    }

    /// Whether the stops depend on what the program maps.
    pub fn heed_mappings(&self, text: &Text) -> bool {
        self.watchpoints.iter().next().is_some()
            || self.breakpoints.iter().any(|address| !text.is_lasting_code(*address))
    }

    /// The addresses where the process stops for the breakpoints.
    pub fn places(&self, text: &Text) -> Vec<u64> {
        self.breakpoints.iter().flat_map(|&address| text.places(address)).collect()
    }
}
