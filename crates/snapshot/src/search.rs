//! The search for a place at which a thread was stopped while recording. The runtime searches with
//! a stub and a jump to it in the text.

use crate::memory::Memory;
use crate::runtime::in_runtime;
use retake_kernel::context;
use retake_kernel::ptrace::{self, Registers};
use std::ops::Range;

/// The page with the stub of a thread's search and the instructions that the jump displaced; `None`
/// if the thread does not search.
fn search(memory: &Memory, registers: &Registers) -> Option<Range<u64>> {
    const PAGE_BYTES: u64 = 4096;
    if !in_runtime(registers.gs_base)
        || memory.word(registers.gs_base + context::WATCH_ARMED)? as u32 == 0
    {
        return None;
    }
    let stub = memory.word(registers.gs_base + context::WATCH_STUB).filter(|stub| *stub != 0)?;
    Some(stub..stub.saturating_add(PAGE_BYTES))
}

/// Whether a thread is in the stub of its search.
pub fn is_in_search(memory: &Memory, tid: i32) -> bool {
    ptrace::registers(tid).is_ok_and(|registers| {
        search(memory, &registers).is_some_and(|page| page.contains(&registers.rip))
    })
}

const JUMP: u8 = 0xe9;
const JUMP_BYTES: usize = 5;

/// Whether the jump to the search's stub begins in some code. The jump is removed when the place is
/// found.
pub fn leads_to_search(memory: &Memory, tid: i32, address: u64, bytes: usize) -> bool {
    let Some(page) = ptrace::registers(tid).ok().and_then(|registers| search(memory, &registers))
    else {
        return false;
    };
    let mut code = vec![0; bytes + JUMP_BYTES];
    let count = memory.read(address, &mut code);
    has_jump(&code[..count], bytes, address, &page)
}

/// Whether a jump to a page begins in the first `bytes` bytes of some code.
fn has_jump(code: &[u8], bytes: usize, address: u64, page: &Range<u64>) -> bool {
    let jumps = code.windows(JUMP_BYTES).take(bytes);
    (address + JUMP_BYTES as u64..).zip(jumps).any(|(next, jump)| {
        let distance = i32::from_le_bytes([jump[1], jump[2], jump[3], jump[4]]);
        jump[0] == JUMP && page.contains(&next.wrapping_add_signed(distance.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_counts_where_it_begins_and_where_it_leads() {
        let (page, address) = (0x5000..0x6000, 0x1000);
        let at = |place: usize, target: u64| {
            let mut code = vec![0x90; 16];
            code[place] = JUMP;
            let distance = target.wrapping_sub(address + (place + JUMP_BYTES) as u64) as i32;
            code[place + 1..place + JUMP_BYTES].copy_from_slice(&distance.to_le_bytes());
            has_jump(&code, 4, address, &page)
        };
        assert!(at(0, 0x5000) && at(3, 0x5fff));
        assert!(!at(4, 0x5000), "it begins behind the code");
        assert!(!at(0, 0x4fff) && !at(0, 0x6000));
    }
}
