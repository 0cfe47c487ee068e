//! Which traps and probes are in the text while the process runs.

use super::Inferior;
use crate::error::Result;
use crate::stops::Stops;
use crate::text::Text;
use retake_snapshot::probe::{Plan, Test, Wanted};
use retake_snapshot::{Memory, Process, in_runtime, search};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// What telling the visits of an address apart costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probing {
    /// A comparison may change the flags there.
    Quick,
    Slow,
}

/// What is planted beside the user's breakpoints, and how.
#[derive(Debug, Default)]
pub(crate) struct Planting {
    /// Places that stop the process for us, not for the user.
    pub private_places: BTreeSet<u64>,
    /// Breakpoints are counted instead of stopping: so many are left until one stops.
    pub remaining: Option<u64>,
    /// The place that is looked for.
    pub sought: Option<Sought>,
    /// The stop at the place that is looked for was of no use; whether it is a hit of a breakpoint
    /// is still to be seen.
    pub passes_place: bool,
    /// A repeated instruction that is being finished: it has neither a trap nor a probe.
    pub passed: Option<u64>,
    /// Where the stubs count.
    counter: Option<u64>,
    plans: HashMap<u64, Option<Rc<Plan>>>,
}

/// Where it is planted.
pub(super) struct Ground<'a> {
    process: &'a mut Process,
    text: &'a Text,
    stops: &'a Stops,
    /// A stopped thread.
    tid: i32,
}

impl Planting {
    /// For a copy of the process: nothing, but what is known of addresses.
    pub fn with_same_plans(&self) -> Self {
        Self { plans: self.plans.clone(), ..Self::default() }
    }

    /// All addresses where the process is to stop, by whatever means.
    fn addresses(&self, ground: &Ground<'_>) -> BTreeSet<u64> {
        let user = ground.stops.places(ground.text).into_iter();
        let sought = self.sought.iter().map(|sought| sought.address);
        let all = user.chain(self.private_places.iter().copied()).chain(sought);
        all.filter(|address| self.passed != Some(*address)).collect()
    }

    /// What probes are wanted for, by address.
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

    /// The probes among them. An address has a trap where it must stop each time, or no jump fits.
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

    /// How visits of an address can be told apart without stopping at each, while there are probes
    /// at these others; `None`: they cannot.
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
        // The jump of neither may cover where the other begins.
        let mut is_apart = |other: u64| {
            !(address + 1..address + own).contains(&other)
                && !(other + 1..other + bytes(other)).contains(&address)
        };
        let is_free = others.iter().all(|&other| is_apart(other));
        let how = if own_plan.are_flags_dead() { Probing::Quick } else { Probing::Slow };
        is_free.then_some(how)
    }

    /// How a jump can be planted at an address. Remembered; the text hardly ever changes, but for
    /// the jump of a search, which is not planted over. What is known of other mappings does.
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
        // Traps and probes that are in memory would be taken for the program's.
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

    /// Whether the thread stands where there is to be a trap, which it must get over first.
    pub(super) fn must_step_off(&mut self, ground: &mut Ground<'_>) -> Result<bool> {
        let address = ground.process.registers(ground.tid)?.rip;
        if in_runtime(address) || !self.addresses(ground).contains(&address) {
            return Ok(false);
        }
        if !self.probes(ground).iter().any(|(plan, _)| plan.address == address) {
            return Ok(true);
        }
        if !ground.process.memory.has_probe(address) {
            // It may be refused.
            self.put_in_place(ground)?;
        }
        Ok(!ground.process.memory.has_probe(address))
    }

    /// Puts everything in place before the process runs.
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
            // All count where the first does that is there: the code of others may not be mapped
            // yet.
            wanted.counter = wanted.counter.map(|own| self.counter.unwrap_or(own));
            if memory.plant_probe(ground.tid, &plan, &wanted)? {
                self.counter = wanted.counter.or(self.counter);
            } else {
                refused.insert(plan.address);
            }
        }
        if let Some(counter) = self.counter {
            // Where nothing is counted, the first hit is the one.
            memory.write(counter, &self.remaining.unwrap_or(1).to_le_bytes())?;
        }
        if !refused.is_empty() {
            traps.extend(refused);
            memory.plant(&traps);
        }
        Ok(())
    }

    /// Puts everything in place once more, because what is mapped has changed; the thread of this
    /// ground is in the runtime.
    pub(super) fn plant_anew(&mut self, ground: &mut Ground<'_>) -> Result<()> {
        self.read_counter(&ground.process.memory);
        self.put_in_place(ground)
    }

    /// How many hits are left, as the stubs have counted.
    pub(super) fn read_counter(&mut self, memory: &Memory) {
        if let (Some(counter), Some(_)) = (self.counter, self.remaining)
            && let Some(now) = memory.word(counter)
        {
            self.remaining = Some(now);
        }
    }
}

impl Inferior {
    /// What is planted, and where.
    pub(super) fn ground(&mut self) -> (&mut Planting, Ground<'_>) {
        let tid = self.current;
        ground_of(self, tid)
    }

    /// How visits of an address can be told apart without stopping at each, while there are probes
    /// at these others; `None`: they cannot.
    pub fn probing(&mut self, address: u64, others: &[u64]) -> Option<Probing> {
        let (planting, mut ground) = self.ground();
        planting.probing(&mut ground, address, others)
    }

    /// How many bytes the jump of a probe at an address covers.
    pub fn jump_bytes(&mut self, address: u64) -> usize {
        let (planting, mut ground) = self.ground();
        planting.plan(&mut ground, address).map_or(1, |plan| plan.original().len())
    }
}

/// What is planted, and where, with this stopped thread.
pub(super) fn ground_of(inferior: &mut Inferior, tid: i32) -> (&mut Planting, Ground<'_>) {
    let Inferior { process, text, stops, planting, .. } = inferior;
    (planting, Ground { process, text, stops, tid })
}
