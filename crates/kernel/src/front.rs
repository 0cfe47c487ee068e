//! A process in front of a recorder. It ends as soon as the recorded program has ended, and the
//! recorder goes on behind it with what that program left running.

use crate::{check, process, signals};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

/// How often the front looks whether the recorder has stopped, in milliseconds.
const LOOK_MS: i32 = 100;

/// Who is who after the fork.
#[derive(Debug)]
pub enum Side {
    /// The process that somebody started and waits for.
    Front(Front),
    /// A child of it, which is to record.
    Behind(Behind),
}

/// The process in front.
#[derive(Debug)]
pub struct Front {
    recorder: i32,
    link: File,
}

/// The recorder's line to its front.
#[derive(Debug)]
pub struct Behind {
    link: File,
}

/// Splits this process in two. It has one thread.
///
/// # Errors
/// No process, no descriptor.
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
    /// Waits until the program or its recorder has ended. Returns how this process is to end, as a
    /// wait status. Meanwhile signals go to the recorder, and this process stops when that does.
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

    /// What the kernel tells of the recorder.
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
    /// Lets the front end with a wait status. From here on this process has no input and no output:
    /// whoever reads what the front printed shall find its end.
    pub fn let_front_end(&self, status: i32) {
        if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
            for standard in 0..3 {
                // SAFETY: both descriptors are open, and nobody owns the standard ones.
                unsafe { libc::dup2(null.as_raw_fd(), standard) };
            }
        }
        let _ = (&self.link).write_all(&status.to_ne_bytes()); // somebody may have ended it
    }
}
