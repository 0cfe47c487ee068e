//! Files, directories and links as the trace knows them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::{Rc, Weak};

use super::content::Content;
use crate::access::{Access, AccessLog, Ticket, Tickets};
use crate::folder::Folder;

/// A node that others may know, too: under several names, or as an open file.
pub type NodeRef = Rc<RefCell<Node>>;

/// Absent names a directory keeps apart; beyond, it remembers them together.
const MAXIMUM_ABSENT: usize = 4096;

/// One file, directory or link.
#[derive(Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// The directory it is in; none for the root and for what was removed. Of a file with several
    /// names, the last one's.
    pub parent: Weak<RefCell<Node>>,
    /// Its name there.
    pub name: Vec<u8>,
    /// Uses of mode, owner, links, extended attributes.
    pub attributes: AccessLog,
    /// Uses of the bytes of a file.
    pub content: Content,
    /// Everything that happened to it is in the trace; else it may have names that the trace does
    /// not show.
    pub is_own: bool,
    /// Parts that were copied from elsewhere inside the kernel, while that is of interest.
    pub copies: Vec<Copied>,
    /// What it was like before the trace, while that is being found out.
    pub origin: Option<Box<crate::prepare::Origin>>,
    /// Of a named pipe that was opened.
    pub fifo: Option<Rc<FifoUses>>,
    /// Of a directory how workers know it, as of some names of directories.
    pub(super) folder: (u64, std::sync::Weak<Folder>),
}

/// Bytes that came from another file.
#[derive(Debug, Clone)]
pub struct Copied {
    /// Where they are.
    pub range: Range<u64>,
    /// The file they were in.
    pub source: NodeRef,
    /// Where they were there.
    pub source_start: u64,
}

/// What a node is.
#[derive(Debug)]
pub enum Kind {
    /// Something that was there when the trace began; the calls seen so far do not tell what.
    Unknown,
    /// A regular file.
    File,
    /// A directory.
    Directory(Directory),
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// Anything that can be renamed and removed, but is not opened.
    Other,
    /// Calls on it are not repeated, for this reason.
    Simulated(&'static str),
}

/// Uses of a named pipe by all who have it open.
#[derive(Debug, Default)]
pub struct FifoUses {
    /// Opened to be written to. Reads depend on whether a process can still write.
    pub writers: RefCell<AccessLog>,
    /// How many open files it can be written to by, as planned so far.
    pub open_writers: Cell<u32>,
    /// Data that went in.
    pub writes: RefCell<AccessLog>,
    /// Data, or ends, that came out.
    pub reads: RefCell<AccessLog>,
}

/// What makes a directory.
#[derive(Debug, Default)]
pub struct Directory {
    entries: HashMap<Box<[u8]>, Entry>,
    /// Calls on it, and on all it is not known to hold, are not repeated, for this reason.
    pub simulated: Option<&'static str>,
    /// Uses of the list of names.
    pub list: AccessLog,
    absent_count: usize,
    /// The last calls on names that are no longer kept.
    forgotten: Tickets,
}

/// A name in a directory.
#[derive(Debug, Default)]
pub struct Entry {
    /// What it names; nothing if there is no such name.
    pub node: Option<NodeRef>,
    /// Whether that is certain; else a call only asked for it.
    pub is_known: bool,
    /// Uses of the name.
    pub uses: AccessLog,
}

impl Node {
    /// A node of that kind, in use by nobody.
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

    /// A new directory, outside of any other.
    pub fn directory() -> NodeRef {
        Self::new(Kind::Directory(Directory::default()))
    }

    /// The directory, if it is one. What is unknown becomes one.
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

/// One after the other: a trace can nest directories deeper than a stack is.
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
    /// Whether it holds no names, and none was asked for.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of that name; `None` if nothing is known about it.
    pub fn entry(&self, name: &[u8]) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// The entry of that name, made if nothing was known about it.
    fn entry_mut(&mut self, name: &[u8]) -> &mut Entry {
        if !self.entries.contains_key(name) {
            let entry =
                Entry { node: None, is_known: false, uses: AccessLog::after(&self.forgotten) };
            self.entries.insert(name.into(), entry);
            self.absent_count += 1;
        }
        self.entries.get_mut(name).expect("it was made")
    }

    /// Notes the use of a name.
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

    /// Notes that it is known to hold no such name.
    pub fn note_absent(&mut self, name: &[u8]) {
        self.entry_mut(name).is_known = true;
    }

    /// Gives the name to a node, or takes it away; returns what had it.
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
