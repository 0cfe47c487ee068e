//! Which traps and probes are in the text while the process runs.

use super::Debuggee;
use crate::error::Result;
use retake_snapshot::probe::{Plan, Test, Wanted};
use retake_snapshot::{in_runtime, search};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A place that is looked for: where, and what is so there and rarely elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Sought {
    pub address: u64,
    pub tests: Vec<Test>,
    /// The stack pointer there, if flags may be changed where nobody looks at them: who stops
    /// behind it sees them.
    pub stack: Option<u64>,
}

impl Debuggee {
    /// All addresses where the process is to stop, by whatever means.
    fn stops(&self) -> BTreeSet<u64> {
        let user = self.breakpoints.iter().flat_map(|&address| self.text.places(address));
        let sought = self.sought.iter().map(|sought| sought.address);
        user.chain(self.private_places.iter().copied()).chain(sought).collect()
    }

    /// The probes among them. An address has a trap where it must stop each time, or no jump fits.
    fn probes(&mut self) -> Vec<(Rc<Plan>, Wanted)> {
        let counts = self.remaining.is_some();
        let mut wanted: BTreeMap<u64, Wanted> = BTreeMap::new();
        if let Some(sought) = &self.sought {
            let one = wanted.entry(sought.address).or_default();
            (one.tests, one.stack) = (Some(sought.tests.clone()), sought.stack);
        }
        for &address in &self.breakpoints {
            let conditions = self.conditions.get(&address);
            for place in self.text.places(address) {
                if !counts && conditions.is_none() {
                    wanted.remove(&place);
                    continue;
                }
                let one = wanted.entry(place).or_default();
                one.counter = Some(0);
                one.conditions = conditions.cloned().unwrap_or_default();
            }
        }
        let stops = self.stops();
        let chosen = wanted
            .into_iter()
            .filter(|(address, _)| !self.private_places.contains(address))
            .collect::<Vec<_>>();
        let mut probes = Vec::new();
        for (address, one) in chosen {
            let Some(plan) = self.plan(address) else { continue };
            let stack = one.stack.filter(|_| plan.are_flags_dead() && one.counter.is_none());
            let one = Wanted { counter: one.counter.map(|_| plan.counter()), stack, ..one };
            let end = address + plan.original().len() as u64;
            if stops.range(address + 1..end).next().is_none() {
                probes.push((plan, one));
            }
        }
        probes
    }

    /// Where the process stops for the user's breakpoints.
    pub fn breakpoint_places(&self) -> Vec<u64> {
        self.breakpoints.iter().flat_map(|&address| self.text.places(address)).collect()
    }

    /// Whether visits of an address can be told apart without stopping at each, while there are
    /// probes at these others.
    pub fn can_probe(&mut self, address: u64, others: &[u64]) -> bool {
        let mut bytes = |at: u64| self.plan(at).map(|plan| plan.original().len() as u64);
        let Some(own) = bytes(address) else { return false };
        // The jump of neither may cover where the other begins.
        let mut is_apart = |other: u64| {
            !(address + 1..address + own).contains(&other)
                && !(other + 1..other + bytes(other).unwrap_or(1)).contains(&address)
        };
        others.iter().all(|&other| is_apart(other))
    }

    /// Whether to tell them apart costs little: a comparison may change the flags there.
    pub fn can_probe_quickly(&mut self, address: u64, others: &[u64]) -> bool {
        self.can_probe(address, others)
            && self.plan(address).is_some_and(|plan| plan.are_flags_dead())
    }

    /// How many bytes the jump of a probe at an address covers.
    pub fn jump_bytes(&mut self, address: u64) -> usize {
        self.plan(address).map_or(1, |plan| plan.original().len())
    }

    /// How a jump can be planted at an address. Remembered; the text hardly ever changes, but for
    /// the jump of a search, which is not planted over. What is known of other mappings does.
    fn plan(&mut self, address: u64) -> Option<Rc<Plan>> {
        if let Some(known) = self.plans.get(&address)
            && !known.as_ref().is_some_and(|plan| self.text.taken().touch(plan.page, 1))
        {
            let bytes = known.as_ref().map_or(0, |plan| plan.original().len());
            return known.clone().filter(|_| {
                !search::leads_to_search(&self.process.memory, self.current, address, bytes)
            });
        }
        let code = self.text.mapping(address)?;
        // Traps and probes that are in memory would be taken for the program's.
        self.process.memory.remove_probes();
        self.process.memory.plant(&BTreeSet::new());
        let has_stub = |page: u64| self.plans.values().flatten().any(|plan| plan.page == page);
        let plan =
            Plan::at(self.process.pid, code, self.text.taken(), address, has_stub).map(Rc::new);
        if plan.as_ref().is_some_and(|plan| {
            search::leads_to_search(
                &self.process.memory,
                self.current,
                address,
                plan.original().len(),
            )
        }) {
            return None;
        }
        self.plans.insert(address, plan.clone());
        plan
    }

    /// Whether the current thread stands where there is to be a trap, which it must get over first.
    pub(super) fn must_step_off(&mut self) -> Result<bool> {
        let address = self.process.registers(self.current)?.rip;
        if in_runtime(address) || !self.stops().contains(&address) {
            return Ok(false);
        }
        if !self.probes().iter().any(|(plan, _)| plan.address == address) {
            return Ok(true);
        }
        if !self.process.memory.has_probe(address) {
            // It may be refused.
            self.put_in_place()?;
        }
        Ok(!self.process.memory.has_probe(address))
    }

    /// Puts everything in place before the process runs.
    pub(super) fn plant(&mut self) -> Result<()> {
        self.put_in_place()?;
        let counts = std::mem::take(&mut self.passes_place);
        Ok(self.process.enter_probe(self.current, counts)?)
    }

    fn put_in_place(&mut self) -> Result<()> {
        let (probes, mut traps) = (self.probes(), self.stops());
        self.process.memory.remove_probes();
        for (plan, _) in &probes {
            traps.remove(&plan.address);
        }
        self.process.memory.plant(&traps);
        let mut refused = BTreeSet::new();
        self.counter = None;
        for (plan, mut wanted) in probes {
            // All count where the first does that is there: the code of others may not be mapped
            // yet.
            wanted.counter = wanted.counter.map(|own| self.counter.unwrap_or(own));
            if self.process.memory.plant_probe(self.current, &plan, &wanted)? {
                self.counter = wanted.counter.or(self.counter);
            } else {
                refused.insert(plan.address);
            }
        }
        if let Some(counter) = self.counter {
            // Where nothing is counted, the first hit is the one.
            self.process.memory.write(counter, &self.remaining.unwrap_or(1).to_le_bytes())?;
        }
        if !refused.is_empty() {
            traps.extend(refused);
            self.process.memory.plant(&traps);
        }
        Ok(())
    }

    /// How many hits are left, as the stubs have counted.
    pub(super) fn read_counter(&mut self) {
        if let (Some(counter), Some(_)) = (self.counter, self.remaining)
            && let Some(now) = self.process.memory.word(counter)
        {
            self.remaining = Some(now);
        }
    }
}
