//! Several processes at once: the kernel tells what all of them do in one queue, and each is to
//! hear of its own.

use super::Process;
use retake_kernel::process::{group_leader, kill, parent, threads};
use retake_kernel::ptrace::{self, Status};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;

thread_local! {
    /// By thread, what those that run apart did and have not heard of yet.
    static UNHEARD: RefCell<HashMap<i32, VecDeque<Status>>> = RefCell::default();
}

/// As long as this lives, what these threads do is kept for their process.
#[derive(Debug)]
pub(super) struct Apart(Vec<i32>);

impl Drop for Apart {
    fn drop(&mut self) {
        UNHEARD.with_borrow_mut(|unheard| self.0.iter().for_each(|tid| drop(unheard.remove(tid))));
    }
}

impl Apart {
    /// What one of its threads did that nobody has heard of. Its order within a thread is kept.
    fn look_at(&self, tid: i32) -> io::Result<Option<Status>> {
        let unheard =
            UNHEARD.with_borrow_mut(|unheard| unheard.get_mut(&tid).and_then(VecDeque::pop_front));
        match unheard {
            Some(status) => Ok(Some(status)),
            None => Ok(ptrace::look(tid)?.map(|(_, status)| status)),
        }
    }
}

/// A process that runs apart may make no threads: it is ended. The first thread's end is told when
/// all others' have been heard.
fn end_if_it_made_threads(pid: i32, known: &[i32]) {
    for tid in threads(pid).filter(|tid| !known.contains(tid)) {
        kill(pid, libc::SIGKILL);
        let _ = ptrace::poll(tid);
    }
}

impl Process {
    /// This process, with the threads that it has now, is to run beside another one. It may make
    /// neither threads nor children.
    pub fn set_apart(&mut self) {
        self.apart = None;
        let all: Vec<i32> = self.threads.iter().map(|thread| thread.tid).collect();
        UNHEARD.with_borrow_mut(|unheard| {
            unheard.extend(all.iter().map(|tid| (*tid, VecDeque::new())))
        });
        self.apart = Some(Apart(all));
    }

    /// What one of its threads did; `None`: nothing yet.
    ///
    /// # Errors
    /// It is gone.
    pub(super) fn look_at(&self, tid: i32) -> io::Result<Option<Status>> {
        match &self.apart {
            Some(apart) => apart.look_at(tid),
            None => Ok(ptrace::look(tid)?.map(|(_, status)| status)),
        }
    }

    /// What happened to this process or its children, if anything did.
    pub(super) fn poll(&self) -> Option<(i32, Status)> {
        if let Some(apart) = &self.apart {
            let heard = |tid: &i32| Some((*tid, apart.look_at(*tid).ok().flatten()?));
            let heard = apart.0.iter().find_map(heard);
            if heard.is_none() {
                end_if_it_made_threads(self.pid, &apart.0);
            }
            return heard;
        }
        loop {
            let (tid, status) = ptrace::poll(-1)?;
            let is_anothers = UNHEARD.with_borrow_mut(|unheard| {
                unheard.get_mut(&tid).map(|all| all.push_back(status)).is_some()
            });
            if !is_anothers && !self.is_made_by_another(tid) {
                return Some((tid, status));
            }
        }
    }

    /// Whether an unknown thread is, or is of, a child of a process that runs apart: then it is
    /// ended, as that process is.
    fn is_made_by_another(&self, tid: i32) -> bool {
        let is_known = self.threads.iter().any(|thread| thread.tid == tid)
            || self.guests.contains(&tid)
            || self.strangers.contains(&tid)
            || self.unclaimed.contains(&tid);
        if is_known || UNHEARD.with_borrow(HashMap::is_empty) {
            return false;
        }
        let Some(leader) = group_leader(tid) else { return false };
        let is_made = UNHEARD.with_borrow(|unheard| {
            [Some(leader), parent(leader)].iter().flatten().any(|pid| unheard.contains_key(pid))
        });
        if is_made {
            kill(leader, libc::SIGKILL);
        }
        is_made
    }
}
