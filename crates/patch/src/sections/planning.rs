//! Planning of the patches for sections and passages, in the text that the plans for system calls
//! and counters leave free.
//!
//! A function is a section with all its entries and exits, or not at all. In the latter case, its
//! atomic instructions are sections of their own.

use super::pads::Pads;
use super::{Binding, Function, Object, Wanted};
use crate::choice::{Chosen, Context, Operand, Plan, RUN_INSTRUCTIONS, Wish};
use crate::chunk::Chunk;
use crate::image::{Refusal, RefusedSite, SiteKind};
use crate::passages::behind_mark;
use crate::survey::{Branch, Listed, Nature, Pad, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The most returns that may stay as they are in one function.
const MOST_BARE: usize = 4;

/// Adds plans for the wanted code to those chosen before, and keeps them sorted.
pub(crate) fn choose_wanted(
    context: &Context,
    chunks: &[Chunk],
    wanted: &Wanted,
    pads: Vec<Pad>,
    chosen: &mut Chosen,
) {
    if wanted.is_empty() {
        return;
    }
    let pads = Pads::new(pads, context.targets, &chosen.plans);
    let mut planner = Planner { context, chunks, wanted, pads, taken: BTreeMap::new() };
    for plan in &chosen.plans {
        planner.taken.insert(plan.patch_start(), plan.end().max(plan.patch_end));
    }
    let mut in_section = vec![false; chunks.len()];
    let (mut planned, mut objects_known) = (Vec::new(), true);
    for function in &wanted.functions {
        match planner.function(function) {
            Ok(plans) => {
                function.chunks.iter().for_each(|index| in_section[*index] = true);
                planned.extend(plans);
            }
            Err(reason) => {
                objects_known &= function.object.is_none();
                chosen.refused.push(RefusedSite {
                    kind: SiteKind::SectionBegin,
                    address: chunks[function.chunks[0]].start,
                    reason,
                });
            }
        }
    }
    if !objects_known {
        // Functions on the same objects must be ordered in one way. If one of them is refused, none
        // tells its object.
        planned.iter_mut().for_each(|plan| plan.operand = None);
    }
    chosen.plans.extend(planned);
    let is_outside =
        |address: &u64| planner.chunk_of(*address).is_none_or(|chunk| !in_section[chunk]);
    let atomics: Vec<u64> = wanted.atomics.iter().copied().filter(is_outside).collect();
    planner.atomics(&atomics, chosen);
    for (kind, addresses) in
        [(SiteKind::Passage, &wanted.passages), (SiteKind::Spin, &wanted.spins)]
    {
        for &address in addresses {
            match planner.single(address, kind, Manner::USUAL) {
                Ok(plan) => chosen.plans.push(plan),
                Err(reason) => chosen.refused.push(RefusedSite { kind, address, reason }),
            }
        }
    }
    planner.bindings(&wanted.bindings, chosen);
    chosen.plans.sort_by_key(Plan::patch_start);
    chosen.refused.sort_by_key(|site| site.address);
}

struct Planner<'a, 'data> {
    context: &'a Context<'a, 'data>,
    chunks: &'a [Chunk],
    wanted: &'a Wanted,
    pads: Pads,
    /// Ranges that belong to plans: end by start.
    taken: BTreeMap<u64, u64>,
}

impl Planner<'_, '_> {
    /// Plans atomic instructions. One without room for a jump shares that of the next one, or of
    /// the last one.
    fn atomics(&mut self, addresses: &[u64], chosen: &mut Chosen) {
        let kind = SiteKind::Atomic;
        let mut done = 0;
        for &address in addresses {
            if address < done {
                continue;
            }
            // Padding is scarce, so it is used last.
            let near = Manner { joint: false, pads: false };
            let planned = self
                .single(address, kind, near)
                .or_else(|_| self.single(address, kind, Manner { joint: true, ..near }));
            if let Ok(plan) = planned {
                done = plan.end();
                chosen.plans.push(plan);
                continue;
            }
            if let Some(end) = chosen.plans.last_mut().and_then(|last| self.join(address, last)) {
                done = end;
                continue;
            }
            match self.single(address, kind, Manner { joint: true, pads: true }) {
                Ok(plan) => {
                    done = plan.end();
                    chosen.plans.push(plan);
                }
                Err(reason) => chosen.refused.push(RefusedSite { kind, address, reason }),
            }
        }
        // A refused one may have come along with a later one.
        let moved: BTreeSet<u64> = chosen
            .plans
            .iter()
            .flat_map(|plan| plan.before.iter().chain(&plan.after))
            .map(|instruction| instruction.address)
            .collect();
        chosen
            .refused
            .retain(|site| site.kind != SiteKind::Atomic || !moved.contains(&site.address));
    }

    /// Adds an operation, and all instructions before it, to the end of the last plan, if nothing
    /// can reach it on another way. Returns the plan's new end.
    fn join(&mut self, address: u64, plan: &mut Plan) -> Option<u64> {
        let listing = self.context.listing;
        let site = listing[self.movable(address)?];
        let last = *plan.after.last().unwrap_or(&plan.site);
        let first = listing.partition_point(|one| one.address < last.end());
        let run = listing.get(first..=self.listed(address)?)?;
        let mut next = last.end();
        let mut follows = |one: &Listed| one.address == std::mem::replace(&mut next, one.end());
        let moves =
            |one: &Listed| one.is_movable() && one.nature != (Nature::Atomic { compares: true });
        let entries = self.context.targets;
        let entry = entries.partition_point(|target| *target < plan.site.end());
        let is_entered = entries.get(entry).is_some_and(|target| *target < site.end());
        let may = plan.kind == SiteKind::Atomic
            && self.context.targets_complete
            && !is_entered
            && !last.leaves()
            && site.chunk == plan.site.chunk
            && plan.after.len() + run.len() <= RUN_INSTRUCTIONS
            && run.iter().all(|one| follows(one) && moves(one))
            && self.taken.range(last.end()..site.end()).next().is_none();
        if !may {
            return None;
        }
        plan.after.extend(run);
        self.taken.insert(plan.patch_start(), plan.end().max(plan.patch_end));
        Some(plan.end())
    }

    /// Plans a single instruction.
    fn single(&mut self, address: u64, kind: SiteKind, manner: Manner) -> Result<Plan, Refusal> {
        let is_known = || self.wanted.known.binary_search(&address).is_ok();
        let by_memory = kind == SiteKind::Atomic && (self.wanted.by_memory || is_known());
        let index = self.movable(address).ok_or(Refusal::NoRoom)?;
        let operand = by_memory.then_some(Operand::Memory);
        self.choose(Request { index, kind, operand, bare: false, manner })
    }

    fn bindings(&mut self, bindings: &[Binding], chosen: &mut Chosen) {
        let (kind, manner) = (SiteKind::Binding, Manner::USUAL);
        for binding in bindings {
            let operand = Some(Operand::Slot(binding.slot));
            let planned = self.movable(binding.push).ok_or(Refusal::NoRoom).and_then(|index| {
                self.choose(Request { index, kind, operand, bare: false, manner })
            });
            match planned {
                Ok(plan) => chosen.plans.push(plan),
                Err(reason) => {
                    chosen.refused.push(RefusedSite { kind, address: binding.push, reason });
                }
            }
        }
    }

    /// Plans a function completely or not at all. A return that cannot be patched because code
    /// jumps to it may stay as it is. The jumps to it are exits then.
    fn function(&mut self, function: &Function) -> Result<Vec<Plan>, Refusal> {
        if let Some(refusal) = function.refusal {
            return Err(refusal);
        }
        let mut bare = Vec::new();
        loop {
            match self.attempt(function, &bare) {
                Ok(plans) => return Ok(plans),
                Err(Failure { site: Some(site), .. })
                    if bare.len() < MOST_BARE && self.may_stay(site, &bare) =>
                {
                    bare.push(site)
                }
                Err(failure) if bare.is_empty() => return Err(failure.refusal),
                Err(_) => return Err(Refusal::JumpTarget),
            }
        }
    }

    /// Whether an exit is a return that only branches refer to.
    fn may_stay(&self, site: u64, bare: &[u64]) -> bool {
        let is_return = self
            .listed(site)
            .is_some_and(|index| self.context.listing[index].nature == Nature::Return);
        is_return && !bare.contains(&site) && self.context.references.binary_search(&site).is_err()
    }

    fn attempt(&mut self, function: &Function, bare: &[u64]) -> Result<Vec<Plan>, Failure> {
        let parts = Parts { planner: self, function, bare };
        let entries = parts.entries()?;
        let exits = parts.exits(&entries)?;
        let pads_taken = self.pads.taken();
        let mut plans = Vec::new();
        for (index, kind) in sequence(self.context, entries, exits) {
            let site = self.context.listing[index].address;
            let goes_on = self.context.listing[index].goes_on();
            let operand = match kind {
                SiteKind::SectionBegin => function.object.map(Operand::Argument),
                _ => goes_on.then_some(Operand::Leaves),
            };
            let bare = bare.contains(&site);
            match self.choose(Request { index, kind, operand, bare, manner: Manner::USUAL }) {
                Ok(plan) => plans.push(plan),
                Err(refusal) => {
                    self.pads.give_back(pads_taken);
                    for plan in &plans {
                        self.taken.remove(&Plan::patch_start(plan));
                    }
                    return Err(Failure {
                        refusal,
                        site: (refusal == Refusal::JumpTarget).then_some(site),
                    });
                }
            }
        }
        Ok(plans)
    }

    /// Returns the cheapest plan for one site in the text that is still free.
    fn choose(&mut self, request: Request) -> Result<Plan, Refusal> {
        let Request { index, kind, operand, bare, manner } = request;
        let site = self.context.listing[index];
        if self.context.suspect[site.chunk as usize] {
            return Err(Refusal::SuspectFunction);
        }
        let bounds = self.free_around(&site).ok_or(Refusal::NoRoom)?;
        let stays = kind == SiteKind::SectionEnd && !matches!(site.role, Role::Conditional { .. });
        let tail_end = if stays { self.pads.end_from(site.end()) } else { site.end() };
        let wish = Wish { index, kind, bounds, tail_end, operand, bare, joint: manner.joint };
        let plan = match manner.pads {
            true => self.context.cheapest(&wish, |from| self.pads.take_near(from))?,
            false => self.context.cheapest(&wish, |_| None)?,
        };
        if plan.patch_end > plan.end() {
            self.pads.take_from(plan.end(), plan.patch_end - plan.end());
        }
        self.taken.insert(plan.patch_start(), plan.end().max(plan.patch_end));
        Ok(plan)
    }

    /// The free range around an instruction in its chunk. `None` if the instruction itself is not
    /// free.
    fn free_around(&self, site: &Listed) -> Option<Range<u64>> {
        let chunk = self.chunks[site.chunk as usize];
        let before = self.taken.range(..=site.address).next_back().map_or(0, |(_, end)| *end);
        let after =
            self.taken.range(site.address + 1..).next().map_or(u64::MAX, |(start, _)| *start);
        (before <= site.address && site.end() <= after)
            .then_some(chunk.start.max(before)..chunk.end.min(after))
    }

    /// Returns the index of an instruction if it can be displaced.
    fn movable(&self, address: u64) -> Option<usize> {
        self.listed(address).filter(|index| self.context.listing[*index].is_movable())
    }

    fn listed(&self, address: u64) -> Option<usize> {
        self.context.listing.binary_search_by_key(&address, |listed| listed.address).ok()
    }

    fn chunk_of(&self, address: u64) -> Option<usize> {
        let index = self.chunks.partition_point(|chunk| chunk.start <= address).checked_sub(1)?;
        (address < self.chunks[index].end).then_some(index)
    }
}

/// What is to be planned for one site: see [`Wish`].
struct Request {
    index: usize,
    kind: SiteKind,
    operand: Option<Operand>,
    bare: bool,
    manner: Manner,
}

/// How a site may get room for its jump.
#[derive(Clone, Copy)]
struct Manner {
    /// Whether operations beside it may come along.
    joint: bool,
    /// Whether the jump may be a short one to padding.
    pads: bool,
}

impl Manner {
    const USUAL: Self = Self { joint: false, pads: true };
}

/// Why a function could not be planned.
struct Failure {
    refusal: Refusal,
    /// The site, if the reason is that something jumps to it.
    site: Option<u64>,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, site: None }
    }
}

/// The order in which a function's sites are planned. Sites that other plans must not displace come
/// first.
fn sequence(context: &Context, entries: Vec<usize>, exits: Vec<usize>) -> Vec<(usize, SiteKind)> {
    let is_conditional =
        |index: &usize| matches!(context.listing[*index].role, Role::Conditional { .. });
    let (conditional, others): (Vec<usize>, Vec<usize>) =
        exits.into_iter().partition(is_conditional);
    let ends = |indices: Vec<usize>| indices.into_iter().map(|index| (index, SiteKind::SectionEnd));
    let begins = entries.into_iter().map(|index| (index, SiteKind::SectionBegin));
    ends(conditional).chain(begins).chain(ends(others)).collect()
}

/// The chunks of one function.
struct Parts<'a, 'b, 'data> {
    planner: &'a Planner<'b, 'data>,
    function: &'a Function,
    /// Returns that stay as they are.
    bare: &'a [u64],
}

impl Parts<'_, '_, '_> {
    fn chunks(&self) -> impl Iterator<Item = (usize, Chunk)> {
        self.function.chunks.iter().map(|index| (*index, self.planner.chunks[*index]))
    }

    fn hold(&self, address: u64) -> bool {
        self.chunks().any(|(_, chunk)| (chunk.start..chunk.end).contains(&address))
    }

    /// Returns the branches into a range of addresses.
    fn branches_to(&self, range: Range<u64>) -> &[Branch] {
        let branches = self.planner.context.branches;
        let first = branches.partition_point(|branch| branch.target < range.start);
        let end = branches.partition_point(|branch| branch.target < range.end);
        &branches[first..end]
    }

    /// The first instructions of the chunks by which the function is entered, as indices of the
    /// listing.
    fn entries(&self) -> Result<Vec<usize>, Refusal> {
        let any_known = self.chunks().any(|(index, chunk)| self.is_known_entry(index, &chunk));
        let mut entries = Vec::new();
        for (index, chunk) in self.chunks() {
            if self
                .branches_to(chunk.start + 1..chunk.end)
                .iter()
                .any(|branch| !self.hold(branch.source))
            {
                return Err(Refusal::NoExit);
            }
            let is_entry = self.is_known_entry(index, &chunk)
                || !any_known && self.branches_to(chunk.start..chunk.start + 1).is_empty();
            if is_entry {
                entries.push(self.first_instruction(&chunk).ok_or(Refusal::NoRoom)?);
            }
        }
        if entries.is_empty() { Err(Refusal::NoExit) } else { Ok(entries) }
    }

    /// Whether the chunk is an entry of the function: it has a name, or other code calls it or
    /// jumps to it.
    fn is_known_entry(&self, index: usize, chunk: &Chunk) -> bool {
        let mut branches = self.branches_to(chunk.start..chunk.start + 1).iter();
        self.planner.wanted.named[index]
            || branches.any(|branch| branch.is_call || !self.hold(branch.source))
    }

    /// Returns the index of a function's first instruction after `endbr64`, if it can be displaced.
    fn first_instruction(&self, chunk: &Chunk) -> Option<usize> {
        self.planner.movable(behind_mark(self.planner.context.elf, chunk.start))
    }

    /// The instructions that leave the function, as indices of the listing. A jump to the
    /// function's beginning is one: the section begins again there.
    fn exits(&self, entries: &[usize]) -> Result<Vec<usize>, Refusal> {
        let listing = self.planner.context.listing;
        let begins: Vec<u64> = entries
            .iter()
            .flat_map(|index| {
                [listing[*index].address, self.planner.chunks[listing[*index].chunk as usize].start]
            })
            .collect();
        let mut exits = Vec::new();
        for (_, chunk) in self.chunks() {
            let first = listing.partition_point(|listed| listed.address < chunk.start);
            let end = listing.partition_point(|listed| listed.address < chunk.end);
            exits.extend((first..end).filter(|index| self.is_exit(&listing[*index], &begins)));
            exits.extend(self.way_to_cancel(first..end, &chunk));
        }
        if exits.is_empty() { Err(Refusal::NoExit) } else { Ok(exits) }
    }

    /// The instruction before the call that never returns, at the function's end. The call cancels
    /// the thread, which thereby leaves all functions that it is in.
    fn way_to_cancel(&self, listed: Range<usize>, chunk: &Chunk) -> Option<usize> {
        let is_own = matches!(self.function.object, Some(Object::Own(_)));
        let listing = &self.planner.context.listing[listed.clone()];
        let (before, [.., way, call]) = (listed.end.checked_sub(2)?, listing) else { return None };
        let calls =
            call.nature == Nature::Call && call.end() == chunk.end && way.end() == call.address;
        (is_own && calls && way.goes_on()).then_some(before)
    }

    fn is_exit(&self, instruction: &Listed, begins: &[u64]) -> bool {
        match (instruction.nature, instruction.role) {
            (Nature::Return | Nature::JumpThrough, _) => true,
            (Nature::Jump { target }, _) | (_, Role::Conditional { target, .. }) => {
                begins.contains(&target) || self.bare.contains(&target) || !self.hold(target)
            }
            _ => false,
        }
    }
}
