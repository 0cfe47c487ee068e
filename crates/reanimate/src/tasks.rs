//! Processes and threads of the trace: their descriptors, directories, users.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::access::{AccessLog, Ticket};
use crate::action::Identity;
use crate::handle::Handle;
use crate::world::{Base, FifoUses, NodeRef};

/// What an open file is.
#[derive(Debug)]
pub enum Opened {
    /// A file or a directory, which is opened in the replay, too.
    Node(NodeRef),
    /// An end of a pipe, likewise.
    Pipe,
    /// Calls on it are not repeated, for this reason.
    Virtual(&'static str),
}

/// An open file description. Descriptors that were duplicated or inherited share it.
#[derive(Debug)]
pub struct Description {
    /// What was opened.
    pub opened: Opened,
    /// How the workers know it.
    pub handle: Arc<Handle>,
    /// The call that opens it.
    pub opened_by: Ticket,
    /// Uses of its position, or of the order of a pipe's data.
    pub position_log: RefCell<AccessLog>,
    /// Where it stands in the file, if that is known.
    pub position: Cell<Option<u64>>,
    /// Flags of `open`.
    pub flags: Cell<u32>,
    /// Of a named pipe: its uses by others.
    pub fifo: OnceCell<Rc<FifoUses>>,
    /// Of a socket that is connected: what descriptors go through.
    pub channel: RefCell<Option<Channel>>,
    /// Of a socket that others connect to.
    pub backlog: RefCell<Backlog>,
}

/// Descriptors on their way, a message each.
pub type Passed = Rc<RefCell<VecDeque<Vec<Rc<Description>>>>>;

/// What one end of two connected sockets receives from, and sends to.
#[derive(Debug, Clone, Default)]
pub struct Channel {
    /// From the other end.
    pub inbox: Passed,
    /// To the other end.
    pub outbox: Passed,
}

impl Channel {
    /// As the other end has it.
    pub fn reversed(&self) -> Self {
        Self { inbox: Rc::clone(&self.outbox), outbox: Rc::clone(&self.inbox) }
    }
}

/// Connections that are not complete: those that were made and not accepted, or, where the trace
/// has the return of `accept` first, those that were accepted and not made.
#[derive(Debug, Default)]
pub struct Backlog {
    /// Ends for who accepts next.
    pub made: VecDeque<Channel>,
    /// Who waits for the next one.
    pub accepted: VecDeque<Weak<Description>>,
}

impl Description {
    /// A newly opened file.
    pub fn new(opened: Opened, opened_by: Ticket, flags: u32) -> Rc<Self> {
        Rc::new(Self {
            opened,
            handle: Arc::default(),
            opened_by,
            position_log: RefCell::default(),
            position: Cell::new(Some(0)),
            flags: Cell::new(flags),
            fifo: OnceCell::new(),
            channel: RefCell::default(),
            backlog: RefCell::default(),
        })
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        if let Some(fifo) = self
            .fifo
            .get()
            .filter(|_| self.flags.get() & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32)
        {
            fifo.open_writers.set(fifo.open_writers.get() - 1);
        }
    }
}

/// A descriptor.
#[derive(Debug, Clone)]
pub struct Slot {
    /// What it refers to.
    pub description: Rc<Description>,
    /// Closed by exec.
    pub closes_on_exec: bool,
}

/// A table of descriptors.
#[derive(Debug, Clone, Default)]
pub struct Descriptors {
    slots: BTreeMap<i32, Slot>,
    /// What had a number when another call got the same one, with the return of that call: the call
    /// that closed it was slower to return.
    displaced: HashMap<i32, VecDeque<(Slot, u64)>>,
}

impl Descriptors {
    /// The descriptor of that number.
    pub fn get(&self, number: i32) -> Option<&Slot> {
        self.slots.get(&number)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, number: i32) -> Option<&mut Slot> {
        self.slots.get_mut(&number)
    }

    /// Gives a number to a new descriptor, as a call did that returned then.
    pub fn install(&mut self, number: i32, slot: Slot, returned_ns: u64) {
        if let Some(earlier) = self.slots.insert(number, slot) {
            self.displaced.entry(number).or_default().push_back((earlier, returned_ns));
        }
    }

    /// Gives a number to a descriptor, and returns what had it: `dup2`.
    pub fn replace(&mut self, number: i32, slot: Slot) -> Option<Slot> {
        self.slots.insert(number, slot)
    }

    /// Takes a number away, as a call did that was entered then.
    pub fn close(&mut self, number: i32, entered_ns: u64) -> Option<Slot> {
        if let Some(waiting) = self.displaced.get_mut(&number) {
            let earlier = waiting.pop_front_if(|(_, returned_ns)| entered_ns < *returned_ns);
            if waiting.is_empty() {
                self.displaced.remove(&number);
            }
            if let Some((slot, _)) = earlier {
                return Some(slot);
            }
        }
        self.slots.remove(&number)
    }

    /// Takes all numbers of a range away.
    pub fn close_range(&mut self, first: u32, last: u32) -> Vec<Slot> {
        let numbers: Vec<i32> = self.range(first, last).collect();
        numbers.into_iter().filter_map(|number| self.slots.remove(&number)).collect()
    }

    /// Marks all numbers of a range to be closed by exec.
    pub fn mark_range(&mut self, first: u32, last: u32) {
        let numbers: Vec<i32> = self.range(first, last).collect();
        for number in numbers {
            if let Some(slot) = self.slots.get_mut(&number) {
                slot.closes_on_exec = true;
            }
        }
    }

    fn range(&self, first: u32, last: u32) -> impl Iterator<Item = i32> {
        let numbers = self.slots.keys().copied();
        numbers.filter(move |number| (first..=last).contains(&(*number as u32)))
    }

    /// Takes away what exec closes.
    pub fn close_on_exec(&mut self) -> Vec<Slot> {
        let closed = self.slots.extract_if(.., |_, slot| slot.closes_on_exec);
        closed.map(|(_, slot)| slot).collect()
    }

    /// Every descriptor.
    pub fn all(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values().chain(self.displaced.values().flatten().map(|(slot, _)| slot))
    }
}

/// Directories and mask of a process.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Root and working directory.
    pub base: Base,
    /// Mode bits that new files do not get.
    pub umask: u32,
}

/// A traced thread.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its process.
    pub process: u32,
    /// Its descriptors, shared with other threads.
    pub descriptors: Rc<RefCell<Descriptors>>,
    /// Its directories, likewise.
    pub surroundings: Rc<RefCell<Surroundings>>,
    /// Its users.
    pub identity: Option<Arc<Identity>>,
    /// The worker that executes its calls.
    pub worker: u32,
    /// The call that made it, until its own first call.
    pub made_by: Option<Ticket>,
}

/// All threads that live.
#[derive(Debug, Default)]
pub struct Threads {
    threads: BTreeMap<u32, Thread>,
    /// The threads of each process.
    processes: BTreeMap<u32, Vec<u32>>,
}

impl Threads {
    /// The thread of that id.
    pub fn get_mut(&mut self, thread: u32) -> Option<&mut Thread> {
        self.threads.get_mut(&thread)
    }

    /// The thread of that id.
    pub fn get(&self, thread: u32) -> Option<&Thread> {
        self.threads.get(&thread)
    }

    /// Whether calls can overlap.
    pub fn are_several(&self) -> bool {
        self.threads.len() > 1
    }

    /// Any thread of a process.
    pub fn of_process(&self, process: u32) -> Option<&Thread> {
        let threads = self.processes.get(&process)?;
        threads.first().and_then(|thread| self.threads.get(thread))
    }

    /// Adds a thread; returns the one that had its id, whose end was not seen.
    pub fn insert(&mut self, id: u32, thread: Thread) -> Option<Thread> {
        let earlier = self.remove(id);
        self.processes.entry(thread.process).or_default().push(id);
        self.threads.insert(id, thread);
        earlier
    }

    /// Takes a thread away.
    pub fn remove(&mut self, id: u32) -> Option<Thread> {
        let thread = self.threads.remove(&id)?;
        if let Some(threads) = self.processes.get_mut(&thread.process) {
            threads.retain(|other| *other != id);
            if threads.is_empty() {
                self.processes.remove(&thread.process);
            }
        }
        Some(thread)
    }

    /// Ids of all threads of a process.
    pub fn ids_of(&self, process: u32) -> Vec<u32> {
        self.processes.get(&process).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Slot {
        let ticket = Ticket { worker: 0, sequence: 1 };
        Slot {
            description: Description::new(Opened::Virtual("test"), ticket, 0),
            closes_on_exec: false,
        }
    }

    #[test]
    fn a_number_reused_before_its_close_returned_is_closed_once() {
        let mut descriptors = Descriptors::default();
        let (first, second) = (slot(), slot());
        descriptors.install(5, first.clone(), 10);
        // Another thread got the number while the close, entered at 15, had not returned.
        descriptors.install(5, second.clone(), 20);
        let closed = descriptors.close(5, 15).unwrap();
        assert!(Rc::ptr_eq(&closed.description, &first.description));
        assert!(Rc::ptr_eq(&descriptors.get(5).unwrap().description, &second.description));
        assert!(descriptors.close(5, 30).is_some());
        assert!(descriptors.close(5, 40).is_none());
    }

    #[test]
    fn exec_and_ranges_close_what_they_should() {
        let mut descriptors = Descriptors::default();
        for descriptor in 0..10 {
            let slot = Slot { closes_on_exec: descriptor == 3, ..slot() };
            descriptors.install(descriptor, slot, 0);
        }
        assert_eq!(descriptors.close_on_exec().len(), 1);
        assert_eq!(descriptors.close_range(5, u32::MAX).len(), 5);
        descriptors.mark_range(0, 1);
        assert_eq!(descriptors.close_on_exec().len(), 2);
        assert_eq!(descriptors.all().count(), 2);
    }
}
