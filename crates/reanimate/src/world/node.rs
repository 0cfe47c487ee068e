//! Files, directories and links as the trace knows them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::{Rc, Weak};

use super::content::Content;
use crate::access::{Access, AccessLog, Ticket, Tickets};
use crate::folder::Folder;

/// A shared node. It may be known under several names, and as an open file.
pub type NodeRef = Rc<RefCell<Node>>;

/// The most absent names that a directory logs one by one. Beyond this, it merges their logs.
const MAXIMUM_ABSENT: usize = 4096;

/// One file, directory or link.
#[derive(Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// The directory it is in. None for the root and for removed files. A file with several names
    /// has that of the latest name.
    pub parent: Weak<RefCell<Node>>,
    /// Its name in that directory.
    pub name: Vec<u8>,
    /// Uses of its mode, owner, links and extended attributes.
    pub attributes: AccessLog,
    /// Uses of its bytes, if it is a file.
    pub content: Content,
    /// Whether the trace made it. Otherwise, it may have names that the trace does not show.
    pub is_own: bool,
    /// Ranges that were copied from other files inside the kernel. Kept only during the
    /// preparation.
    pub copies: Vec<Copied>,
    /// Its state before the trace. Kept only during the preparation.
    pub origin: Option<Box<crate::prepare::Origin>>,
    /// The uses of a named pipe that was opened.
    pub fifo: Option<Rc<FifoUses>>,
    /// The folder that workers use for a directory, with the value of `World::renames` at that
    /// time.
    pub(super) folder: (u64, std::sync::Weak<Folder>),
}

/// Bytes that were copied from another file.
#[derive(Debug, Clone)]
pub struct Copied {
    /// The range in this file.
    pub range: Range<u64>,
    /// The file they were in.
    pub source: NodeRef,
    /// The offset of the range in the source.
    pub source_start: u64,
}

/// The kind of a node.
#[derive(Debug)]
pub enum Kind {
    /// Something that existed before the trace. The calls so far do not tell what it is.
    Unknown,
    /// A regular file.
    File,
    /// A directory.
    Directory(Directory),
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// Anything else. It can be renamed and removed, but is not opened.
    Other,
    /// Something whose calls are not repeated, for this reason.
    Simulated(&'static str),
}

/// The uses of a named pipe by all processes.
#[derive(Debug, Default)]
pub struct FifoUses {
    /// Opens for writing. Reads depend on whether a writer is left.
    pub writers: RefCell<AccessLog>,
    /// The number of open file descriptions with write access, as planned so far.
    pub open_writers: Cell<u32>,
    /// Writes.
    pub writes: RefCell<AccessLog>,
    /// Reads, of data or of an end of data.
    pub reads: RefCell<AccessLog>,
}

/// The state of a directory.
#[derive(Debug, Default)]
pub struct Directory {
    entries: HashMap<Box<[u8]>, Entry>,
    /// The reason why calls on it, and on names that it is not known to hold, are not repeated.
    pub simulated: Option<&'static str>,
    /// Uses of the list of entries.
    pub list: AccessLog,
    absent_count: usize,
    /// The latest calls on names whose entries were dropped.
    forgotten: Tickets,
}

/// A name in a directory.
#[derive(Debug, Default)]
pub struct Entry {
    /// The node. `None` if the name does not exist.
    pub node: Option<NodeRef>,
    /// Whether `node` is certain. Otherwise, a call only looked the name up.
    pub is_known: bool,
    /// Uses of the name.
    pub uses: AccessLog,
}

impl Node {
    /// Makes a node without uses.
    pub fn new(kind: Kind) -> NodeRef {
        let node = Self {
            kind,
            parent: Weak::new(),
            name: Vec::new(),
            attributes: AccessLog::default(),
            content: Content::default(),
            is_own: true,
            copies: Vec::new(),
            origin: None,
            fifo: None,
            folder: Default::default(),
        };
        Rc::new(RefCell::new(node))
    }

    /// Makes a directory that has no parent.
    pub fn directory() -> NodeRef {
        Self::new(Kind::Directory(Directory::default()))
    }

    /// Returns the directory, if it is one. A node of unknown kind becomes one.
    pub fn as_directory(&mut self) -> Option<&mut Directory> {
        if let Kind::Unknown = self.kind {
            self.kind = Kind::Directory(Directory::default());
        }
        match &mut self.kind {
            Kind::Directory(directory) => Some(directory),
            _ => None,
        }
    }
}

/// Drops the nodes iteratively: a trace can nest directories too deeply for recursion.
impl Drop for Directory {
    fn drop(&mut self) {
        let mut nodes: Vec<NodeRef> =
            self.entries.drain().filter_map(|(_, entry)| entry.node).collect();
        while let Some(node) = nodes.pop() {
            if let Some(mut node) = Rc::into_inner(node).map(RefCell::into_inner)
                && let Kind::Directory(directory) = &mut node.kind
            {
                nodes.extend(directory.entries.drain().filter_map(|(_, entry)| entry.node));
            }
        }
    }
}

impl Directory {
    /// Whether it has no entries, not even absent ones.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry of a name. `None` if nothing is known about the name.
    pub fn entry(&self, name: &[u8]) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Returns the entry of a name, and makes it if nothing was known about the name.
    fn entry_mut(&mut self, name: &[u8]) -> &mut Entry {
        if !self.entries.contains_key(name) {
            let entry =
                Entry { node: None, is_known: false, uses: AccessLog::after(&self.forgotten) };
            self.entries.insert(name.into(), entry);
            self.absent_count += 1;
        }
        self.entries.get_mut(name).expect("it was made")
    }

    /// Logs the use of a name.
    pub fn use_name(
        &mut self,
        name: &[u8],
        access: Access,
        ticket: Ticket,
        dependencies: &mut Tickets,
    ) {
        self.entry_mut(name).uses.join(access, ticket, dependencies);
        if self.absent_count > MAXIMUM_ABSENT && self.absent_count * 2 > self.entries.len() {
            self.forget_absent();
        }
    }

    /// Records that a name is known not to exist.
    pub fn note_absent(&mut self, name: &[u8]) {
        self.entry_mut(name).is_known = true;
    }

    /// Sets or removes the node of a name. Returns the previous one.
    pub fn set(&mut self, name: &[u8], node: Option<NodeRef>) -> Option<NodeRef> {
        let is_absent = node.is_none();
        let entry = self.entry_mut(name);
        entry.is_known = true;
        let earlier = std::mem::replace(&mut entry.node, node);
        match (earlier.is_none(), is_absent) {
            (true, false) => self.absent_count -= 1,
            (false, true) => self.absent_count += 1,
            _ => {}
        }
        earlier
    }

    fn forget_absent(&mut self) {
        let forgotten = &mut self.forgotten;
        self.entries.retain(|_, entry| {
            let is_kept = entry.node.is_some();
            if !is_kept {
                std::mem::take(&mut entry.uses).drain_into(forgotten);
            }
            is_kept
        });
        self.absent_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_names_take_bounded_room_and_keep_their_order() {
        let mut directory = Directory::default();
        for index in 0..3 * MAXIMUM_ABSENT as u64 {
            let ticket = Ticket { worker: 1, sequence: index + 1 };
            let mut dependencies = Tickets::new();
            directory.use_name(
                format!("{index}").as_bytes(),
                Access::Exclusive,
                ticket,
                &mut dependencies,
            );
        }
        assert!(directory.entries.len() <= MAXIMUM_ABSENT + 1, "{}", directory.entries.len());
        let mut dependencies = Tickets::new();
        directory.use_name(
            b"0",
            Access::Share,
            Ticket { worker: 2, sequence: 1 },
            &mut dependencies,
        );
        assert_eq!(dependencies[0].worker, 1);
    }
}
