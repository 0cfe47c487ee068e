//! The guardian: a small process beside the supervisor, for the times at which the supervisor can
//! do nothing: after it was killed, and while job control has stopped it.

use crate::{check, process};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// The supervisor ends well.
const DISMISS: u8 = 1;
/// It stops itself. The eight bytes behind this one are what it had last seen.
const STOPPING: u8 = 2;
/// It goes on.
const AWAKE: u8 = 3;
/// The eight bytes behind this one are for the one who keeps vigil.
const NOTE: u8 = 4;
/// How often the guardian of a stopped supervisor looks whether it must go on.
const LOOK_MS: i32 = 20;

type Message = [u8; 9];

fn message(kind: u8, value: u64) -> Message {
    let mut message = [kind; 9];
    message[1..].copy_from_slice(&value.to_ne_bytes());
    message
}

/// The guardian, as its supervisor knows it.
#[derive(Debug)]
pub struct Guardian {
    pid: i32,
    line: Line,
}

/// Who is who after the fork.
#[derive(Debug)]
pub enum Forked {
    /// The supervisor goes on.
    Supervisor(Guardian),
    /// This is the guardian: to keep vigil, and then to [`end`].
    Guardian(Vigil),
}

/// Ends the guardian, without running what the supervisor registered.
pub fn end() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(0) }
}

/// Closes what a guardian has open below a folder since before the fork. It would keep the room of
/// files that its supervisor replaces. Whoever owns them here must never be used or dropped.
pub fn close_files_in(folder: &Path) {
    let Ok(folder) = folder.canonicalize() else { return };
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let inside = entries
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|at| at.starts_with(&folder)));
    let descriptors: Vec<i32> =
        inside.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in descriptors {
        // SAFETY: no owner of it is used or dropped in this process, as the documentation asks.
        unsafe { libc::close(descriptor) };
    }
}

impl Guardian {
    /// Forks it. Other threads may do nothing but wait meanwhile: the guardian goes on in a copy of
    /// this process that has only this thread.
    ///
    /// # Errors
    /// No process, no descriptor.
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

    /// Forks one that does nothing but `clean_up` if this process ends without
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

    /// Its process number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Takes notes for it.
    pub fn line(&self) -> Line {
        self.line.clone()
    }

    /// Stops this process, as job control does, until somebody continues it. The guardian does, as
    /// soon as it must go on, as [`Vigil::next`] is told of `seen`.
    pub fn stop_self(&self, seen: u64) {
        // Without a guardian nobody could wake us: then this process goes on.
        if !self.line.send(STOPPING, seen) {
            return;
        }
        // SAFETY: plain system call.
        unsafe { libc::raise(libc::SIGSTOP) };
        self.line.send(AWAKE, 0);
    }

    /// Sends it away: everything ended well.
    pub fn dismiss(self) -> Dismissed {
        self.line.send(DISMISS, 0);
        Dismissed { pid: self.pid }
    }
}

/// Where a supervisor's word goes to its guardian.
#[derive(Debug, Clone)]
pub struct Line(Arc<File>);

impl Line {
    /// Tells the guardian a number.
    pub fn note(&self, value: u64) {
        self.send(NOTE, value); // without a guardian nobody needs it
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
        // Signals to everything of this name are meant for the supervisor, and the guardian waits
        // for its end.
        for number in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::signal(number, libc::SIG_IGN);
        }
        for descriptor in 0..3 {
            libc::close(descriptor);
        }
    }
}

/// What a guardian hears.
#[derive(Debug, PartialEq, Eq)]
pub enum Word {
    /// A number that the supervisor notes.
    Note(u64),
    /// The supervisor ends well.
    Dismissed,
    /// It is gone.
    Gone,
}

/// The guardian's side of the line.
#[derive(Debug)]
pub struct Vigil {
    link: File,
    supervisor: i32,
    /// What the supervisor had seen before it stopped itself.
    stopped: Option<u64>,
}

impl Vigil {
    /// Waits for the supervisor's word or end. While it is stopped, wakes it when it must go on:
    /// again and again until it says that it did, since the first time may come before it has
    /// stopped.
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
    /// Returns when it has ended.
    pub fn wait(self) {
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(self.pid, &mut status, 0) };
    }
}
