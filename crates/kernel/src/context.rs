//! The parts of the runtime that a debugger needs: a thread's `struct context`, as the contract
//! lays it out, and the entry points in the runtime's text for the debugger.

use crate::{memory, ptrace};
use retake_contract::addresses::{
    ENTRY_ATTACH, ENTRY_DEBUG_EVENT, ENTRY_IMAGE, ENTRY_PAUSE, ENTRY_REMOTE_CALL, ENTRY_SYSCALL,
    RUNTIME_TEXT,
};
use retake_contract::context::{registers, watch, watch_answer};
use std::io;

pub use retake_contract::addresses::{
    DEBUG_CALL, DEBUG_DEATH, DEBUG_EXEC, DEBUG_EXIT, DEBUG_FORK, DEBUG_RETURN, DEBUG_SIGNAL,
    DEBUG_THREAD_EXIT, DEBUG_THREAD_START, DEBUG_VFORK,
};
pub use retake_contract::context::context::*;
pub use retake_contract::context::{CAUGHT_WORDS, IN_IMAGE_NOT, IN_IMAGE_READY, IN_IMAGE_TAKER};

/// The offset of the flag that a replayed thread is searching for the place at which it was stopped
/// between two events.
pub const WATCH_ARMED: u64 = WATCH + watch::ARMED;
/// The offset of the page of the search stub, to which a jump in the program's text leads; 0 if
/// there is none.
pub const WATCH_STUB: u64 = WATCH + watch::ANSWER + watch_answer::STUB;
/// The start address of a thread that comes from an image of a recorded process.
pub const ENTER_IMAGE: u64 = RUNTIME_TEXT + ENTRY_IMAGE;
/// The address that calls `attach_step`, with a trap behind it.
pub const ATTACH: u64 = RUNTIME_TEXT + ENTRY_ATTACH;
/// The address behind that trap.
pub const ATTACHED: u64 = ATTACH + 6;
/// The entry point for the program's system calls.
pub const ENTRY_CALL: u64 = RUNTIME_TEXT + ENTRY_SYSCALL;
/// The address through which a thread returns to the program if [`PAUSE_AT`] says so.
pub const PAUSE: u64 = RUNTIME_TEXT + ENTRY_PAUSE;
/// The address of a `syscall` instruction that is followed by a trap.
pub const REMOTE_CALL: u64 = RUNTIME_TEXT + ENTRY_REMOTE_CALL;
/// The address of `debug_event(kind, value)`: two instructions, the second of which returns.
pub const DEBUG_EVENT: u64 = RUNTIME_TEXT + ENTRY_DEBUG_EVENT;

/// The number of registers in a context.
const REGISTERS: usize = registers::LAYOUT_BYTES / 8;
/// The parts that [`Context`] holds: their offsets and sizes.
const PARTS: [(u64, u64); 9] = [
    (REGS, registers::LAYOUT_BYTES as u64),
    (SCRATCH, 8),
    (EVENT_COUNT, 8),
    (PAUSE_AT, 8),
    (SLOT, 8),
    (TURN, 8),
    (SIGMASK, 8),
    (PID, 4),
    (TID, 4),
];
/// The range of these parts: the smallest offset and the largest end.
const SPAN: (u64, u64) = span(&PARTS);

const fn span(parts: &[(u64, u64)]) -> (u64, u64) {
    let (mut start, mut end) = (u64::MAX, 0);
    let mut index = 0;
    while index < parts.len() {
        let (offset, bytes) = parts[index];
        start = if offset < start { offset } else { start };
        end = if offset + bytes > end { offset + bytes } else { end };
        index += 1;
    }
    (start, end)
}

/// A copy of parts of a `struct context`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
    pub registers: [u64; REGISTERS],
    pub scratch: u64,
    pub event_count: u64,
    pub pause_at: u64,
    pub slot: u64,
    pub turn: u64,
    pub signal_mask: u64,
    pub pid: u32,
    pub tid: u32,
}

impl Context {
    /// Reads the context at `address` in a process.
    ///
    /// # Errors
    /// The memory is not there.
    pub fn read(pid: i32, address: u64) -> io::Result<Self> {
        let mut bytes = [0; (SPAN.1 - SPAN.0) as usize];
        memory::read(pid, address + SPAN.0, &mut bytes)?;
        let at = |offset: u64| &bytes[(offset - SPAN.0) as usize..];
        let word = |offset: u64| u64::from_le_bytes(std::array::from_fn(|i| at(offset)[i]));
        let half = |offset: u64| u32::from_le_bytes(std::array::from_fn(|i| at(offset)[i]));
        Ok(Self {
            registers: std::array::from_fn(|i| word(REGS + 8 * i as u64)),
            scratch: word(SCRATCH),
            event_count: word(EVENT_COUNT),
            pause_at: word(PAUSE_AT),
            slot: word(SLOT),
            turn: word(TURN),
            signal_mask: word(SIGMASK),
            pid: half(PID),
            tid: half(TID),
        })
    }

    /// Returns the program's registers, with the segment registers and bases of `others`.
    pub fn program_registers(&self, others: &ptrace::Registers) -> ptrace::Registers {
        let [
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rdi,
            rsi,
            rbp,
            rbx,
            rdx,
            rax,
            rcx,
            rsp,
            rip,
            eflags,
        ] = self.registers;
        let none = u64::MAX; // in no call, so that the kernel restarts none
        ptrace::Registers {
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rdi,
            rsi,
            rbp,
            rbx,
            rdx,
            rax,
            rcx,
            rsp,
            rip,
            eflags,
            orig_rax: none,
            ..*others
        }
    }
}

/// Returns the words of `registers` in the order of a context.
pub fn words_of(registers: &ptrace::Registers) -> [u64; REGISTERS] {
    let r = registers;
    [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx,
        r.rax, r.rcx, r.rsp, r.rip, r.eflags,
    ]
}
