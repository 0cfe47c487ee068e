//! ptrace for following system calls: every thread stops when it enters a call and when it leaves
//! it.
//!
//! All requests must come from the operating-system thread that attached. Requests on a thread that
//! was killed meanwhile fail, and the next report is its end.

use crate::check;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a thread has stopped, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It enters or leaves a system call.
    Call,
    /// It has executed a program. The value is its former thread ID.
    Exec(i32),
    /// It has created a thread or a process with this ID.
    Child(i32),
    /// A signal is about to be delivered.
    Signal(i32),
    /// It has just started, or job control has stopped it.
    Group(i32),
    /// It is about to end, and its memory still exists. Only reported for threads attached with
    /// [`seize_to_the_end`].
    Exiting,
    /// It ended with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

/// What a thread is doing at [`Stop::Call`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStop {
    /// It enters a call with this number and these argument registers.
    Entry(u64, [u64; 6]),
    /// It leaves a call with this result.
    Exit(i64),
    /// Anything else.
    Other,
}

const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE;

/// What happens to the threads when the attached tracer thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
    /// They are killed.
    End,
    /// They continue untraced.
    GoOn,
}

/// Attaches to a thread without stopping it. All threads and processes that it creates from now on
/// are attached, too.
///
/// # Errors
/// EPERM: the thread is already traced, or the machine forbids tracing. ESRCH: it is gone.
pub fn seize(tid: i32, afterwards: Afterwards) -> io::Result<()> {
    seize_with(tid, afterwards, OPTIONS)
}

/// As [`seize`]. The threads also stop before they end.
///
/// # Errors
/// Those of [`seize`].
pub fn seize_to_the_end(tid: i32, afterwards: Afterwards) -> io::Result<()> {
    seize_with(tid, afterwards, OPTIONS | libc::PTRACE_O_TRACEEXIT)
}

fn seize_with(tid: i32, afterwards: Afterwards, options: i32) -> io::Result<()> {
    let options =
        if afterwards == Afterwards::End { options | libc::PTRACE_O_EXITKILL } else { options };
    // SAFETY: PTRACE_SEIZE takes no memory of ours.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0, options as usize) })?;
    Ok(())
}

/// The result of [`wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// A thread has stopped or ended.
    Stop(i32, Stop),
    /// A signal came, and `leave` was set.
    Asked,
    /// No thread is left.
    Nobody,
}

/// Waits for the next stop of any thread, or until a signal comes while `leave` is set.
pub fn wait(leave: &AtomicBool) -> Waited {
    wait_for(-1, leave)
}

/// As [`wait`], for a single thread.
pub fn wait_for(whom: i32, leave: &AtomicBool) -> Waited {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the call.
        let tid = unsafe { libc::waitpid(whom, &mut status, libc::__WALL) };
        if tid >= 0 {
            return Waited::Stop(tid, stop_of(tid, status));
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Waited::Nobody;
        }
        if leave.load(Ordering::Acquire) {
            return Waited::Asked;
        }
    }
}

fn stop_of(tid: i32, status: i32) -> Stop {
    if libc::WIFEXITED(status) {
        return Stop::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Stop::Killed(libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_EXEC => Stop::Exec(message(tid)),
        libc::PTRACE_EVENT_EXIT => Stop::Exiting,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            Stop::Child(message(tid))
        }
        _ => Stop::Group(signal),
    }
}

fn message(tid: i32) -> i32 {
    let mut value: libc::c_ulong = 0;
    // SAFETY: the kernel writes one word.
    unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &mut value) };
    value as i32
}

/// Continues a thread until its next stop, with a signal if `signal` is not 0.
///
/// # Errors
/// The thread is gone.
pub fn go_on(tid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: no memory of ours.
    check(unsafe { libc::ptrace(libc::PTRACE_SYSCALL, tid, 0, signal as usize) })?;
    Ok(())
}

/// Leaves a thread in its job-control stop, but reports what happens to it next.
///
/// # Errors
/// The thread is gone.
pub fn listen(tid: i32) -> io::Result<()> {
    // SAFETY: no memory of ours.
    check(unsafe { libc::ptrace(libc::PTRACE_LISTEN, tid, 0, 0) })?;
    Ok(())
}

/// Returns what a thread is doing at a call stop.
///
/// # Errors
/// The thread is gone.
pub fn call_stop(tid: i32) -> io::Result<CallStop> {
    // SAFETY: an all-zero structure of integers is valid.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = std::mem::size_of_val(&info);
    // SAFETY: the kernel writes at most `size` bytes of exactly this structure.
    check(unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, tid, size, &mut info) })?;
    // SAFETY: `op` says which member of the union the kernel has written; all are integers.
    unsafe {
        Ok(match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => CallStop::Entry(info.u.entry.nr, info.u.entry.args),
            libc::PTRACE_SYSCALL_INFO_EXIT => CallStop::Exit(info.u.exit.sval),
            _ => CallStop::Other,
        })
    }
}

/// Returns the siginfo of the signal that is about to be delivered to a thread.
///
/// # Errors
/// The thread is gone.
pub fn signal_info(tid: i32) -> io::Result<[u8; 128]> {
    let mut info = [0u64; 16];
    // SAFETY: a siginfo has 128 bytes.
    check(unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0, &mut info) })?;
    let mut bytes = [0; 128];
    for (to, from) in bytes.chunks_exact_mut(8).zip(info) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    Ok(bytes)
}

/// A set of processors on which a thread may run.
#[derive(Clone, Copy)]
pub struct Processors(libc::cpu_set_t);

impl Processors {
    /// Returns the processors of a thread; 0 is the calling thread.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn of(tid: i32) -> io::Result<Self> {
        // SAFETY: an all-zero set is valid.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes at most the size that is given.
        check(i64::from(unsafe {
            libc::sched_getaffinity(tid, std::mem::size_of_val(&set), &mut set)
        }))?;
        Ok(Self(set))
    }

    /// Returns a set with only the first of the processors.
    pub fn first(&self) -> Option<Self> {
        (0..libc::CPU_SETSIZE as u32).find_map(|number| self.only(number))
    }

    /// Returns a set with only this processor, if it is in the set.
    pub fn only(&self, number: u32) -> Option<Self> {
        let number =
            usize::try_from(number).ok().filter(|number| *number < libc::CPU_SETSIZE as usize)?;
        // SAFETY: the macro indexes a set of exactly that many bits.
        if !unsafe { libc::CPU_ISSET(number, &self.0) } {
            return None;
        }
        // SAFETY: an all-zero set is valid.
        let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::CPU_SET(number, &mut one) };
        Some(Self(one))
    }

    /// Creates a set from a bit mask in the kernel's numbering.
    pub fn from_words(words: impl IntoIterator<Item = u64>) -> Self {
        // SAFETY: an all-zero set is valid.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let bits =
            words.into_iter().flat_map(|word| (0..u64::BITS).map(move |bit| word >> bit & 1 == 1));
        for (number, _) in
            bits.take(libc::CPU_SETSIZE as usize).enumerate().filter(|(_, is_one)| *is_one)
        {
            // SAFETY: the macro indexes a set of exactly that many bits.
            unsafe { libc::CPU_SET(number, &mut set) };
        }
        Self(set)
    }

    /// Returns the number of processors in the set.
    pub fn count(&self) -> u32 {
        // SAFETY: the macro reads the set.
        unsafe { libc::CPU_COUNT(&self.0) as u32 }
    }

    /// Restricts a thread to these processors; 0 is the calling thread.
    ///
    /// # Errors
    /// The thread is gone, or none of the processors is available.
    pub fn give(&self, tid: i32) -> io::Result<()> {
        // SAFETY: the kernel reads one set.
        check(i64::from(unsafe {
            libc::sched_setaffinity(tid, std::mem::size_of_val(&self.0), &self.0)
        }))?;
        Ok(())
    }
}

/// Returns the processor that runs the caller.
pub fn current_processor() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::sched_getcpu() as u32 }
}
