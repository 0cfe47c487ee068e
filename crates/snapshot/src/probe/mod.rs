//! Probes: places in the program's text where the program itself decides whether it stops. A jump
//! is planted there, to a stub that compares, counts and evaluates conditions in nanoseconds, where
//! a trap would take microseconds.
//!
//! Where no jump fits there is no probe, and the caller plants a trap.

mod assembler;
mod code;
mod condition;
mod evaluate;

pub use assembler::Test;
pub use code::Wanted;
pub use evaluate::{holds, numbered};

use crate::ranges::Ranges;
use assembler::{
    COUNTER_OFFSET, DATA_OFFSET, DISPLACED_OFFSET, SLOT_FLAGS, SLOT_RCX, SLOT_RDX, SLOT_RSP,
};
use retake_kernel::maps::Mapping;
use retake_kernel::memory;
use retake_kernel::ptrace::Registers;
use retake_kernel::shared::{RUNTIME_END, RUNTIME_TEXT};
use retake_patch::watch::{ENTRY_BYTES, Moved, Place, Text, flags_are_dead};
use std::rc::Rc;

const PAGE_BYTES: u64 = 4096;
const DISPLACED_BYTES: usize = 0x100;
const JUMP: u8 = 0xe9;
const TRAP: u8 = 0xcc;
/// What a relative jump reaches, with room for what the displaced instructions refer to.
const REACH: u64 = 0x4000_0000;
/// Nothing below can be mapped.
const LOWEST: u64 = 0x10_0000;
/// Kept free below a mapping, which may be a stack that grows.
const ROOM_BELOW: u64 = 0x20_0000;
/// Every value of the upper bytes of a distance comes up among so many pages.
const MOST_PAGES: usize = (2 * REACH / PAGE_BYTES) as usize;

/// What has to be known about an address before a jump is planted there.
#[derive(Debug)]
pub struct Plan {
    /// Where the jump is to be.
    pub address: u64,
    /// Where the stub is to be: a page of its own.
    pub page: u64,
    entry: u64,
    original: Vec<u8>,
    moved: Moved,
    /// Nobody looks at the flags there.
    are_flags_dead: bool,
}

impl Plan {
    /// For an address, in `code`, of a process without traps or probes in it. `None`: no jump fits.
    /// `taken`: where no stub may be; `has_stub`: whether a page has another one.
    pub fn at(
        pid: i32,
        code: &Mapping,
        taken: &Ranges,
        address: u64,
        has_stub: impl Fn(u64) -> bool,
    ) -> Option<Self> {
        // Code that can be written is compared like data.
        if code.writable {
            return None;
        }
        let mut text = Text::new(|at: u64, page: &mut [u8; PAGE_BYTES as usize]| {
            memory::peek(pid, at, page).is_ok()
        });
        let place = Place::at(&mut text, address).filter(|place| place.patch_bytes() > 1)?;
        let bytes = place.patch_bytes();
        if address + bytes as u64 > code.end {
            return None;
        }
        let (page, entry) =
            free_page(
                taken,
                address,
                |page| if has_stub(page) { None } else { place.entry_in(page) },
            )?;
        let moved = place
            .moved(page + DISPLACED_OFFSET)
            .filter(|moved| moved.code.len() <= DISPLACED_BYTES)?;
        let are_flags_dead = flags_are_dead(&mut text, address);
        Some(Self {
            address,
            page,
            entry,
            original: memory::peek_vec(pid, address, bytes).ok()?,
            moved,
            are_flags_dead,
        })
    }

    /// The address of the countdown in its stub.
    pub fn counter(&self) -> u64 {
        self.page + COUNTER_OFFSET
    }

    /// What is written there: the jump, and traps up to the next whole instruction.
    pub fn patch(&self) -> Vec<u8> {
        let mut patch = vec![JUMP];
        patch.extend((self.entry.wrapping_sub(self.address + 5) as u32).to_le_bytes());
        patch.resize(self.original.len(), TRAP);
        patch
    }

    /// Whether a stub may change the flags.
    pub fn are_flags_dead(&self) -> bool {
        self.are_flags_dead
    }

    /// What is there without it.
    pub fn original(&self) -> &[u8] {
        &self.original
    }
}

/// A far page below the address, or else above it, that is free, and an entry in it. Far, because
/// the program may map more near to what it has.
fn free_page(
    taken: &Ranges,
    address: u64,
    entry: impl Fn(u64) -> Option<u64>,
) -> Option<(u64, u64)> {
    let (lowest, highest) =
        (address.saturating_sub(REACH).max(LOWEST) & !(PAGE_BYTES - 1), address + REACH);
    let gaps = taken
        .gaps(lowest, highest + ROOM_BELOW)
        .into_iter()
        .map(|(low, high)| (low, high.saturating_sub(ROOM_BELOW)));
    let usable = |page: &u64| !(RUNTIME_TEXT..RUNTIME_END).contains(page);
    gaps.filter(|(low, high)| low + PAGE_BYTES <= *high).find_map(|(low, high)| {
        let pages =
            (low..high - PAGE_BYTES).step_by(PAGE_BYTES as usize).take(MOST_PAGES).filter(usable);
        pages.into_iter().find_map(|page| entry(page).map(|entry| (page, entry)))
    })
}

/// Which of its traps a probe stopped at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The tests held.
    Place,
    /// The countdown came to its end.
    Counted,
}

/// Bytes that belong at an address.
pub type Part = (u64, Vec<u8>);

/// A planted probe.
#[derive(Debug)]
pub struct Probe {
    /// How it was planted.
    pub plan: Rc<Plan>,
    place_trap: Option<u64>,
    stop_trap: Option<u64>,
    counting: u64,
}

impl Probe {
    /// A probe, and the bytes of its stub: those at the page's beginning, the displaced
    /// instructions and the entry, by address.
    pub fn build(plan: &Rc<Plan>, wanted: &Wanted) -> Option<(Self, Vec<Part>)> {
        let stub = code::build(plan.page, plan.entry, plan.address, wanted)?;
        debug_assert!(
            stub.entry.len() as u64 <= ENTRY_BYTES,
            "the entry has room at the end of the page"
        );
        let parts = vec![
            (plan.page, stub.code),
            (plan.page + DISPLACED_OFFSET, plan.moved.code.clone()),
            (plan.entry, stub.entry),
        ];
        let probe = Self {
            plan: Rc::clone(plan),
            place_trap: stub.place_trap,
            stop_trap: stub.stop_trap,
            counting: stub.counting,
        };
        Some((probe, parts))
    }

    /// Which of its traps is at an address.
    pub fn trap(&self, address: u64) -> Option<Why> {
        if self.place_trap == Some(address) {
            return Some(Why::Place);
        }
        (self.stop_trap == Some(address)).then_some(Why::Counted)
    }

    /// Whether an address is in its stub.
    pub fn has(&self, address: u64) -> bool {
        (self.plan.page..self.plan.page + PAGE_BYTES).contains(&address)
    }

    /// Where a thread is that is at a displaced instruction.
    pub fn shown(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.plan.page + DISPLACED_OFFSET)?;
        let start = self.plan.moved.starts.iter().find(|(_, place)| u64::from(*place) == offset)?;
        Some(self.plan.address + u64::from(start.0))
    }

    /// Where a thread goes on that is at an instruction which the jump covers.
    pub fn displaced(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.plan.address)?;
        let start =
            self.plan.moved.starts.iter().find(|(offset_of, _)| u64::from(*offset_of) == offset)?;
        Some(self.plan.page + DISPLACED_OFFSET + u64::from(start.1))
    }

    /// Where a visit goes on that is not the place.
    pub fn counting(&self) -> u64 {
        self.counting
    }

    /// The program's registers while a condition is evaluated, from where the stub keeps them.
    pub fn kept(&self, word: impl Fn(u64) -> u64, registers: &Registers) -> Registers {
        const FROM_AH: u64 = 0xd5;
        const OVERFLOW: u64 = 1 << 11;
        let slot = |offset: u64| word(self.plan.page + offset);
        let flags = slot(SLOT_FLAGS);
        let eflags =
            registers.eflags & !(FROM_AH | OVERFLOW) | (flags >> 8 & FROM_AH) | (flags & 1) << 11;
        Registers {
            rax: slot(DATA_OFFSET),
            rcx: slot(SLOT_RCX),
            rdx: slot(SLOT_RDX),
            rsp: slot(SLOT_RSP),
            eflags,
            ..*registers
        }
    }

    /// Whether it is in the part before the displaced instructions: if it faults there, a test or
    /// condition read what is not there.
    pub fn is_testing(&self, address: u64) -> bool {
        self.is_comparing(address)
            || (self.plan.page..self.plan.page + DISPLACED_OFFSET).contains(&address)
    }

    /// Whether it is at the comparison of the entry, which changes no registers.
    pub fn is_comparing(&self, address: u64) -> bool {
        address == self.plan.entry
    }
}
