//! Padding that other plans do not use.

use crate::choice::Plan;
use crate::jump::{JUMP_BYTES, Jump};
use crate::survey::Pad;

/// Free padding, by address. Padding taken last can be given back.
pub(crate) struct Pads {
    free: Vec<Pad>,
    /// Changed entries, with their previous values.
    history: Vec<(usize, Pad)>,
}

impl Pads {
    /// Takes all padding without references to it, except the padding that `plans` use. `targets`
    /// are sorted.
    pub fn new(mut pads: Vec<Pad>, targets: &[u64], plans: &[Plan]) -> Self {
        pads.sort_unstable_by_key(|pad| pad.start);
        for pad in &mut pads {
            let next = targets.partition_point(|target| *target < pad.start);
            pad.end = targets.get(next).map_or(pad.end, |target| pad.end.min(*target));
        }
        let mut pads = Self { free: pads, history: Vec::new() };
        for plan in plans {
            if let Jump::ByWayOf { pad } = plan.jump {
                pads.take_from(pad, JUMP_BYTES);
            }
        }
        pads
    }

    /// The number of pieces taken so far, for [`Self::give_back`].
    pub fn taken(&self) -> usize {
        self.history.len()
    }

    /// Gives back all pieces taken since then.
    pub fn give_back(&mut self, taken: usize) {
        while self.history.len() > taken {
            let (index, pad) = self.history.pop().expect("longer than before");
            self.free[index] = pad;
        }
    }

    /// The end of the free padding that starts at an address, or the address if there is none.
    pub fn end_from(&self, address: u64) -> u64 {
        self.index_of(address).map_or(address, |index| self.free[index].end)
    }

    /// Takes bytes from the start of padding that starts at an address.
    pub fn take_from(&mut self, address: u64, bytes: u64) {
        let index = self.index_of(address).expect("free padding starts there");
        self.history.push((index, self.free[index]));
        self.free[index].start += bytes;
    }

    /// Takes room for a jump in the free padding nearest to `from`, within reach of a short jump
    /// that ends at `from`.
    pub fn take_near(&mut self, from: u64) -> Option<u64> {
        let first = self.free.partition_point(|pad| pad.start < from.saturating_sub(128));
        let reachable = self.free[first..].iter().take_while(|pad| pad.start <= from + 127);
        let fitting = reachable.filter(|pad| pad.start + JUMP_BYTES <= pad.end);
        let start = fitting.min_by_key(|pad| pad.start.abs_diff(from))?.start;
        self.take_from(start, JUMP_BYTES);
        Some(start)
    }

    fn index_of(&self, address: u64) -> Option<usize> {
        let index = self.free.partition_point(|pad| pad.start < address);
        self.free
            .get(index)
            .filter(|pad| pad.start == address && pad.end > pad.start)
            .map(|_| index)
    }
}
