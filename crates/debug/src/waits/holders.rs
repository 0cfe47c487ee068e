//! The processes that have a file open, and those that hold a lock on a file, as far as the
//! recording tells. The state is that at some time, or at the end of the recording.

use super::Helper;
use super::deeds::{self, Deed, Range, What};
use crate::error::Result;
use crate::history::ended;
use retake_recording::{Recording, StreamId, StreamKind};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The object of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    /// An end of a pipe.
    Pipe { number: u64, is_writing: bool },
    /// An end of a pair of sockets.
    Pair { number: u64, is_second: bool },
    /// A file, a FIFO or a device.
    File { path: String },
}

#[derive(Debug, Clone)]
struct Descriptor {
    object: Object,
    /// The number of the open file description, which copies of the descriptor share.
    description: u64,
    closes_on_exec: bool,
}

#[derive(Debug, Default)]
struct Process {
    descriptors: HashMap<u32, Descriptor>,
    parent: Option<i32>,
    /// The number of threads that have not ended.
    threads: u64,
    has_ended: bool,
}

/// The owner of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Process(i32),
    Description(u64),
}

#[derive(Debug)]
struct Lock {
    path: String,
    /// The range; `None` for the whole file, locked with flock.
    range: Option<Range>,
    owner: Owner,
    /// The process that took the lock, and the event with which it did.
    pid: i32,
    event: u64,
}

/// All processes at a time.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    processes: BTreeMap<i32, Process>,
    locks: Vec<Lock>,
    made: u64,
}

/// What a process waits for, and the helpers that could end the wait.
pub(super) type Sought = (String, Vec<Helper>);

impl Holders {
    /// Reads the state at a time since recording began; `None` for the end.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn of(recording: &Recording, until_ns: Option<u64>) -> Result<Self> {
        let streams: HashMap<StreamId, (i32, bool)> = recording
            .streams()
            .map(|one| (one.info.id, (one.info.pid, one.info.kind == StreamKind::Thread)))
            .collect();
        // Keep the state of processes that were ended from outside.
        let outside: HashSet<i32> =
            ended::from_outside(recording)?.into_iter().map(|ended| ended.pid).collect();
        let mut holders = Self::default();
        for deed in deeds::of(recording)? {
            if until_ns.is_some_and(|until| deed.ns > until) {
                break;
            }
            let is_kept = matches!(deed.what, What::Die) && outside.contains(&deed.pid);
            if !is_kept {
                holders.take(deed, &streams);
            }
        }
        Ok(holders)
    }

    fn take(&mut self, deed: Deed, streams: &HashMap<StreamId, (i32, bool)>) {
        let pid = deed.pid;
        match deed.what {
            What::Begin => self.process(pid).threads += 1,
            What::Child { stream } => {
                if let Some(&(child, false)) = streams.get(&stream) {
                    let descriptors = self.process(pid).descriptors.clone();
                    let process = Process { descriptors, parent: Some(pid), ..Process::default() };
                    self.processes.insert(child, process);
                }
            }
            What::Exit { all_threads } => {
                let process = self.process(pid);
                process.threads = process.threads.saturating_sub(1);
                process.has_ended |= all_threads || process.threads == 0;
            }
            What::Die => self.process(pid).has_ended = true,
            What::Kill { pid } if pid > 0 => {
                if let Some(killed) = self.processes.get_mut(&pid) {
                    killed.has_ended = true;
                }
            }
            What::Kill { .. } => {}
            What::Exec => {
                self.process(pid).descriptors.retain(|_, descriptor| !descriptor.closes_on_exec);
            }
            What::LockFile { descriptor, operation } => {
                self.lock_file(pid, descriptor, operation, deed.index);
            }
            What::LockRange { descriptor, is_of_description, range } => {
                self.lock_range(pid, descriptor, is_of_description, range, deed.index);
            }
            what => self.change(pid, what),
        }
    }

    /// Applies a change of descriptors.
    fn change(&mut self, pid: i32, what: What) {
        match what {
            What::Pipe { ends, closes_on_exec } => {
                let number = self.next_number();
                for (descriptor, is_writing) in ends.into_iter().zip([false, true]) {
                    self.put(pid, descriptor, Object::Pipe { number, is_writing }, closes_on_exec);
                }
            }
            What::Pair { ends, closes_on_exec } => {
                let number = self.next_number();
                for (descriptor, is_second) in ends.into_iter().zip([false, true]) {
                    self.put(pid, descriptor, Object::Pair { number, is_second }, closes_on_exec);
                }
            }
            What::Open { descriptor, path, closes_on_exec } => {
                self.put(pid, descriptor, Object::File { path }, closes_on_exec);
            }
            What::Duplicate { old, new, closes_on_exec } => {
                let descriptors = &mut self.process(pid).descriptors;
                match descriptors.get(&old).cloned() {
                    Some(copied) => {
                        descriptors.insert(new, Descriptor { closes_on_exec, ..copied });
                    }
                    None => drop(descriptors.remove(&new)),
                }
            }
            What::Close { first, last } => self.close(pid, first, last),
            What::ClosesOnExec { descriptor, closes } => {
                if let Some(known) = self.process(pid).descriptors.get_mut(&descriptor) {
                    known.closes_on_exec = closes;
                }
            }
            _ => {}
        }
    }

    fn process(&mut self, pid: i32) -> &mut Process {
        self.processes.entry(pid).or_default()
    }

    fn next_number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn put(&mut self, pid: i32, descriptor: u32, object: Object, closes_on_exec: bool) {
        let description = self.next_number();
        self.process(pid)
            .descriptors
            .insert(descriptor, Descriptor { object, description, closes_on_exec });
    }

    /// Closes descriptors. A process that closes a descriptor of a file loses all its locks on
    /// ranges of the file.
    fn close(&mut self, pid: i32, first: u32, last: u32) {
        let descriptors = &mut self.process(pid).descriptors;
        let is_meant = |number: &u32| (first..=last).contains(number);
        let closed: Vec<Object> = descriptors
            .iter()
            .filter(|(number, _)| is_meant(number))
            .map(|(_, descriptor)| descriptor.object.clone())
            .collect();
        descriptors.retain(|number, _| !is_meant(number));
        self.locks.retain(|lock| {
            lock.owner != Owner::Process(pid)
                || !closed.contains(&Object::File { path: lock.path.clone() })
        });
    }

    fn lock_file(&mut self, pid: i32, descriptor: u32, operation: u32, event: u64) {
        let Some((path, description)) = self.file(pid, descriptor) else { return };
        let owner = Owner::Description(description);
        self.locks.retain(|lock| lock.owner != owner || lock.range.is_some());
        if operation & libc::LOCK_UN as u32 == 0 {
            self.locks.push(Lock { path, range: None, owner, pid, event });
        }
    }

    fn lock_range(
        &mut self,
        pid: i32,
        descriptor: u32,
        is_of_description: bool,
        range: Range,
        event: u64,
    ) {
        let Some((path, description)) = self.file(pid, descriptor) else { return };
        let owner =
            if is_of_description { Owner::Description(description) } else { Owner::Process(pid) };
        // Releasing a part of a range counts as releasing all of it. So a holder may be missing,
        // but no process is called a holder that is none.
        self.locks.retain(|lock| {
            lock.owner != owner
                || lock.path != path
                || !lock.range.is_some_and(|held| held.overlaps(range))
        });
        if i32::from(range.kind) != libc::F_UNLCK {
            self.locks.push(Lock { path, range: Some(range), owner, pid, event });
        }
    }

    fn file(&self, pid: i32, descriptor: u32) -> Option<(String, u64)> {
        match self.processes.get(&pid)?.descriptors.get(&descriptor)? {
            Descriptor { object: Object::File { path }, description, .. } => {
                Some((path.clone(), *description))
            }
            _ => None,
        }
    }

    // ---- questions ----

    fn living(&self) -> impl Iterator<Item = (i32, &Process)> {
        self.processes.iter().filter(|(_, one)| !one.has_ended).map(|(pid, one)| (*pid, one))
    }

    fn who_has(&self, object: &Object, how: &str) -> Vec<Helper> {
        let has = |process: &Process| {
            process.descriptors.values().any(|descriptor| descriptor.object == *object)
        };
        self.living()
            .filter(|(_, process)| has(process))
            .map(|(pid, _)| Helper::process(pid, how))
            .collect()
    }

    /// What a process waits for when it reads from a descriptor or writes to it.
    pub fn data(&self, pid: i32, descriptor: u32, is_input: bool) -> Sought {
        let object = self
            .processes
            .get(&pid)
            .and_then(|process| process.descriptors.get(&descriptor))
            .map(|descriptor| &descriptor.object);
        let of = |name: &str| match is_input {
            true => format!("data from {name} (descriptor {descriptor})"),
            false => format!("room in {name} (descriptor {descriptor})"),
        };
        let open = "whose other end is open in";
        match object {
            Some(Object::Pipe { number, .. }) => {
                let other = Object::Pipe { number: *number, is_writing: is_input };
                (of("a pipe"), self.who_has(&other, open))
            }
            Some(Object::Pair { number, is_second }) => {
                let other = Object::Pair { number: *number, is_second: !is_second };
                (of("a pair of sockets"), self.who_has(&other, open))
            }
            Some(Object::File { path }) => (of(path), Vec::new()),
            None if is_input => (format!("data from descriptor {descriptor}"), Vec::new()),
            None => (format!("room behind descriptor {descriptor}"), Vec::new()),
        }
    }

    /// What a process waits for when it wants a lock on a file: on a range, or on the whole file
    /// with flock.
    pub fn lock(&self, pid: i32, descriptor: u32, range: Option<Range>) -> Sought {
        let Some((path, description)) = self.file(pid, descriptor) else {
            return (format!("a lock on the file with descriptor {descriptor}"), Vec::new());
        };
        let mine = [Owner::Process(pid), Owner::Description(description)];
        let conflicts = |lock: &&Lock| {
            lock.path == path
                && !mine.contains(&lock.owner)
                && match (range, lock.range) {
                    (None, None) => true,
                    (Some(one), Some(other)) => one.overlaps(other),
                    _ => false,
                }
        };
        let helpers = self.locks.iter().filter(conflicts).flat_map(|lock| self.owners(lock));
        (format!("a lock on {path} (descriptor {descriptor})"), helpers.collect())
    }

    /// The living processes that hold a lock.
    fn owners(&self, lock: &Lock) -> Vec<Helper> {
        let has = |process: &Process, description: u64| {
            process.descriptors.values().any(|one| one.description == description)
        };
        let mut owners: Vec<Helper> = self
            .living()
            .filter(|(pid, process)| match lock.owner {
                Owner::Process(owner) => owner == *pid,
                Owner::Description(description) => has(process, description),
            })
            .map(|(pid, _)| Helper::process(pid, "held by"))
            .collect();
        for owner in owners.iter_mut().filter(|owner| owner.pid == lock.pid) {
            owner.since = Some(format!("taken with its event {}", lock.event));
        }
        owners
    }

    /// What a process waits for when it waits for a child: for this one, or for any.
    pub fn children(&self, pid: i32, which: Option<i32>) -> Sought {
        let is_meant = |child: i32, process: &Process| {
            process.parent == Some(pid) && which.is_none_or(|which| which == child)
        };
        let living = self
            .living()
            .filter(|(child, process)| is_meant(*child, process))
            .map(|(child, _)| Helper::process(child, "that is"));
        ("the end of a child".to_owned(), living.collect())
    }
}
