//! The traps and probes that are in the text while the process runs.

use super::Inferior;
use crate::error::Result;
use crate::stops::Stops;
use crate::text::Text;
use retake_snapshot::probe::{Plan, Test, Wanted};
use retake_snapshot::{Memory, Process, in_runtime, search};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// A place that is searched for: its address, and tests that rarely hold elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Sought {
    pub address: u64,
    pub tests: Vec<Test>,
    /// The stack pointer there, if flags may be changed where they are dead. A user who stops after
    /// the place would see changed flags.
    pub stack: Option<u64>,
}

/// The cost of telling visits of an address apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probing {
    /// A comparison may change the flags there.
    Quick,
    Slow,
}

/// What is planted in addition to the user's breakpoints.
#[derive(Debug, Default)]
pub(crate) struct Planting {
    /// Addresses that stop the process for us, not for the user.
    pub private_places: BTreeSet<u64>,
    /// Set if breakpoints are counted instead of stopping: the number of hits until one stops.
    pub remaining: Option<u64>,
    /// The place that is searched for.
    pub sought: Option<Sought>,
    /// Whether the stop at the searched place was a wrong visit. It may still be a hit of a
    /// breakpoint.
    pub passes_place: bool,
    /// A repeated instruction that is being finished. It has neither a trap nor a probe.
    pub passed: Option<u64>,
    /// The address of the counter in the stubs.
    counter: Option<u64>,
    plans: HashMap<u64, Option<Rc<Plan>>>,
}

/// The process in which to plant.
pub(super) struct Ground<'a> {
    process: &'a mut Process,
    text: &'a Text,
    stops: &'a Stops,
    /// A stopped thread.
    tid: i32,
}

impl Planting {
    /// For a copy of the process: nothing planted, but the same plans.
    pub fn with_same_plans(&self) -> Self {
        Self { plans: self.plans.clone(), ..Self::default() }
    }

    /// All addresses where the process is to stop, by any means.
    fn addresses(&self, ground: &Ground<'_>) -> BTreeSet<u64> {
        let user = ground.stops.places(ground.text).into_iter();
        let sought = self.sought.iter().map(|sought| sought.address);
        let all = user.chain(self.private_places.iter().copied()).chain(sought);
        all.filter(|address| self.passed != Some(*address)).collect()
    }

    /// What the probes are to do, by address.
    fn wanted(&self, ground: &Ground<'_>) -> BTreeMap<u64, Wanted> {
        let counts = self.remaining.is_some();
        let mut wanted: BTreeMap<u64, Wanted> = BTreeMap::new();
        if let Some(sought) = &self.sought {
            let one = wanted.entry(sought.address).or_default();
            (one.tests, one.stack) = (Some(sought.tests.clone()), sought.stack);
        }
        for &address in &ground.stops.breakpoints {
            let conditions = ground.stops.conditions.get(&address);
            for place in ground.text.places(address) {
                if !counts && conditions.is_none() {
                    wanted.remove(&place);
                    continue;
                }
                let one = wanted.entry(place).or_default();
                one.counter = Some(0);
                one.conditions = conditions.cloned().unwrap_or_default();
            }
        }
        wanted.retain(|address, _| {
            !self.private_places.contains(address) && self.passed != Some(*address)
        });
        wanted
    }

    /// The probes to plant. An address gets a trap instead if it must stop each time, or if no jump
    /// fits.
    fn probes(&mut self, ground: &mut Ground<'_>) -> Vec<(Rc<Plan>, Wanted)> {
        let (addresses, wanted) = (self.addresses(ground), self.wanted(ground));
        let mut probes = Vec::new();
        for (address, one) in wanted {
            let Some(plan) = self.plan(ground, address) else { continue };
            let stack = one.stack.filter(|_| plan.are_flags_dead() && one.counter.is_none());
            let one = Wanted { counter: one.counter.map(|_| plan.counter()), stack, ..one };
            let end = address + plan.original().len() as u64;
            if addresses.range(address + 1..end).next().is_none() {
                probes.push((plan, one));
            }
        }
        probes
    }

    /// How visits of an address can be told apart without stopping at each, while these other
    /// addresses have probes; `None` if they cannot.
    fn probing(
        &mut self,
        ground: &mut Ground<'_>,
        address: u64,
        others: &[u64],
    ) -> Option<Probing> {
        let own_plan = self.plan(ground, address)?;
        let own = own_plan.original().len() as u64;
        let mut bytes =
            |at: u64| self.plan(ground, at).map_or(1, |plan| plan.original().len() as u64);
        // Neither jump may cover the beginning of the other.
        let mut is_apart = |other: u64| {
            !(address + 1..address + own).contains(&other)
                && !(other + 1..other + bytes(other)).contains(&address)
        };
        let is_free = others.iter().all(|&other| is_apart(other));
        let how = if own_plan.are_flags_dead() { Probing::Quick } else { Probing::Slow };
        is_free.then_some(how)
    }

    /// The plan for a jump at an address. It is remembered, since the text hardly ever changes. An
    /// exception is the jump of a search, over which nothing is planted. A plan is made again if
    /// its page is no longer free.
    fn plan(&mut self, ground: &mut Ground<'_>, address: u64) -> Option<Rc<Plan>> {
        let Ground { process, text, tid, .. } = ground;
        if let Some(known) = self.plans.get(&address)
            && !known.as_ref().is_some_and(|plan| text.taken().touch(plan.page, 1))
        {
            let bytes = known.as_ref().map_or(0, |plan| plan.original().len());
            return known
                .clone()
                .filter(|_| !search::leads_to_search(&process.memory, *tid, address, bytes));
        }
        let code = text.mapping(address)?;
        // Otherwise they would be taken for the program's own instructions.
        process.memory.remove_probes();
        process.memory.plant(&BTreeSet::new());
        let has_stub = |page: u64| self.plans.values().flatten().any(|plan| plan.page == page);
        let plan = Plan::at(process.pid, code, text.taken(), address, has_stub).map(Rc::new);
        if plan.as_ref().is_some_and(|plan| {
            search::leads_to_search(&process.memory, *tid, address, plan.original().len())
        }) {
            return None;
        }
        self.plans.insert(address, plan.clone());
        plan
    }

    /// Whether the thread stands at the address of a trap, and must first step over it.
    pub(super) fn must_step_off(&mut self, ground: &mut Ground<'_>) -> Result<bool> {
        let address = ground.process.registers(ground.tid)?.rip;
        if in_runtime(address) || !self.addresses(ground).contains(&address) {
            return Ok(false);
        }
        if !self.probes(ground).iter().any(|(plan, _)| plan.address == address) {
            return Ok(true);
        }
        if !ground.process.memory.has_probe(address) {
            // The probe may be refused.
            self.put_in_place(ground)?;
        }
        Ok(!ground.process.memory.has_probe(address))
    }

    /// Plants everything before the process runs.
    pub(super) fn plant(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        self.put_in_place(ground)?;
        let counts = std::mem::take(&mut self.passes_place);
        Ok(ground.process.enter_probe(ground.tid, counts)?)
    }

    fn put_in_place(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        let (probes, mut traps) = (self.probes(ground), self.addresses(ground));
        for address in ground.stops.watched_code(ground.text) {
            traps.remove(&address);
        }
        let memory = &mut ground.process.memory;
        memory.remove_probes();
        for (plan, _) in &probes {
            traps.remove(&plan.address);
        }
        memory.plant(&traps);
        let mut refused = BTreeSet::new();
        self.counter = None;
        for (plan, mut wanted) in probes {
            // All probes use the counter of the first one that is planted. The code of the others
            // may not be mapped yet.
            wanted.counter = wanted.counter.map(|own| self.counter.unwrap_or(own));
            if memory.plant_probe(ground.tid, &plan, &wanted)? {
                self.counter = wanted.counter.or(self.counter);
            } else {
                refused.insert(plan.address);
            }
        }
        if let Some(counter) = self.counter {
            // If hits are not counted, the first one stops.
            memory.write(counter, &self.remaining.unwrap_or(1).to_le_bytes())?;
        }
        if !refused.is_empty() {
            traps.extend(refused);
            memory.plant(&traps);
        }
        Ok(())
    }

    /// Plants everything again because the mappings have changed. The stopped thread is in the
    /// runtime.
    pub(super) fn plant_anew(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        self.read_counter(&ground.process.memory);
        self.put_in_place(ground)
    }

    /// Reads the number of hits that are left from the stubs.
    pub(super) fn read_counter(&mut self, memory: &Memory) {
        if let (Some(counter), Some(_)) = (self.counter, self.remaining)
            && let Some(now) = memory.word(counter)
        {
            self.remaining = Some(now);
        }
    }
}

impl Inferior {
    /// The planted traps and probes, and the process for the current thread.
    pub(super) fn ground(&mut self) -> (&mut Planting, Ground<'_>) {
        let tid = self.current;
        ground_of(self, tid)
    }

    /// How visits of an address can be told apart without stopping at each, while these other
    /// addresses have probes; `None` if they cannot.
    pub fn probing(&mut self, address: u64, others: &[u64]) -> Option<Probing> {
        let (planting, mut ground) = self.ground();
        planting.probing(&mut ground, address, others)
    }

    /// The number of bytes that the jump of a probe covers at an address.
    pub fn jump_bytes(&mut self, address: u64) -> usize {
        let (planting, mut ground) = self.ground();
        planting.plan(&mut ground, address).map_or(1, |plan| plan.original().len())
    }
}

/// The planted traps and probes, and the process for this stopped thread.
pub(super) fn ground_of(inferior: &mut Inferior, tid: i32) -> (&mut Planting, Ground<'_>) {
    let Inferior { process, text, stops, planting, .. } = inferior;
    (planting, Ground { process, text, stops, tid })
}
