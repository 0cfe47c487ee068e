//! ptrace for a debugger, which traces many threads for a long time. Each request is a small safe
//! function on a thread ID.
//!
//! All functions must be called from the operating-system thread that seized the tracee.
//! [`crate::tracee`] is for the recorder, which traces one thread for a moment.

use crate::check;
use std::io;

/// The registers of a thread, in the kernel's layout.
pub type Registers = libc::user_regs_struct;

/// Registers that are all zero.
pub const NO_REGISTERS: Registers = Registers {
    r15: 0,
    r14: 0,
    r13: 0,
    r12: 0,
    rbp: 0,
    rbx: 0,
    r11: 0,
    r10: 0,
    r9: 0,
    r8: 0,
    rax: 0,
    rcx: 0,
    rdx: 0,
    rsi: 0,
    rdi: 0,
    orig_rax: 0,
    rip: 0,
    cs: 0,
    eflags: 0,
    rsp: 0,
    ss: 0,
    fs_base: 0,
    gs_base: 0,
    ds: 0,
    es: 0,
    fs: 0,
    gs: 0,
};

/// The size of a siginfo.
pub const SIGINFO_BYTES: usize = 128;
const LARGEST_EXTENDED_BYTES: usize = 16 << 10;
const NT_X86_XSTATE: usize = 0x202;
const CHILDREN: i32 =
    libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
const OPTIONS: i32 = CHILDREN | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;

/// What happened to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It has stopped for a signal.
    Signal(i32),
    /// It has stopped with one of the `PTRACE_EVENT_*`.
    Event(i32),
    /// It ended with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

fn request(kind: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the callers below pass integers only, or pointers to memory of the size that the
    // request wants.
    check(unsafe { libc::ptrace(kind, tid, address, data) }).map(drop)
}

/// Traces a thread without stopping it. All that it creates is traced, too. If the tracer dies, all
/// of it is killed.
///
/// # Errors
/// EPERM: the thread is already traced, or the machine forbids tracing. ESRCH: it is gone.
pub fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize)
}

/// As [`seize`], but what the thread creates is not traced, and it goes on if the tracer dies.
///
/// # Errors
/// As [`seize`].
pub fn seize_gently(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, 0)
}

/// Makes a stopped thread stop again with `PTRACE_EVENT_EXIT` when it exits, while its resources
/// still exist.
///
/// # Errors
/// The thread is gone.
pub fn stop_at_exit(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, (OPTIONS | libc::PTRACE_O_TRACEEXIT) as usize)
}

/// Asks a running thread to stop. It stops with `PTRACE_EVENT_STOP`.
///
/// # Errors
/// The thread is gone.
pub fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a stopped thread run, with a signal if `signal` is not 0.
///
/// # Errors
/// The thread is gone.
pub fn resume(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// Lets a stopped thread execute one instruction.
///
/// # Errors
/// The thread is gone.
pub fn step(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SINGLESTEP, tid, 0, signal as usize)
}

/// Ends the tracing of a stopped thread.
///
/// # Errors
/// The thread is gone.
pub fn detach(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, 0)
}

/// Returns the value that belongs to an event: the ID of a new thread or process.
///
/// # Errors
/// The thread is gone.
pub fn event_message(tid: i32) -> io::Result<i32> {
    let mut message = 0usize;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message) as usize)?;
    Ok(message as i32)
}

/// Returns the next report of a child or tracee of this thread; `None` if there is no report, or no
/// child or tracee is left. Ignores children of other threads.
pub fn poll(tid: i32) -> Option<(i32, Status)> {
    look(tid).ok().flatten()
}

/// As [`poll`]; `None` only if there is no report.
///
/// # Errors
/// No child or tracee is left.
pub fn look(tid: i32) -> io::Result<Option<(i32, Status)>> {
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    let got = unsafe {
        libc::waitpid(tid, &mut status, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG)
    };
    check(i64::from(got))?;
    Ok((got > 0).then(|| (got, decode(status))))
}

/// Waits for the next report of this thread.
///
/// # Errors
/// It is no child or tracee of this thread.
pub fn wait(tid: i32) -> io::Result<Status> {
    loop {
        let mut status = 0;
        // SAFETY: as above.
        let got = unsafe { libc::waitpid(tid, &mut status, libc::__WALL) };
        match check(i64::from(got)) {
            Ok(_) => return Ok(decode(status)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn decode(status: i32) -> Status {
    if libc::WIFEXITED(status) {
        Status::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Status::Killed(libc::WTERMSIG(status))
    } else if status >> 16 != 0 {
        Status::Event(status >> 16)
    } else {
        Status::Signal(libc::WSTOPSIG(status))
    }
}

/// Returns the registers of a stopped thread.
///
/// # Errors
/// The thread is gone.
pub fn registers(tid: i32) -> io::Result<Registers> {
    // SAFETY: an all-zero structure of integers is valid.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, (&raw mut registers) as usize)?;
    Ok(registers)
}

/// Sets the registers of a stopped thread.
///
/// # Errors
/// The thread is gone, or a segment base is not a user address.
pub fn set_registers(tid: i32, registers: &Registers) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, (registers as *const Registers) as usize)
}

/// Returns the x87 and vector registers of a stopped thread, in the layout of XSAVE without
/// compaction.
///
/// # Errors
/// The thread is gone.
pub fn extended_state(tid: i32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LARGEST_EXTENDED_BYTES];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, (&raw mut vector) as usize)?;
    bytes.truncate(vector.iov_len);
    Ok(bytes)
}

/// Sets the x87 and vector registers.
///
/// # Errors
/// The thread is gone, or the bytes are not such a state.
pub fn set_extended_state(tid: i32, bytes: &[u8]) -> io::Result<()> {
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, (&raw mut vector) as usize)
}

/// Returns the siginfo of the signal for which a thread is stopped.
///
/// # Errors
/// The thread is gone, or not stopped for a signal.
pub fn siginfo(tid: i32) -> io::Result<[u8; SIGINFO_BYTES]> {
    let mut bytes = [0; SIGINFO_BYTES];
    request(libc::PTRACE_GETSIGINFO, tid, 0, bytes.as_mut_ptr() as usize)?;
    Ok(bytes)
}

/// Sets the siginfo of that signal.
///
/// # Errors
/// Those of [`siginfo`].
pub fn set_siginfo(tid: i32, bytes: &[u8; SIGINFO_BYTES]) -> io::Result<()> {
    request(libc::PTRACE_SETSIGINFO, tid, 0, bytes.as_ptr() as usize)
}

/// Returns the signals that a stopped thread blocks; bit 0 is signal 1.
///
/// # Errors
/// The thread is gone.
pub fn signal_mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    request(PTRACE_GETSIGMASK, tid, 8, (&raw mut mask) as usize)?;
    Ok(mask)
}

/// Sets the signals that a stopped thread blocks.
///
/// # Errors
/// The thread is gone.
pub fn set_signal_mask(tid: i32, mask: u64) -> io::Result<()> {
    request(PTRACE_SETSIGMASK, tid, 8, (&raw const mask) as usize)
}

/// Returns one of the eight debug registers of a stopped thread.
///
/// # Errors
/// The thread is gone.
pub fn debug_register(tid: i32, index: usize) -> io::Result<u64> {
    // The C library returns the value itself, so that -1 is told from an error by errno only.
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: no memory of ours.
    let value = unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, tid, debug_offset(index), 0) };
    match io::Error::last_os_error() {
        error if value == -1 && error.raw_os_error() != Some(0) => Err(error),
        _ => Ok(value as u64),
    }
}

/// Sets a debug register.
///
/// # Errors
/// The thread is gone, or the processor has no such breakpoint.
pub fn set_debug_register(tid: i32, index: usize, value: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEUSER, tid, debug_offset(index), value as usize)
}

fn debug_offset(index: usize) -> usize {
    std::mem::offset_of!(libc::user, u_debugreg) + 8 * index
}

/// A thread's restartable sequences, as it has registered them with the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sequences {
    /// The address of the area to which the kernel writes; 0: none is registered.
    pub address: u64,
    pub bytes: u32,
    pub signature: u32,
    flags: u32,
    padding: u32,
}

/// Returns what a stopped thread has registered.
///
/// # Errors
/// The thread is gone, or the kernel is older than Linux 5.13.
pub fn sequences(tid: i32) -> io::Result<Sequences> {
    const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
    let mut found = Sequences::default();
    request(PTRACE_GET_RSEQ_CONFIGURATION, tid, size_of::<Sequences>(), (&raw mut found) as usize)?;
    Ok(found)
}
