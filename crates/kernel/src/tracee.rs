//! The few moments in which the supervisor is a tracer: from just before an exec to the stop after
//! it.
//!
//! [`Attached`] is a running thread under this tracer; [`Stopped`] is a thread at a stop. Only a
//! stopped one has registers, and resuming consumes it, so code that touches a running tracee does
//! not compile. Both belong to the operating-system thread that attached.

use crate::check;
use std::io;

/// A running tracee.
#[derive(Debug)]
pub struct Attached {
    tid: i32,
}

/// A tracee at a stop.
#[derive(Debug)]
pub struct Stopped {
    tid: i32,
}

/// Why [`Attached::wait`] returned.
#[derive(Debug)]
pub enum Event {
    /// The exec succeeded; the new program has not run an instruction.
    Exec(Stopped),
    /// A signal is about to be delivered.
    Signal(Stopped, i32),
    /// Job control stopped the process.
    GroupStop(Stopped),
    /// The tracee is gone, with this wait status. A tracer that is also its parent will not get the
    /// status again.
    Gone(Option<i32>),
}

const WNOTHREAD: i32 = 0x2000_0000;

/// Waits for the end of a killed tracee of this thread, and returns its wait status; `None` if it
/// is not a tracee of this thread.
pub fn end_of(tid: i32) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the call. WNOTHREAD: only what this thread attached.
        let pid = unsafe { libc::waitpid(tid, &mut status, libc::__WALL | WNOTHREAD) };
        if pid < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
        if pid == tid && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
            return Some(status);
        }
    }
}

impl Attached {
    /// Attaches without stopping the thread. If this process dies, the tracee is killed.
    ///
    /// # Errors
    /// EPERM: the thread is already traced, or the machine forbids tracing
    /// (`kernel.yama.ptrace_scope`, seccomp). ESRCH: it is gone.
    pub fn seize(tid: i32) -> io::Result<Self> {
        let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
        // SAFETY: PTRACE_SEIZE takes no memory of ours.
        check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0, options as usize) })?;
        Ok(Self { tid })
    }

    /// Waits for the next stop or the end. After an exec by another thread of the process, the
    /// thread has the ID of the process.
    pub fn wait(self) -> Event {
        loop {
            let mut status = 0;
            // SAFETY: `status` is valid for the call. WNOTHREAD: only what this thread attached.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | WNOTHREAD) };
            if pid < 0 {
                if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Event::Gone(None);
            }
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                if pid == self.tid {
                    return Event::Gone(Some(status));
                }
                continue;
            }
            let stopped = Stopped { tid: pid };
            return match (status >> 16, libc::WSTOPSIG(status)) {
                (libc::PTRACE_EVENT_EXEC, _) => Event::Exec(stopped),
                (libc::PTRACE_EVENT_STOP, libc::SIGTRAP) => {
                    // The job-control stop has ended. A thread that was killed meanwhile reports
                    // its end.
                    let _ = stopped.resume(0);
                    continue;
                }
                (libc::PTRACE_EVENT_STOP, _) => Event::GroupStop(stopped),
                (_, signal) => Event::Signal(stopped, signal),
            };
        }
    }
}

impl Stopped {
    /// Returns the thread ID.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Returns the registers.
    ///
    /// # Errors
    /// The thread was killed meanwhile.
    pub fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: an all-zero structure of integers is valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one structure of exactly this type.
        check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.tid, 0, &mut registers) })?;
        Ok(registers)
    }

    /// Sets the registers.
    ///
    /// # Errors
    /// The thread was killed meanwhile.
    pub fn set_registers(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        // SAFETY: the kernel reads one structure of exactly this type.
        check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.tid, 0, registers) })?;
        Ok(())
    }

    /// Writes into the tracee's memory, even into read-only pages, which are copied first. The
    /// bytes after the end within the last 8-byte word stay unchanged.
    ///
    /// # Errors
    /// The thread was killed meanwhile, or there is no memory at the address.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        for (at, part) in (address..).step_by(8).zip(bytes.chunks(8)) {
            let mut word = if part.len() == 8 { [0; 8] } else { self.word(at)?.to_ne_bytes() };
            word[..part.len()].copy_from_slice(part);
            // SAFETY: the word is passed by value.
            check(unsafe {
                libc::ptrace(libc::PTRACE_POKEDATA, self.tid, at, u64::from_ne_bytes(word))
            })?;
        }
        Ok(())
    }

    fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = 0u64;
        // SAFETY: the kernel's own interface, unlike the C library's, stores the word where the
        // last argument says.
        check(unsafe {
            libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, self.tid, address, &mut word)
        })?;
        Ok(word)
    }

    /// Continues the thread, with a signal if `signal` is not 0.
    ///
    /// # Errors
    /// The thread was killed meanwhile.
    pub fn resume(self, signal: i32) -> io::Result<Attached> {
        // SAFETY: no memory of ours.
        check(unsafe { libc::ptrace(libc::PTRACE_CONT, self.tid, 0, signal as usize) })?;
        Ok(Attached { tid: self.tid })
    }

    /// Leaves the thread in its job-control stop, but reports what happens to it next.
    ///
    /// # Errors
    /// The thread was killed meanwhile.
    pub fn listen(self) -> io::Result<Attached> {
        // SAFETY: no memory of ours.
        check(unsafe { libc::ptrace(libc::PTRACE_LISTEN, self.tid, 0, 0) })?;
        Ok(Attached { tid: self.tid })
    }

    /// Detaches; the thread continues untraced.
    ///
    /// # Errors
    /// The thread was killed meanwhile.
    pub fn detach(self) -> io::Result<()> {
        // SAFETY: no memory of ours.
        check(unsafe { libc::ptrace(libc::PTRACE_DETACH, self.tid, 0, 0) })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn a_stopped_tracee_goes_on_after_sigcont() {
        let script = "read line; kill -STOP $$; exit 7";
        let mut child =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let mut attached = Attached::seize(pid).unwrap();
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut stops = 0;
        let status = loop {
            attached = match attached.wait() {
                Event::GroupStop(stopped) => {
                    stops += 1;
                    assert_eq!(stops, 1, "it stops once");
                    let attached = stopped.listen().unwrap();
                    crate::process::kill(pid, libc::SIGCONT);
                    attached
                }
                Event::Signal(stopped, signal) => stopped.resume(signal).unwrap(),
                Event::Exec(stopped) => stopped.resume(0).unwrap(),
                Event::Gone(status) => break status,
            };
        };
        let _ = child.wait(); // the loop above has its status already
        assert_eq!((status, stops), (Some(7 << 8), 1));
    }
}
