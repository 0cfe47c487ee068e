//! System calls that a stopped thread makes for us. Copies of processes and their threads are made
//! with them.

use retake_kernel::context;
use retake_kernel::ptrace::{self, Registers, Status};
use retake_kernel::shared::{RUNTIME_DATA, RUNTIME_TEXT};
use std::io;

const CLONE_PARENT: u64 = 0x8000;
/// CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD, CLONE_SYSVSEM.
const CLONE_OF_THREAD: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const PR_SYS_DISPATCH_ON: u64 = 1;
/// The value of `orig_rax` outside of system calls: the kernel restarts nothing.
const NO_CALL: u64 = u64::MAX;
const USUAL_FLAGS: u64 = 0x202;

/// Makes a stopped thread make a system call with at most six arguments, and restores its
/// registers. Returns the result, and the process or thread that the call made.
///
/// # Errors
/// The thread is gone.
pub fn call<const COUNT: usize>(
    tid: i32,
    number: i64,
    arguments: [u64; COUNT],
) -> io::Result<(i64, Option<i32>)> {
    call_at(tid, context::REMOTE_CALL, number, arguments)
}

/// As [`call`], with the `syscall` instruction and the trap at another place.
///
/// # Errors
/// As [`call`].
pub fn call_at<const COUNT: usize>(
    tid: i32,
    place: u64,
    number: i64,
    arguments: [u64; COUNT],
) -> io::Result<(i64, Option<i32>)> {
    let returned = place + 3;
    let before = ptrace::registers(tid)?;
    let [rdi, rsi, rdx, r10, r8, r9] =
        std::array::from_fn(|index| arguments.get(index).copied().unwrap_or(0));
    let during = Registers {
        rip: place,
        rax: number as u64,
        orig_rax: NO_CALL,
        rdi,
        rsi,
        rdx,
        r10,
        r8,
        r9,
        ..before
    };
    ptrace::set_registers(tid, &during)?;
    ptrace::resume(tid, 0)?;
    let mut child = None;
    loop {
        match ptrace::wait(tid)? {
            Status::Signal(libc::SIGTRAP) if ptrace::registers(tid)?.rip == returned => break,
            Status::Event(libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE) => {
                child = ptrace::event_message(tid).ok()
            }
            Status::Exited(_) | Status::Killed(_) => return Err(io::ErrorKind::NotFound.into()),
            _ => {}
        }
        ptrace::resume(tid, 0)?;
    }
    let result = ptrace::registers(tid)?.rax as i64;
    ptrace::set_registers(tid, &before)?;
    Ok((result, child))
}

/// Turns the result of a call into an error if it is one.
///
/// # Errors
/// The call failed.
pub fn checked(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(()) }
}

/// Makes a copy of a process with a copy of this thread only. The copy is traced, and stopped where
/// the thread is.
///
/// # Errors
/// The process cannot be copied, for example for lack of memory.
pub fn fork(tid: i32) -> io::Result<i32> {
    let (result, child) =
        call(tid, libc::SYS_clone, [CLONE_PARENT | libc::SIGCHLD as u64, 0, 0, 0, 0])?;
    checked(result)?;
    let child =
        child.ok_or_else(|| io::Error::other("the copy of the process was not announced"))?;
    while ptrace::wait(child)? != Status::Event(libc::PTRACE_EVENT_STOP) {
        ptrace::resume(child, 0)?;
    }
    ptrace::set_registers(child, &ptrace::registers(tid)?)?;
    Ok(child)
}

/// Makes one more thread in a stopped process. It is traced, and stopped before it has done
/// anything.
///
/// # Errors
/// The thread cannot be made, for example for lack of memory.
pub fn thread(tid: i32) -> io::Result<i32> {
    let (result, child) = call(tid, libc::SYS_clone, [CLONE_OF_THREAD, 0, 0, 0, 0])?;
    checked(result)?;
    let child = child.ok_or_else(|| io::Error::other("the new thread was not announced"))?;
    while ptrace::wait(child)? != Status::Event(libc::PTRACE_EVENT_STOP) {
        ptrace::resume(child, 0)?;
    }
    Ok(child)
}

/// Turns on the interception of a thread's system calls again, which a copy does not inherit. Only
/// the runtime's calls are not intercepted.
///
/// # Errors
/// The kernel does not support it.
pub fn intercept_calls(tid: i32) -> io::Result<()> {
    // Nothing else is between the runtime's text and its data.
    let bytes = RUNTIME_DATA - RUNTIME_TEXT;
    let arguments = [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, RUNTIME_TEXT, bytes, 0];
    checked(call(tid, libc::SYS_prctl, arguments)?.0)
}

/// Sets a thread's alternate signal stack. `description` is the address of the kernel's structure
/// for it.
///
/// # Errors
/// The kernel does not accept the stack.
pub fn set_signal_stack(tid: i32, description: u64) -> io::Result<()> {
    checked(call(tid, libc::SYS_sigaltstack, [description, 0, 0, 0, 0])?.0)
}

/// Sets a stopped thread's registers so that it calls `attach_step` in the runtime with these
/// arguments. `stack`: the end of a stack that nothing else uses.
///
/// # Errors
/// The thread is gone.
pub fn set_step(tid: i32, stack: u64, [rdi, rsi, rdx]: [u64; 3]) -> io::Result<()> {
    let now = ptrace::registers(tid)?;
    let called = Registers {
        rip: context::ATTACH,
        rsp: stack,
        rbp: 0,
        rdi,
        rsi,
        rdx,
        orig_rax: NO_CALL,
        eflags: USUAL_FLAGS,
        ..now
    };
    ptrace::set_registers(tid, &called)
}

/// Makes a stopped thread do a step (`attach_step`), and stop again.
///
/// # Errors
/// The step failed, or the thread is gone.
pub fn step(tid: i32, stack: u64, arguments: [u64; 3]) -> io::Result<()> {
    set_step(tid, stack, arguments)?;
    ptrace::resume(tid, 0)?;
    loop {
        let signal = match ptrace::wait(tid)? {
            Status::Signal(libc::SIGTRAP) if ptrace::registers(tid)?.rip == context::ATTACHED => {
                return checked(ptrace::registers(tid)?.rax as i64);
            }
            // The supervisor's own, to stop a thread that computes.
            Status::Signal(libc::SIGTRAP) => 0,
            Status::Signal(signal) => signal,
            Status::Event(_) => 0,
            Status::Exited(_) | Status::Killed(_) => return Err(io::ErrorKind::NotFound.into()),
        };
        ptrace::resume(tid, signal)?;
    }
}
