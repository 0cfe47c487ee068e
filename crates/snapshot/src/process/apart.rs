//! Several processes at once. The kernel reports the events of all in one queue, and each process
//! must get its own.

use super::Process;
use retake_kernel::process::{group_leader, kill, parent, threads};
use retake_kernel::ptrace::{self, Status};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;

thread_local! {
    /// The statuses, by thread, that threads of processes running apart have not handled yet.
    static UNHEARD: RefCell<HashMap<i32, VecDeque<Status>>> = RefCell::default();
}

/// Keeps the statuses of these threads for their process while it lives.
#[derive(Debug)]
pub(super) struct Apart(Vec<i32>);

impl Drop for Apart {
    fn drop(&mut self) {
        UNHEARD.with_borrow_mut(|unheard| self.0.iter().for_each(|tid| drop(unheard.remove(tid))));
    }
}

impl Apart {
    /// Takes the next status of a thread, in the thread's order.
    fn look_at(&self, tid: i32) -> io::Result<Option<Status>> {
        let unheard =
            UNHEARD.with_borrow_mut(|unheard| unheard.get_mut(&tid).and_then(VecDeque::pop_front));
        match unheard {
            Some(status) => Ok(Some(status)),
            None => Ok(ptrace::look(tid)?.map(|(_, status)| status)),
        }
    }
}

/// Kills a process that runs apart if it has made threads. The kernel reports the first thread's
/// end only after all others' ends were read, so those are read here.
fn end_if_it_made_threads(pid: i32, known: &[i32]) {
    for tid in threads(pid).filter(|tid| !known.contains(tid)) {
        kill(pid, libc::SIGKILL);
        let _ = ptrace::poll(tid);
    }
}

impl Process {
    /// Lets this process, with its present threads, run beside another one. It may make neither
    /// threads nor children.
    pub fn set_apart(&mut self) {
        self.apart = None;
        let all: Vec<i32> = self.threads.iter().map(|thread| thread.tid).collect();
        UNHEARD.with_borrow_mut(|unheard| {
            unheard.extend(all.iter().map(|tid| (*tid, VecDeque::new())))
        });
        self.apart = Some(Apart(all));
    }

    /// Takes the next status of one of its threads; `None` if there is none yet.
    ///
    /// # Errors
    /// The thread is gone.
    pub(super) fn look_at(&self, tid: i32) -> io::Result<Option<Status>> {
        match &self.apart {
            Some(apart) => apart.look_at(tid),
            None => Ok(ptrace::look(tid)?.map(|(_, status)| status)),
        }
    }

    /// Takes the next status of this process or its children, if there is one.
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

    /// Whether an unknown thread is a child of a process that runs apart, or belongs to such a
    /// child. If so, the child and that process are killed.
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
