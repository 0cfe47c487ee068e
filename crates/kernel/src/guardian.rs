//! The guardian: a small process beside the supervisor. It acts when the supervisor cannot: after
//! the supervisor was killed, and while job control has stopped it.

use crate::{check, process};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// The supervisor ends normally.
const DISMISS: u8 = 1;
/// The supervisor stops itself. The value is what it had last seen.
const STOPPING: u8 = 2;
/// The supervisor continues.
const AWAKE: u8 = 3;
/// The value is a note for the owner of the vigil.
const NOTE: u8 = 4;
/// How often the guardian of a stopped supervisor checks whether the supervisor must continue.
const LOOK_MS: i32 = 20;

type Message = [u8; 9];

fn message(kind: u8, value: u64) -> Message {
    let mut message = [kind; 9];
    message[1..].copy_from_slice(&value.to_ne_bytes());
    message
}

/// The supervisor's handle for its guardian.
#[derive(Debug)]
pub struct Guardian {
    pid: i32,
    line: Line,
}

/// The two sides after the fork.
#[derive(Debug)]
pub enum Forked {
    /// This process is the supervisor.
    Supervisor(Guardian),
    /// This process is the guardian, which waits on the vigil and then calls [`end`].
    Guardian(Vigil),
}

/// Ends the guardian without running the supervisor's exit handlers.
pub fn end() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(0) }
}

/// Closes the descriptors below a folder that the guardian inherited from the fork. They would keep
/// the space of files that the supervisor replaces. The owners of these descriptors must never be
/// used or dropped here.
pub fn close_files_in(folder: &Path) {
    let Ok(folder) = folder.canonicalize() else { return };
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let inside = entries
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|at| at.starts_with(&folder)));
    let descriptors: Vec<i32> =
        inside.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in descriptors {
        // SAFETY: its owner is never used or dropped in this process, as the documentation asks.
        unsafe { libc::close(descriptor) };
    }
}

impl Guardian {
    /// Forks the guardian. Other threads may only wait meanwhile: the guardian is a copy of this
    /// process with only the calling thread.
    ///
    /// # Errors
    /// No process or descriptor is left.
    pub fn fork() -> io::Result<Forked> {
        let (read, write) = process::pipe()?;
        // SAFETY: no arguments.
        let supervisor = unsafe { libc::getpid() };
        // SAFETY: no other thread holds a lock, as the documentation asks, so the child may go on
        // normally.
        let pid = unsafe { libc::fork() };
        check(i64::from(pid))?;
        if pid != 0 {
            return Ok(Forked::Supervisor(Self { pid, line: Line(Arc::new(write)) }));
        }
        drop(write);
        become_guardian();
        Ok(Forked::Guardian(Vigil { link: read, supervisor, stopped: None }))
    }

    /// Forks a guardian that only calls `clean_up`, if this process ends without
    /// [`Guardian::dismiss`].
    ///
    /// # Errors
    /// As [`Guardian::fork`].
    pub fn start(clean_up: impl FnOnce()) -> io::Result<Self> {
        let mut vigil = match Self::fork()? {
            Forked::Supervisor(guardian) => return Ok(guardian),
            Forked::Guardian(vigil) => vigil,
        };
        if vigil.next(|_| false) == Word::Gone {
            clean_up();
        }
        end()
    }

    /// Returns the guardian's process ID.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns a line for sending notes to the guardian.
    pub fn line(&self) -> Line {
        self.line.clone()
    }

    /// Stops this process as job control does, until another process continues it. The guardian
    /// does so once the supervisor must continue: see [`Vigil::next`], which gets `seen`.
    pub fn stop_self(&self, seen: u64) {
        // Without a guardian, no process would continue us. So we do not stop.
        if !self.line.send(STOPPING, seen) {
            return;
        }
        // SAFETY: plain system call.
        unsafe { libc::raise(libc::SIGSTOP) };
        self.line.send(AWAKE, 0);
    }

    /// Dismisses the guardian, because everything ended normally.
    pub fn dismiss(self) -> Dismissed {
        self.line.send(DISMISS, 0);
        Dismissed { pid: self.pid }
    }
}

/// The supervisor's end of the line to its guardian.
#[derive(Debug, Clone)]
pub struct Line(Arc<File>);

impl Line {
    /// Sends a number to the guardian.
    pub fn note(&self, value: u64) {
        // Without a guardian, the note is not needed.
        self.send(NOTE, value);
    }

    fn send(&self, kind: u8, value: u64) -> bool {
        (&*self.0).write_all(&message(kind, value)).is_ok()
    }
}

fn become_guardian() {
    // SAFETY: plain system calls on our own, new process.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"guardian".as_ptr());
        // Signals to all processes of this name are meant for the supervisor. The guardian waits
        // for the supervisor's end.
        for number in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::signal(number, libc::SIG_IGN);
        }
        for descriptor in 0..3 {
            libc::close(descriptor);
        }
    }
}

/// What the guardian is told.
#[derive(Debug, PartialEq, Eq)]
pub enum Word {
    /// A number from the supervisor.
    Note(u64),
    /// The supervisor ends normally.
    Dismissed,
    /// The supervisor is gone.
    Gone,
}

/// The guardian's end of the line.
#[derive(Debug)]
pub struct Vigil {
    link: File,
    supervisor: i32,
    /// While the supervisor is stopped: what it had seen before it stopped itself.
    stopped: Option<u64>,
}

impl Vigil {
    /// Waits for a message from the supervisor or for its end. While the supervisor is stopped,
    /// continues it once it must go on. Repeats that until the supervisor says that it continues,
    /// since the first signal may come before it has stopped.
    pub fn next(&mut self, must_go_on: impl Fn(u64) -> bool) -> Word {
        loop {
            let timeout = if self.stopped.is_some() { LOOK_MS } else { -1 };
            if !process::is_readable(&self.link, timeout) {
                if self.stopped.is_some_and(&must_go_on) {
                    process::kill(self.supervisor, libc::SIGCONT);
                }
                continue;
            }
            let mut message: Message = [0; 9];
            if self.link.read_exact(&mut message).is_err() {
                return Word::Gone;
            }
            let [kind, value @ ..] = message;
            let value = u64::from_ne_bytes(value);
            match kind {
                DISMISS => return Word::Dismissed,
                NOTE => return Word::Note(value),
                _ => self.stopped = (kind == STOPPING).then_some(value),
            }
        }
    }
}

/// A guardian that is about to end.
#[derive(Debug)]
#[must_use]
pub struct Dismissed {
    pid: i32,
}

impl Dismissed {
    /// Waits until the guardian has ended.
    pub fn wait(self) {
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(self.pid, &mut status, 0) };
    }
}
