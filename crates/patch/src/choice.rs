//! The choice of the instructions to displace for one site.
//!
//! A jump takes five bytes. The instructions under those bytes run in the stub instead, so nothing
//! may jump to the second or a later one of them. Instructions of the run after those five bytes
//! stay in the text, too: a jump to them reaches the site itself, which then traps.
//!
//! If there is no room for five bytes, two may be enough. There must be padding near enough for a
//! short jump, and with room for the long one (`xor %eax,%eax; syscall` at the start of a
//! function).

use crate::elf::ElfView;
use crate::functions::is_plain_call;
use crate::image::{Refusal, RefusedSite, SiteKind};
use crate::jump::Patch;
use crate::jump::{JUMP_BYTES, Jump, SHORT_JUMP_BYTES};
use crate::sections::Object;
use crate::survey::{Branch, Listed, Nature, Pad, Role};
use std::ops::Range;

/// The most instructions displaced on either side of a site.
pub(crate) const RUN_INSTRUCTIONS: usize = 8;

/// The signal restorer: `mov $15,%rax; syscall`. Unwinders and debuggers compare these bytes.
const RESTORER: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// The memory that an operation is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// The operand of the atomic instruction.
    Memory,
    /// The memory that an argument of the function points to.
    Argument(Object),
    /// The slot at this address.
    Slot(u64),
    /// None: the thread leaves all functions that it is in.
    Leaves,
}

/// How one site is patched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub kind: SiteKind,
    pub site: Listed,
    /// Displaced instructions before the site.
    pub before: Vec<Listed>,
    /// The number of instructions in `before` that are outside an atomic instruction's section. The
    /// others are jumps into the instruction, over its LOCK prefix.
    pub outside: usize,
    /// The memory that the runtime is told of first.
    pub operand: Option<Operand>,
    /// Displaced instructions after it.
    pub after: Vec<Listed>,
    /// End of the bytes that the jump replaces: an instruction ends there.
    pub patch_end: u64,
    pub jump: Jump,
}

impl Plan {
    /// The address of the jump.
    pub fn patch_start(&self) -> u64 {
        self.before.first().unwrap_or(&self.site).address
    }

    /// End of all instructions that the stub executes.
    pub fn end(&self) -> u64 {
        self.after.last().unwrap_or(&self.site).end()
    }

    /// The cost of the plan. Few instructions cost less, and so do instructions that cannot fault
    /// in the stub, or that are before the site.
    fn cost(&self) -> usize {
        let displaced = self.before.iter().chain(&self.after);
        let each = displaced.map(|instruction| if instruction.memory { 12 } else { 4 });
        each.sum::<usize>() + 2 * usize::from(!self.after.is_empty())
    }
}

/// The decisions about all sites, by address.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub plans: Vec<Plan>,
    pub refused: Vec<RefusedSite>,
    /// Edits of instructions that become traps in place.
    pub trapped: Vec<Patch>,
}

/// Padding that is still free, by address.
pub(crate) struct Pads(Vec<Pad>);

impl Pads {
    /// Takes all padding that is large enough and has no references to it. `targets` are sorted.
    pub fn new(mut pads: Vec<Pad>, targets: &[u64]) -> Self {
        pads.retain(|pad| {
            let next = targets.partition_point(|target| *target < pad.start);
            let entered = targets.get(next).is_some_and(|target| *target < pad.start + JUMP_BYTES);
            pad.start + JUMP_BYTES <= pad.end && !entered
        });
        Self(pads)
    }

    /// Takes the free padding nearest to `from`, within reach of a short jump that ends at `from`.
    fn take(&mut self, from: u64) -> Option<u64> {
        let first = self.0.partition_point(|pad| pad.start < from.saturating_sub(128));
        let reachable = self.0[first..].iter_mut().take_while(|pad| pad.start <= from + 127);
        let free = reachable.filter(|pad| pad.end > pad.start);
        let pad = free.min_by_key(|pad| pad.start.abs_diff(from))?;
        pad.end = pad.start;
        Some(pad.start)
    }
}

/// A site to be patched, and the limits of its plan.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// Index of the site in the listing.
    pub index: usize,
    pub kind: SiteKind,
    /// The range of instructions that may be displaced. The rest belongs to other plans.
    pub bounds: Range<u64>,
    /// The end of padding after the site that may be overwritten, or the end of the site.
    pub tail_end: u64,
    pub operand: Option<Operand>,
    /// Whether the site stays as it is, because code may jump to it. Only the instructions before
    /// it are patched.
    pub bare: bool,
    /// Whether other operations may be displaced, too. Each is one of its own in the stub.
    pub joint: bool,
}

/// What is known when a plan is chosen.
pub(crate) struct Context<'a, 'data> {
    pub elf: &'a ElfView<'data>,
    /// Instructions near candidates, by address.
    pub listing: &'a [Listed],
    /// Addresses that something may jump to, sorted.
    pub targets: &'a [u64],
    /// Branches to such addresses, sorted.
    pub branches: &'a [Branch],
    /// Addresses referred to in other ways, sorted.
    pub references: &'a [u64],
    /// Whether `targets` is complete. Otherwise, only single instructions are displaced.
    pub targets_complete: bool,
    /// For each chunk, whether it did not decode cleanly.
    pub suspect: &'a [bool],
    /// Whether the file names its functions.
    pub functions_known: bool,
}

impl Context<'_, '_> {
    /// Chooses the best plan for the site at `index` of the listing. Nothing before `floor` may be
    /// displaced: it belongs to an earlier plan.
    pub fn choose(
        &self,
        index: usize,
        kind: SiteKind,
        floor: u64,
        pads: &mut Pads,
    ) -> Result<Plan, Refusal> {
        let site = self.listing[index];
        let Some(segment) = self.elf.text_segments().find(|segment| segment.holds(site.address))
        else {
            return Err(Refusal::NoRoom);
        };
        let bounds = floor.max(segment.address)..segment.file_end();
        if self.suspect[site.chunk as usize] && self.functions_known {
            return Err(Refusal::SuspectFunction);
        }
        if site.address < bounds.start {
            return Err(Refusal::NoRoom);
        }
        if kind == SiteKind::SystemCall && self.is_restorer(&site) {
            return Err(Refusal::SignalReturn);
        }
        let wish = Wish {
            index,
            kind,
            bounds,
            tail_end: site.end(),
            operand: None,
            bare: false,
            joint: false,
        };
        let plan = self.cheapest(&wish, |from| pads.take(from))?;
        let plain =
            plan.before.len() == 1 && is_plain_call(self.elf.bytes_from(plan.patch_start()));
        if !self.functions_known && !plain {
            return Err(Refusal::NoFunctionTable);
        }
        Ok(plan)
    }

    /// Returns the cheapest plan. If necessary, it uses a short jump to padding. `take_pad` finds a
    /// place in padding near an address.
    pub fn cheapest(
        &self,
        wish: &Wish,
        mut take_pad: impl FnMut(u64) -> Option<u64>,
    ) -> Result<Plan, Refusal> {
        self.best(wish, JUMP_BYTES).or_else(|refusal| {
            let mut plan = self.best(wish, SHORT_JUMP_BYTES).map_err(|_| refusal)?;
            let pad = take_pad(plan.patch_start() + SHORT_JUMP_BYTES).ok_or(refusal)?;
            plan.jump = Jump::ByWayOf { pad };
            Ok(plan)
        })
    }

    /// Returns the cheapest plan with room for a jump of `jump_bytes`.
    fn best(&self, wish: &Wish, jump_bytes: u64) -> Result<Plan, Refusal> {
        let (most_before, most_after) = self.most_around(wish);
        let mut refusal = Refusal::NoRoom;
        let mut best: Option<Plan> = None;
        for (before, after) in
            (0..=most_before).flat_map(|before| (0..=most_after).map(move |after| (before, after)))
        {
            let Some(plan) = self.plan(wish, (before, after), jump_bytes) else {
                continue;
            };
            if self.is_entered(wish, &plan) {
                refusal = Refusal::JumpTarget;
            } else if plan.cost() == 0 {
                return Ok(plan);
            } else if best.as_ref().is_none_or(|best| plan.cost() < best.cost()) {
                best = Some(plan);
            }
        }
        best.ok_or(refusal)
    }

    /// The most instructions that could be displaced before and after a site.
    fn most_around(&self, wish: &Wish) -> (usize, usize) {
        let before = || self.movable_before(wish);
        let after = || self.movable_after(wish);
        match wish.kind {
            SiteKind::SystemCall | SiteKind::SectionEnd => (before(), 0),
            SiteKind::SectionBegin | SiteKind::Passage => (0, after()),
            SiteKind::Binding => (0, 0),
            SiteKind::Rdtsc
            | SiteKind::Rdtscp
            | SiteKind::Cpuid
            | SiteKind::Atomic
            | SiteKind::Spin => (before(), after()),
        }
    }

    /// Returns the plan that displaces so many instructions before and after the site, if they make
    /// room for the jump.
    fn plan(&self, wish: &Wish, (before, after): (usize, usize), jump_bytes: u64) -> Option<Plan> {
        let (index, kind) = (wish.index, wish.kind);
        let run = &self.listing[index - before..=index + after];
        let jump_end = run[0].address + jump_bytes;
        let site = self.listing[index];
        if (kind == SiteKind::SystemCall || wish.bare) && jump_end > site.address {
            return None;
        }
        let in_tail = (jump_end <= wish.tail_end).then_some(jump_end);
        let patch_end = run.iter().map(Listed::end).find(|end| *end >= jump_end).or(in_tail)?;
        let (before, after) = (run[..before].to_vec(), run[before + 1..].to_vec());
        let skips = |instruction: &Listed| {
            matches!(instruction.role, Role::Conditional { target,
            .. } if site.has_inside(target))
        };
        let outside = before.iter().position(skips).unwrap_or(before.len());
        // The address must be known before the section begins.
        if wish.operand == Some(Operand::Memory) && !before[outside..].iter().all(skips) {
            return None;
        }
        Some(Plan {
            kind,
            site,
            before,
            outside,
            operand: wish.operand,
            after,
            patch_end,
            jump: Jump::Near,
        })
    }

    /// Whether something may jump into the bytes that the jump replaces, except to their start, or
    /// past the jump to the site, if that matters.
    fn is_entered(&self, wish: &Wish, plan: &Plan) -> bool {
        let first = plan.before.first().unwrap_or(&plan.site);
        if !self.targets_complete && first.end() < plan.patch_end {
            return true;
        }
        let end = match plan.kind.is_of_section() || plan.kind == SiteKind::Spin {
            true if wish.bare => plan.site.address,
            true => plan.patch_end.max(plan.site.end()),
            false => plan.patch_end,
        };
        let next = self.targets.partition_point(|target| *target <= plan.patch_start());
        let mut inside = self.targets[next..].iter().take_while(|target| **target < end);
        inside.any(|target| !(plan.kind == SiteKind::Atomic && self.is_own_skip(plan, *target)))
    }

    /// Whether only displaced instructions jump to a place inside the atomic instruction, over its
    /// LOCK prefix.
    fn is_own_skip(&self, plan: &Plan, target: u64) -> bool {
        let first = self.branches.partition_point(|branch| branch.target < target);
        let branches = self.branches[first..].iter().take_while(|branch| branch.target == target);
        let is_own = |branch: &Branch| {
            plan.before[plan.outside..]
                .iter()
                .any(|instruction| instruction.address == branch.source)
        };
        plan.site.has_inside(target)
            && branches.clone().count() > 0
            && branches.into_iter().all(is_own)
    }

    fn movable_before(&self, wish: &Wish) -> usize {
        let mut next = self.listing[wish.index].address;
        let run = self.listing[..wish.index].iter().rev().take(RUN_INSTRUCTIONS).take_while(
            |instruction| {
                let joins = instruction.end() == next
                    && instruction.address >= wish.bounds.start
                    && self.may_move(instruction, wish);
                next = instruction.address;
                joins
            },
        );
        run.count()
    }

    fn movable_after(&self, wish: &Wish) -> usize {
        let mut next = self.listing[wish.index].end();
        let mut joins = |instruction: &Listed| {
            let joins = instruction.address == next && instruction.end() <= wish.bounds.end;
            next = instruction.end();
            joins
        };
        let following = &self.listing[wish.index + 1..];
        let run = following
            .iter()
            .take(RUN_INSTRUCTIONS)
            .take_while(|instruction| joins(instruction) && self.may_move(instruction, wish));
        let count = run.count();
        let leaves = |last: &&Listed| {
            matches!(wish.kind, SiteKind::Atomic | SiteKind::Spin)
                && last.leaves()
                && last.end() <= wish.bounds.end
        };
        let end = following[..count].last().unwrap_or(&self.listing[wish.index]).end();
        count
            + usize::from(
                following.get(count).filter(leaves).is_some_and(|last| last.address == end),
            )
    }

    /// Whether an instruction may be displaced for a site of this kind. An atomic one needs a
    /// section of its own, unless it is in one already.
    fn may_move(&self, instruction: &Listed, wish: &Wish) -> bool {
        let needs_own = wish.kind == SiteKind::Atomic
            && match instruction.nature {
                Nature::Atomic { compares } => compares || !wish.joint,
                _ => false,
            };
        instruction.is_movable()
            && !needs_own
            && (!self.functions_known || !self.suspect[instruction.chunk as usize])
    }

    fn is_restorer(&self, site: &Listed) -> bool {
        site.address
            .checked_sub(7)
            .is_some_and(|start| self.elf.bytes_from(start).starts_with(&RESTORER))
    }
}
