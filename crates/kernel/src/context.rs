//! The part of the runtime's `struct context` that a debugger looks at, as `runtime/include/context.h` lays it out, and the places in the
//! runtime's text that are there for it. A test compares the offsets with the C side.

use crate::shared::RUNTIME_TEXT;
use crate::{memory, ptrace};
use std::io;

/// Offset of the program's registers while it is in the runtime: 18 words, in the order of the kernel's `sigcontext`.
pub const REGISTERS: u64 = 0x20;
/// Offset of the number of events that the thread has consumed.
pub const EVENT_COUNT: u64 = 0xb0;
/// Offset of what makes it stop at [`PAUSE`]: one more than a number of events; 0 for never.
pub const PAUSE_AT: u64 = 0xb8;
/// Offset of the address of the thread's slot.
pub const SLOT: u64 = 0xc0;
/// Offset of the turn that the thread holds; 0: none.
pub const TURN: u64 = 0xc8;
/// Offset of the program's signal mask.
pub const SIGNAL_MASK: u64 = 0xd0;
/// Offset of the process and thread numbers that the program knows.
pub const NUMBERS: u64 = 0xd8;
/// Offset of a bit for each system call that is announced: [`CAUGHT_WORDS`] words.
pub const CAUGHT: u64 = 0xe0;
/// So many words of 64 of them.
pub const CAUGHT_WORDS: usize = 8;
/// Offset of what makes all of them announced: one more than a number of events; 0 for never.
pub const TOLD_FROM: u64 = 0x120;
/// Offset of the address of the next event, and behind it that of the end of the window that it is in; both 0: there is none yet.
pub const LOG: u64 = 0x130;
/// Offset of the end of the window.
pub const LOG_END: u64 = 0x138;
/// Offset of the number of functions that lock which the thread has begun, with its sign: negative, it comes to the runtime at the next one.
pub const PASSAGES: u64 = 0x140;
/// Offset of whether a replayed thread looks for the place at which it was stopped between two events.
pub const WATCH_ARMED: u64 = 0x148;
/// Offset of the page of the stub that compares, to which a jump in the program's text leads; 0: there is none.
pub const WATCH_STUB: u64 = WATCH_ARMED + 296;
/// Offset of the address of the domain whose turns the thread takes; 0: none.
pub const DOMAIN: u64 = 832;
/// Offset of the numbers of the segments that are attached as windows, plus 1: [`WINDOW_PLACES`] words.
pub const WINDOW_SEGMENTS: u64 = 968;
/// So many of them.
pub const WINDOW_PLACES: usize = 2;
/// Offset of where in its stream the next event is.
pub const LOG_OFFSET: u64 = 992;
/// Offset of whether the output of the next call is printed already.
pub const PRINTED: u64 = 1000;
/// Where a stub keeps the program's `%rcx`.
pub const SCRATCH: u64 = 0x10;
/// Where the program's system calls come in.
pub const ENTRY_CALL: u64 = RUNTIME_TEXT;
/// Where a thread on its way back to the program passes when [`PAUSE_AT`] says so.
pub const PAUSE: u64 = RUNTIME_TEXT + 0x60;
/// A `syscall` instruction, and a trap behind it.
pub const REMOTE_CALL: u64 = RUNTIME_TEXT + 0x70;
/// `debug_event(kind, value)`: two instructions, the second of which returns.
pub const DEBUG_EVENT: u64 = RUNTIME_TEXT + 0x80;
/// What [`DEBUG_EVENT`] is called for: a signal is about to be delivered.
pub const EVENT_SIGNAL: u64 = 1;
/// The process is about to die by a signal.
pub const EVENT_DEATH: u64 = 2;
/// The process is about to exit.
pub const EVENT_EXIT: u64 = 3;
/// The thread is about to exit.
pub const EVENT_THREAD_EXIT: u64 = 4;
/// The thread has just begun.
pub const EVENT_THREAD_START: u64 = 5;
/// The program is about to make this system call, which has a bit at [`CAUGHT`].
pub const EVENT_CALL: u64 = 6;
/// Such a call is on its way back.
pub const EVENT_RETURN: u64 = 7;
/// The program has made this process.
pub const EVENT_FORK: u64 = 8;
/// The same, and waited until it executed a program or ended.
pub const EVENT_VFORK: u64 = 9;
/// The process is about to execute another program.
pub const EVENT_EXEC: u64 = 10;

const HEAD_BYTES: usize = 0xe0;

/// A copy of the beginning of a `struct context`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
    pub registers: [u64; 18],
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
    /// Reads the context at `address` of a process.
    ///
    /// # Errors
    /// It is not there.
    pub fn read(pid: i32, address: u64) -> io::Result<Self> {
        let mut bytes = [0; HEAD_BYTES];
        memory::read(pid, address, &mut bytes)?;
        let word = |offset: u64| u64::from_le_bytes(std::array::from_fn(|i| bytes[offset as usize + i]));
        let numbers = word(NUMBERS);
        Ok(Self {
            registers: std::array::from_fn(|i| word(REGISTERS + 8 * i as u64)),
            scratch: word(SCRATCH),
            event_count: word(EVENT_COUNT),
            pause_at: word(PAUSE_AT),
            slot: word(SLOT),
            turn: word(TURN),
            signal_mask: word(SIGNAL_MASK),
            pid: numbers as u32,
            tid: (numbers >> 32) as u32,
        })
    }

    /// The program's registers, with the segment registers and bases of `others`.
    pub fn program_registers(&self, others: &ptrace::Registers) -> ptrace::Registers {
        let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags] = self.registers;
        let none = u64::MAX; // in no system call, so that the kernel restarts none
        ptrace::Registers { r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags, orig_rax: none, ..*others }
    }
}

/// The words of `registers` in the order of a context.
pub fn words_of(registers: &ptrace::Registers) -> [u64; 18] {
    let r = registers;
    [r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx, r.rsp, r.rip, r.eflags]
}
