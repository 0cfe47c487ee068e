//! Deciding, for one site, which instructions to displace.
//!
//! A jump takes five bytes. The instructions under those bytes run in the stub instead, so nothing may jump to the second or a later one of them. Instructions
//! of the run beyond those five bytes stay as they are, too: whoever jumps to them reaches the site itself, which then traps.
//!
//! Where five bytes cannot be had, two may do, if there is padding near enough for a short jump to hold the long one (`xor %eax,%eax; syscall` at the start
//! of a function).

use crate::elf::ElfView;
use crate::functions::is_plain_call;
use crate::image::{Refusal, SiteKind};
use crate::survey::{Listed, Pad, Role};

/// Bytes of `jmp rel32`.
pub(crate) const JUMP_BYTES: u64 = 5;

/// Bytes of `jmp rel8`.
pub(crate) const SHORT_JUMP_BYTES: u64 = 2;

/// Longest run displaced on either side of a site.
const RUN_INSTRUCTIONS: usize = 8;

/// The signal restorer: `mov $15,%rax; syscall`. Unwinders and debuggers compare these bytes.
const RESTORER: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// How control gets from the text to the stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jump {
    /// By a 5-byte jump.
    Near,
    /// By a 2-byte jump to padding, where the 5-byte jump is.
    ByWayOf {
        /// Where in the padding.
        pad: u64,
    },
}

/// How one site is patched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub kind: SiteKind,
    pub site: Listed,
    /// Displaced instructions before the site.
    pub before: Vec<Listed>,
    /// Displaced instructions after it.
    pub after: Vec<Listed>,
    /// End of the bytes that the jump replaces: the first end of an instruction after it.
    pub patch_end: u64,
    pub jump: Jump,
}

impl Plan {
    /// Where the jump goes.
    pub fn patch_start(&self) -> u64 {
        self.before.first().unwrap_or(&self.site).address
    }

    /// End of everything that the stub executes.
    pub fn end(&self) -> u64 {
        self.after.last().unwrap_or(&self.site).end()
    }

    /// Lower is better: few instructions, preferably none that could fault in a stub, preferably none after the site.
    fn cost(&self) -> usize {
        let displaced = self.before.iter().chain(&self.after);
        let each = displaced.map(|instruction| if instruction.memory { 12 } else { 4 });
        each.sum::<usize>() + 2 * usize::from(!self.after.is_empty())
    }
}

/// Padding that is still free, by address.
pub(crate) struct Pads(Vec<Pad>);

impl Pads {
    /// All padding that is large enough and that nothing refers to; `targets` are sorted.
    pub fn new(mut pads: Vec<Pad>, targets: &[u64]) -> Self {
        pads.retain(|pad| {
            let next = targets.partition_point(|target| *target < pad.start);
            let entered = targets.get(next).is_some_and(|target| *target < pad.start + JUMP_BYTES);
            pad.start + JUMP_BYTES <= pad.end && !entered
        });
        Self(pads)
    }

    /// Takes the place nearest to `from` that a short jump ending there reaches.
    fn take(&mut self, from: u64) -> Option<u64> {
        let first = self.0.partition_point(|pad| pad.start < from.saturating_sub(128));
        let reachable = self.0[first..].iter_mut().take_while(|pad| pad.start <= from + 127);
        let free = reachable.filter(|pad| pad.end > pad.start);
        let pad = free.min_by_key(|pad| pad.start.abs_diff(from))?;
        pad.end = pad.start;
        Some(pad.start)
    }
}

/// What is known when choosing.
pub(crate) struct Context<'a, 'data> {
    pub elf: &'a ElfView<'data>,
    /// Near candidates, by address.
    pub listing: &'a [Listed],
    /// Sorted.
    pub targets: &'a [u64],
    /// Whether `targets` can be trusted to be all; else only single instructions are displaced.
    pub targets_complete: bool,
    /// For each chunk, whether it did not decode cleanly.
    pub suspect: &'a [bool],
    /// Whether the file names its functions.
    pub functions_known: bool,
}

impl Context<'_, '_> {
    /// The best plan for the site at `index` of the listing. Nothing before `floor` may be displaced: it belongs to an earlier plan.
    pub fn choose(&self, index: usize, kind: SiteKind, floor: u64, pads: &mut Pads) -> Result<Plan, Refusal> {
        let site = self.listing[index];
        let Some(segment) = self.elf.text_segments().find(|segment| segment.holds(site.address)) else {
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
        let plan = self.best(index, kind, &bounds, JUMP_BYTES).or_else(|refusal| {
            let mut plan = self.best(index, kind, &bounds, SHORT_JUMP_BYTES).map_err(|_| refusal)?;
            let pad = pads.take(plan.patch_start() + SHORT_JUMP_BYTES).ok_or(refusal)?;
            plan.jump = Jump::ByWayOf { pad };
            Ok(plan)
        })?;
        let plain = plan.before.len() == 1 && is_plain_call(self.elf.bytes_from(plan.patch_start()));
        if !self.functions_known && !plain {
            return Err(Refusal::NoFunctionTable);
        }
        Ok(plan)
    }

    /// The cheapest plan that makes room for a jump of so many bytes.
    fn best(&self, index: usize, kind: SiteKind, bounds: &std::ops::Range<u64>, jump_bytes: u64) -> Result<Plan, Refusal> {
        let most_before = self.movable_before(index, bounds.start);
        let most_after = if kind == SiteKind::SystemCall { 0 } else { self.movable_after(index, bounds.end) };
        let mut refusal = Refusal::NoRoom;
        let mut best: Option<Plan> = None;
        for (before, after) in (0..=most_before).flat_map(|before| (0..=most_after).map(move |after| (before, after))) {
            let Some(plan) = self.plan(index, kind, (before, after), jump_bytes) else {
                continue;
            };
            if self.is_entered(&plan) {
                refusal = Refusal::JumpTarget;
            } else if best.as_ref().is_none_or(|best| plan.cost() < best.cost()) {
                best = Some(plan);
            }
        }
        best.ok_or(refusal)
    }

    /// The plan with so many instructions displaced before and after the site, if they make room for the jump.
    fn plan(&self, index: usize, kind: SiteKind, (before, after): (usize, usize), jump_bytes: u64) -> Option<Plan> {
        let run = &self.listing[index - before..=index + after];
        let jump_end = run[0].address + jump_bytes;
        let site = self.listing[index];
        if kind == SiteKind::SystemCall && jump_end > site.address {
            return None;
        }
        let patch_end = run.iter().map(Listed::end).find(|end| *end >= jump_end)?;
        let (before, after) = (run[..before].to_vec(), run[before + 1..].to_vec());
        Some(Plan { kind, site, before, after, patch_end, jump: Jump::Near })
    }

    /// Whether something may jump into the bytes that the jump replaces, other than to their start.
    fn is_entered(&self, plan: &Plan) -> bool {
        let first = plan.before.first().unwrap_or(&plan.site);
        if !self.targets_complete && first.end() < plan.patch_end {
            return true;
        }
        let next = self.targets.partition_point(|target| *target <= plan.patch_start());
        self.targets.get(next).is_some_and(|target| *target < plan.patch_end)
    }

    fn movable_before(&self, index: usize, floor: u64) -> usize {
        let mut next = self.listing[index].address;
        let run = self.listing[..index].iter().rev().take(RUN_INSTRUCTIONS).take_while(|instruction| {
            let joins = instruction.end() == next && instruction.address >= floor && self.may_move(instruction);
            next = instruction.address;
            joins
        });
        run.count()
    }

    fn movable_after(&self, index: usize, ceiling: u64) -> usize {
        let mut next = self.listing[index].end();
        let run = self.listing[index + 1..].iter().take(RUN_INSTRUCTIONS).take_while(|instruction| {
            let joins = instruction.address == next && instruction.end() <= ceiling && self.may_move(instruction);
            next = instruction.end();
            joins
        });
        run.count()
    }

    fn may_move(&self, instruction: &Listed) -> bool {
        matches!(instruction.role, Role::Movable | Role::Conditional { .. }) && (!self.functions_known || !self.suspect[instruction.chunk as usize])
    }

    fn is_restorer(&self, site: &Listed) -> bool {
        site.address.checked_sub(7).is_some_and(|start| self.elf.bytes_from(start).starts_with(&RESTORER))
    }
}
