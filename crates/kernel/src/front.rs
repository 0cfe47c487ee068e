//! A process in front of a recorder. It ends as soon as the recorded program has ended. The
//! recorder then keeps recording the processes that the program left running.

use crate::{check, process, signals};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

/// How often the front checks whether the recorder has stopped, in milliseconds.
const LOOK_MS: i32 = 100;

/// The two sides after the fork.
#[derive(Debug)]
pub enum Side {
    /// The original process, for which its parent waits.
    Front(Front),
    /// Its child, which does the recording.
    Behind(Behind),
}

/// The front process.
#[derive(Debug)]
pub struct Front {
    recorder: i32,
    link: File,
}

/// The recorder's link to its front process.
#[derive(Debug)]
pub struct Behind {
    link: File,
}

/// Forks this process, which must have only one thread.
///
/// # Errors
/// No process or descriptor is left.
pub fn split() -> io::Result<Side> {
    let (read, write) = process::pipe()?;
    // SAFETY: there is no other thread, so the child may go on normally.
    let recorder = unsafe { libc::fork() };
    check(i64::from(recorder))?;
    Ok(match recorder {
        0 => Side::Behind(Behind { link: write }),
        _ => Side::Front(Front { recorder, link: read }),
    })
}

impl Front {
    /// Waits until the program or its recorder has ended. Returns the wait status with which this
    /// process is to end. Meanwhile signals are passed to the recorder, and this process stops when
    /// the recorder does.
    pub fn wait(mut self) -> i32 {
        signals::pass_to(self.recorder);
        loop {
            if process::is_readable(&self.link, LOOK_MS) {
                let mut status = [0; 4];
                return match self.link.read_exact(&mut status) {
                    Ok(()) => i32::from_ne_bytes(status),
                    Err(_) => self.change(0).unwrap_or(0),
                };
            }
            let stopped = self.change(libc::WNOHANG | libc::WUNTRACED);
            if stopped.is_some_and(|status| libc::WIFSTOPPED(status)) {
                // SAFETY: plain system call.
                unsafe { libc::raise(libc::SIGSTOP) };
                process::kill(self.recorder, libc::SIGCONT);
            }
        }
    }

    /// Returns the recorder's wait status, if it has changed.
    fn change(&self, options: i32) -> Option<i32> {
        let mut status = 0;
        loop {
            // SAFETY: our own child; the kernel writes one number.
            match unsafe { libc::waitpid(self.recorder, &mut status, options) } {
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                found => return (found > 0).then_some(status),
            }
        }
    }
}

impl Behind {
    /// Ends the front process with a wait status. First closes this process's standard input and
    /// output, so that readers of the front's output see its end.
    pub fn let_front_end(&self, status: i32) {
        if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
            for standard in 0..3 {
                // SAFETY: both descriptors are open, and the standard ones have no owner.
                unsafe { libc::dup2(null.as_raw_fd(), standard) };
            }
        }
        // The front may have been killed already.
        let _ = (&self.link).write_all(&status.to_ne_bytes());
    }
}
