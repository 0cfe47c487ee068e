//! Several processes at once: the kernel tells what all of them do in one queue, and each is to hear of its own.

use super::Process;
use retake_kernel::ptrace::{self, Status};
use std::cell::RefCell;
use std::collections::HashMap;

thread_local! {
    /// What those that run apart did and have not heard of yet.
    static UNHEARD: RefCell<HashMap<i32, Vec<Status>>> = RefCell::default();
}

/// As long as this lives, what a thread does is kept for its process.
#[derive(Debug)]
pub(super) struct Apart(i32);

impl Drop for Apart {
    fn drop(&mut self) {
        UNHEARD.with_borrow_mut(|unheard| unheard.remove(&self.0));
    }
}

impl Process {
    /// This process, which has one thread, is to run beside another one.
    pub fn set_apart(&mut self) {
        UNHEARD.with_borrow_mut(|unheard| unheard.insert(self.pid, Vec::new()));
        self.apart = Some(Apart(self.pid));
    }

    /// What one of its threads did.
    pub(super) fn poll_one(&self, tid: i32) -> Option<Status> {
        if self.apart.is_some() { self.poll() } else { ptrace::poll(tid) }.map(|(_, status)| status)
    }

    /// What happened to this process or its children, if anything did. Its order within a thread is kept.
    pub(super) fn poll(&self) -> Option<(i32, Status)> {
        if self.apart.is_some() {
            let unheard = UNHEARD.with_borrow_mut(|unheard| unheard.get_mut(&self.pid).and_then(|all| (!all.is_empty()).then(|| all.remove(0))));
            return unheard.map(|status| (self.pid, status)).or_else(|| ptrace::poll(self.pid));
        }
        loop {
            let (tid, status) = ptrace::poll(-1)?;
            let is_anothers = UNHEARD.with_borrow_mut(|unheard| unheard.get_mut(&tid).map(|all| all.push(status)).is_some());
            if !is_anothers {
                return Some((tid, status));
            }
        }
    }
}
