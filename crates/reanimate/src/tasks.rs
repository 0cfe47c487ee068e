//! Processes and threads of the trace, with their descriptors, directories and users.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::access::{AccessLog, Ticket};
use crate::action::Identity;
use crate::handle::Handle;
use crate::world::{Base, FifoUses, NodeRef};

/// The object of an open file.
#[derive(Debug)]
pub enum Opened {
    /// A file or a directory, which the replay opens, too.
    Node(NodeRef),
    /// An end of a pipe, which the replay makes, too.
    Pipe,
    /// An object whose calls are not executed, with the reason.
    Virtual(&'static str),
}

/// An open file description, shared by duplicated and inherited descriptors.
#[derive(Debug)]
pub struct Description {
    /// What was opened.
    pub opened: Opened,
    /// The file as the workers share it.
    pub handle: Arc<Handle>,
    /// The call that opens it.
    pub opened_by: Ticket,
    /// Uses of the file position, or of the order of a pipe's data.
    pub position_log: RefCell<AccessLog>,
    /// The file position, if it is known.
    pub position: Cell<Option<u64>>,
    /// Flags of `open`.
    pub flags: Cell<u32>,
    /// For a named pipe: its uses through other descriptions.
    pub fifo: OnceCell<Rc<FifoUses>>,
    /// For a connected socket: the channel that passes descriptors.
    pub channel: RefCell<Option<Channel>>,
    /// For a listening socket: its incomplete connections.
    pub backlog: RefCell<Backlog>,
}

/// Descriptors in flight, grouped by message.
pub type Passed = Rc<RefCell<VecDeque<Vec<Rc<Description>>>>>;

/// One end of a pair of connected sockets.
#[derive(Debug, Clone, Default)]
pub struct Channel {
    /// Messages from the other end.
    pub inbox: Passed,
    /// Messages to the other end.
    pub outbox: Passed,
}

impl Channel {
    /// The same channel as the other end sees it.
    pub fn reversed(&self) -> Self {
        Self { inbox: Rc::clone(&self.outbox), outbox: Rc::clone(&self.inbox) }
    }
}

/// Incomplete connections: made but not yet accepted, or, if the trace has the return of `accept`
/// first, accepted but not yet made.
#[derive(Debug, Default)]
pub struct Backlog {
    /// The channels that the next calls of `accept` get.
    pub made: VecDeque<Channel>,
    /// The accepted sockets that wait for a connection.
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

/// An entry of a descriptor table.
#[derive(Debug, Clone)]
pub struct Slot {
    /// What it refers to.
    pub description: Rc<Description>,
    /// Whether exec closes it.
    pub closes_on_exec: bool,
}

/// The descriptor table of a process.
#[derive(Debug, Clone, Default)]
pub struct Descriptors {
    slots: BTreeMap<i32, Slot>,
    /// Entries whose number another call got before they were closed, with the return time of that
    /// call: the call that closes the entry returned later.
    displaced: HashMap<i32, VecDeque<(Slot, u64)>>,
}

impl Descriptors {
    /// Returns the entry of a descriptor number.
    pub fn get(&self, number: i32) -> Option<&Slot> {
        self.slots.get(&number)
    }

    /// Returns the entry of a descriptor number, to be changed.
    pub fn get_mut(&mut self, number: i32) -> Option<&mut Slot> {
        self.slots.get_mut(&number)
    }

    /// Adds an entry for a call that returned at `returned_ns`.
    pub fn install(&mut self, number: i32, slot: Slot, returned_ns: u64) {
        if let Some(earlier) = self.slots.insert(number, slot) {
            self.displaced.entry(number).or_default().push_back((earlier, returned_ns));
        }
    }

    /// Sets an entry and returns the previous one: `dup2`.
    pub fn replace(&mut self, number: i32, slot: Slot) -> Option<Slot> {
        self.slots.insert(number, slot)
    }

    /// Removes an entry for a call that was entered at `entered_ns`.
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

    /// Removes all entries of a range.
    pub fn close_range(&mut self, first: u32, last: u32) -> Vec<Slot> {
        let numbers: Vec<i32> = self.range(first, last).collect();
        numbers.into_iter().filter_map(|number| self.slots.remove(&number)).collect()
    }

    /// Marks all entries of a range as closed by exec.
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

    /// Removes the entries that exec closes.
    pub fn close_on_exec(&mut self) -> Vec<Slot> {
        let closed = self.slots.extract_if(.., |_, slot| slot.closes_on_exec);
        closed.map(|(_, slot)| slot).collect()
    }

    /// All entries.
    pub fn all(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values().chain(self.displaced.values().flatten().map(|(slot, _)| slot))
    }
}

/// The directories and the umask of a process.
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
    /// Its directories, shared with other threads.
    pub surroundings: Rc<RefCell<Surroundings>>,
    /// Its user and groups.
    pub identity: Option<Arc<Identity>>,
    /// The worker that executes its calls.
    pub worker: u32,
    /// The call that made it. It is reset by the thread's first call.
    pub made_by: Option<Ticket>,
}

/// All threads that exist.
#[derive(Debug, Default)]
pub struct Threads {
    threads: BTreeMap<u32, Thread>,
    /// The threads of each process.
    processes: BTreeMap<u32, Vec<u32>>,
}

impl Threads {
    /// Returns a thread by its id, to be changed.
    pub fn get_mut(&mut self, thread: u32) -> Option<&mut Thread> {
        self.threads.get_mut(&thread)
    }

    /// Returns a thread by its id.
    pub fn get(&self, thread: u32) -> Option<&Thread> {
        self.threads.get(&thread)
    }

    /// Whether there are several threads, so that calls can overlap.
    pub fn are_several(&self) -> bool {
        self.threads.len() > 1
    }

    /// Returns any thread of a process.
    pub fn of_process(&self, process: u32) -> Option<&Thread> {
        let threads = self.processes.get(&process)?;
        threads.first().and_then(|thread| self.threads.get(thread))
    }

    /// Adds a thread. Returns a thread with the same id, if the trace lacks its end.
    pub fn insert(&mut self, id: u32, thread: Thread) -> Option<Thread> {
        let earlier = self.remove(id);
        self.processes.entry(thread.process).or_default().push(id);
        self.threads.insert(id, thread);
        earlier
    }

    /// Removes a thread.
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

    /// The ids of all threads of a process.
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
