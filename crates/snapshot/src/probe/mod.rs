//! Probes: places in the program's text where the program itself decides whether it stops. A
//! planted jump leads to a stub that compares, counts and evaluates conditions in nanoseconds,
//! where a trap would take microseconds.
//!
//! If no jump fits, there is no probe, and the caller plants a trap.

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
/// How far away a stub may be: the distance of a relative jump, less some room for what the
/// displaced instructions refer to.
const REACH: u64 = 0x4000_0000;
/// The lowest address that can be mapped.
const LOWEST: u64 = 0x10_0000;
/// The bytes kept free below a mapping, which may be a stack that grows.
const ROOM_BELOW: u64 = 0x20_0000;
/// The number of pages tried in each gap. Every value of the upper bytes of a distance comes up
/// among them.
const MOST_PAGES: usize = (2 * REACH / PAGE_BYTES) as usize;

/// What must be known about an address to plant a jump there.
#[derive(Debug)]
pub struct Plan {
    /// The address of the jump.
    pub address: u64,
    /// The address of the stub, which is in a page of its own.
    pub page: u64,
    entry: u64,
    original: Vec<u8>,
    moved: Moved,
    /// Whether nothing reads the flags there before they change.
    are_flags_dead: bool,
}

impl Plan {
    /// Plans a probe at an address in `code`, in a process without traps or probes there. Returns
    /// `None` if no jump fits. No stub may be in `taken`; `has_stub` tells whether a page has
    /// another stub.
    pub fn at(
        pid: i32,
        code: &Mapping,
        taken: &Ranges,
        address: u64,
        has_stub: impl Fn(u64) -> bool,
    ) -> Option<Self> {
        // The runtime compares writable code like data, so it must not be changed.
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

    /// The address of the stub's countdown.
    pub fn counter(&self) -> u64 {
        self.page + COUNTER_OFFSET
    }

    /// The bytes to plant: the jump, and traps up to the next whole instruction.
    pub fn patch(&self) -> Vec<u8> {
        let mut patch = vec![JUMP];
        patch.extend((self.entry.wrapping_sub(self.address + 5) as u32).to_le_bytes());
        patch.resize(self.original.len(), TRAP);
        patch
    }

    /// Whether the stub may change the flags.
    pub fn are_flags_dead(&self) -> bool {
        self.are_flags_dead
    }

    /// The original bytes under the jump.
    pub fn original(&self) -> &[u8] {
        &self.original
    }
}

/// Returns a free page and an entry in it: a page far below the address, or one above if there is
/// none. The page is far away because the program may map more memory near what it has.
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

/// Which of its traps a probe has hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The tests held.
    Place,
    /// The countdown came to 0.
    Counted,
}

/// Bytes, and the address where they belong.
pub type Part = (u64, Vec<u8>);

/// A planted probe.
#[derive(Debug)]
pub struct Probe {
    /// The plan from which it was made.
    pub plan: Rc<Plan>,
    place_trap: Option<u64>,
    stop_trap: Option<u64>,
    counting: u64,
}

impl Probe {
    /// Builds a probe and the bytes of its stub: the beginning of the page, the displaced
    /// instructions and the entry, each with its address.
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

    /// The trap of the stub that is at an address.
    pub fn trap(&self, address: u64) -> Option<Why> {
        if self.place_trap == Some(address) {
            return Some(Why::Place);
        }
        (self.stop_trap == Some(address)).then_some(Why::Counted)
    }

    /// Whether an address is in the stub.
    pub fn has(&self, address: u64) -> bool {
        (self.plan.page..self.plan.page + PAGE_BYTES).contains(&address)
    }

    /// The original address of the displaced instruction at an address in the stub.
    pub fn shown(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.plan.page + DISPLACED_OFFSET)?;
        let start = self.plan.moved.starts.iter().find(|(_, place)| u64::from(*place) == offset)?;
        Some(self.plan.address + u64::from(start.0))
    }

    /// The address in the stub of an instruction that the jump covers.
    pub fn displaced(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.plan.address)?;
        let start =
            self.plan.moved.starts.iter().find(|(offset_of, _)| u64::from(*offset_of) == offset)?;
        Some(self.plan.page + DISPLACED_OFFSET + u64::from(start.1))
    }

    /// Where a visit goes on if it is not at the wanted place.
    pub fn counting(&self) -> u64 {
        self.counting
    }

    /// The program's registers during the evaluation of a condition, from the slots of the stub.
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

    /// Whether an address is in the stub before the displaced instructions. A fault there means
    /// that a test or a condition read unmapped memory.
    pub fn is_testing(&self, address: u64) -> bool {
        self.is_comparing(address)
            || (self.plan.page..self.plan.page + DISPLACED_OFFSET).contains(&address)
    }

    /// Whether an address is the comparison at the entry, which changes no registers.
    pub fn is_comparing(&self, address: u64) -> bool {
        address == self.plan.entry
    }
}
