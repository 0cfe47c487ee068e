//! Watchpoints, in the processor's four debug registers. A long watchpoint takes several. The
//! remaining registers serve breakpoints where the program would overwrite a trap.

use retake_kernel::ptrace;
use std::io;

const COUNT: usize = 4;
const CONTROL: usize = 7;

/// The accesses that hit a watchpoint. The processor cannot watch reads alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Write,
    Read,
    Both,
}

/// One watchpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watchpoint {
    pub address: u64,
    pub bytes: u64,
    pub access: Access,
}

impl Watchpoint {
    /// Whether only writes hit the watchpoint.
    pub fn is_for_writing(&self) -> bool {
        self.access == Access::Write
    }
}

/// All watchpoints.
#[derive(Debug, Default, Clone)]
pub(crate) struct Watchpoints {
    all: Vec<Watchpoint>,
}

/// An aligned piece of a watchpoint.
struct Piece {
    address: u64,
    bytes: u64,
    watchpoint: usize,
}

impl Watchpoints {
    /// Adds a watchpoint. Returns false if the processor has no room for it.
    pub fn add(&mut self, watchpoint: Watchpoint) -> bool {
        self.all.push(watchpoint);
        let fits = self.pieces().len() <= COUNT && watchpoint.bytes > 0;
        if !fits {
            self.all.pop();
        }
        fits
    }

    /// Removes a watchpoint. Returns whether it was there.
    pub fn remove(&mut self, watchpoint: Watchpoint) -> bool {
        let found = self.all.iter().position(|one| *one == watchpoint);
        found.map(|index| self.all.remove(index)).is_some()
    }

    /// All watchpoints.
    pub fn iter(&self) -> impl Iterator<Item = &Watchpoint> {
        self.all.iter()
    }

    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (watchpoint, one) in self.all.iter().enumerate() {
            let (mut address, end) = (one.address, one.address.saturating_add(one.bytes));
            while address < end && pieces.len() <= COUNT {
                let fitting = [8, 4, 2, 1]
                    .into_iter()
                    .find(|bytes| address.is_multiple_of(*bytes) && address + bytes <= end);
                let bytes = fitting.unwrap_or(1);
                pieces.push(Piece { address, bytes, watchpoint });
                address += bytes;
            }
        }
        pieces
    }

    /// The number of registers that are left.
    pub fn left(&self) -> usize {
        COUNT.saturating_sub(self.pieces().len())
    }

    /// Sets the debug registers of a stopped thread. The remaining registers watch the execution of
    /// these addresses.
    ///
    /// # Errors
    /// The thread is gone, or an address belongs to the kernel.
    pub fn arm(&self, tid: i32, code: &[u64]) -> io::Result<()> {
        ptrace::set_debug_register(tid, CONTROL, 0)?;
        let (mut control, pieces) = (0, self.pieces());
        for (index, address) in (pieces.len()..COUNT).zip(code) {
            ptrace::set_debug_register(tid, index, *address)?;
            // For execution, the access and the length are both 0.
            control |= 1 << (2 * index);
        }
        for (index, piece) in pieces.iter().enumerate().take(COUNT) {
            ptrace::set_debug_register(tid, index, piece.address)?;
            control |= control_of(index, self.all[piece.watchpoint].access, piece.bytes);
        }
        ptrace::set_debug_register(tid, CONTROL, control)
    }

    /// Whether one of these bits of the status register stands for an executed address.
    pub fn is_execution(&self, status: u64) -> bool {
        status & 0xf & !((1 << self.pieces().len().min(COUNT)) - 1) != 0
    }

    /// The watchpoint that one of these bits of the status register stands for.
    pub fn hit(&self, status: u64) -> Option<Watchpoint> {
        let pieces = self.pieces();
        let hit = pieces.iter().enumerate().find(|(index, _)| status >> index & 1 != 0);
        hit.map(|(_, piece)| self.all[piece.watchpoint])
    }
}

/// The bits of the control register for one watched address: its enable bit, the accesses, and the
/// length.
fn control_of(index: usize, access: Access, bytes: u64) -> u64 {
    let access = if access == Access::Write { 1 } else { 3 };
    let length = match bytes {
        8 => 2,
        bytes => bytes - 1,
    };
    1 << (2 * index) | (access | length << 2) << (16 + 4 * index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watchpoint(address: u64, bytes: u64) -> Watchpoint {
        Watchpoint { address, bytes, access: Access::Write }
    }

    #[test]
    fn the_control_register_has_two_bits_and_four_for_each_address() {
        // Intel's manual, volume 3, 18.2.4: L0 is bit 0, L1 is bit 2; R/W0 and LEN0 are bits 16 to
        // 19, and so on.
        assert_eq!(control_of(0, Access::Write, 1), 0x1_0001);
        assert_eq!(control_of(1, Access::Write, 4), 0xd0_0004);
        assert_eq!(control_of(2, Access::Both, 2), 0x700_0010);
        assert_eq!(control_of(3, Access::Both, 8), 0xb000_0040);
    }

    #[test]
    fn watchpoints_are_cut_where_the_processor_needs_it() {
        let mut watchpoints = Watchpoints::default();
        assert!(watchpoints.add(watchpoint(0x1001, 7)));
        let pieces: Vec<_> =
            watchpoints.pieces().iter().map(|piece| (piece.address, piece.bytes)).collect();
        assert_eq!(pieces, [(0x1001, 1), (0x1002, 2), (0x1004, 4)]);
        assert!(!watchpoints.add(watchpoint(0x2000, 16)));
        assert!(watchpoints.add(watchpoint(0x2000, 8)));
        assert_eq!(watchpoints.hit(8), Some(watchpoint(0x2000, 8)));
        assert!(
            watchpoints.remove(watchpoint(0x1001, 7)) && !watchpoints.remove(watchpoint(0x1001, 7))
        );
    }
}
