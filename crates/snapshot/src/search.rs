//! The search for a place at which a thread was stopped while recording. The runtime makes it, with
//! a stub and a jump to that in the text.

use crate::memory::Memory;
use crate::runtime::in_runtime;
use retake_kernel::context;
use retake_kernel::ptrace::{self, Registers};

/// The page in which a thread looks for the place where it was stopped while recording: a stub,
/// and what the jump to it displaced.
fn search(memory: &Memory, registers: &Registers) -> Option<std::ops::Range<u64>> {
    const PAGE_BYTES: u64 = 4096;
    if !in_runtime(registers.gs_base)
        || memory.word(registers.gs_base + context::WATCH_ARMED)? as u32 == 0
    {
        return None;
    }
    let stub = memory.word(registers.gs_base + context::WATCH_STUB).filter(|stub| *stub != 0)?;
    Some(stub..stub.saturating_add(PAGE_BYTES))
}

/// Whether a thread is there.
pub fn is_in_search(memory: &Memory, tid: i32) -> bool {
    ptrace::registers(tid).is_ok_and(|registers| {
        search(memory, &registers).is_some_and(|page| page.contains(&registers.rip))
    })
}

/// Whether the jump that leads a thread there begins in some code. It is taken away when the
/// place is found.
pub fn leads_to_search(memory: &Memory, tid: i32, address: u64, bytes: usize) -> bool {
    const JUMP: u8 = 0xe9;
    const JUMP_BYTES: usize = 5;
    let Some(page) = ptrace::registers(tid).ok().and_then(|registers| search(memory, &registers))
    else {
        return false;
    };
    let mut code = vec![0; bytes + JUMP_BYTES - 1];
    let count = memory.read(address, &mut code);
    (address + JUMP_BYTES as u64..).zip(code[..count].windows(JUMP_BYTES)).any(|(next, jump)| {
        let distance = i32::from_le_bytes([jump[1], jump[2], jump[3], jump[4]]);
        jump[0] == JUMP && page.contains(&next.wrapping_add_signed(distance.into()))
    })
}
