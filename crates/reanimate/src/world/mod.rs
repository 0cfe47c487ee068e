//! The name space as the trace knows it: directories, files and links, followed through every call
//! of the trace.
//!
//! Calls are planned ahead of their execution; what a path means by then is answered here, not by
//! the file system. That gives every call the objects it conflicts on, and a path without links and
//! `..` to execute it with. Nothing here does I/O.

mod content;
mod node;
mod resolve;

pub use node::{Copied, Directory, FifoUses, Kind, Node, NodeRef};
use resolve::MAXIMUM_PATH;
pub use resolve::{Base, Found, Resolution, Spot, child_origin};

use std::cell::RefCell;
use std::sync::Arc;

use crate::access::{Access, Ticket, Tickets};
use crate::folder::Folder;
use crate::prepare::Origin;

/// Why calls in these directories are not repeated: they show the machine, not files.
const KERNEL_DIRECTORIES: [(&[u8], &str); 3] = [
    (b"proc", "files of the kernel under /proc"),
    (b"sys", "files of the kernel under /sys"),
    (b"dev", "devices under /dev"),
];

/// The call being planned: its place, and whom it has to wait for.
#[derive(Debug)]
pub struct Turn {
    /// Where it will be executed.
    pub ticket: Ticket,
    /// The calls it waits for.
    pub dependencies: Tickets,
    /// Other calls may wait for it.
    pub is_used: bool,
}

impl Turn {
    /// A call that waits for nobody so far.
    pub fn new(ticket: Ticket) -> Self {
        Self { ticket, dependencies: Tickets::new(), is_used: false }
    }
}

/// The name space.
#[derive(Debug)]
pub struct World {
    /// Its root directory.
    pub root: NodeRef,
    /// How often names of directories changed.
    renames: u64,
    /// The directory of the last path: the next one is likely in the same.
    last_folder: RefCell<Arc<Folder>>,
}

impl World {
    /// A name space with nothing in it but what the kernel shows.
    pub fn empty() -> Self {
        let root = Node::directory();
        for (name, reason) in KERNEL_DIRECTORIES {
            let mut directory = Directory::default();
            directory.simulated = Some(reason);
            Self::link(&root, name, &Node::new(Kind::Directory(directory)));
        }
        Self { root, renames: 0, last_folder: RefCell::default() }
    }

    /// A name space of which nothing is known: what the trace meets was there before unless it made
    /// it.
    pub fn unknown() -> Self {
        let world = Self::empty();
        world.root.borrow_mut().origin = Some(Box::new(Origin::root()));
        for (name, _) in KERNEL_DIRECTORIES {
            if let Some(directory) = world.child(&world.root, name) {
                directory.borrow_mut().origin = child_origin(&world.root, name);
            }
        }
        let memory_files = Node::directory();
        if let Some(devices) = world.child(&world.root, b"dev") {
            memory_files.borrow_mut().origin = child_origin(&devices, b"shm");
            Self::link(&devices, b"shm", &memory_files);
        }
        world
    }

    /// What a directory is known to hold under that name.
    pub fn child(&self, directory: &NodeRef, name: &[u8]) -> Option<NodeRef> {
        match &directory.borrow().kind {
            Kind::Directory(own) => own.entry(name)?.node.clone(),
            _ => None,
        }
    }

    /// Puts a node under a name, which it learns. A directory does not come to be within itself,
    /// whatever the trace says.
    pub fn link(directory: &NodeRef, name: &[u8], node: &NodeRef) -> Option<NodeRef> {
        if is_within(directory, node) {
            return None;
        }
        let own = &mut *node.borrow_mut();
        own.parent = std::rc::Rc::downgrade(directory);
        own.name = name.to_vec();
        directory.borrow_mut().as_directory()?.set(name, Some(node.clone()))
    }

    /// Takes a name away; returns what it named.
    pub fn unlink(directory: &NodeRef, name: &[u8]) -> Option<NodeRef> {
        let node = directory.borrow_mut().as_directory()?.set(name, None)?;
        node.borrow_mut().parent = std::rc::Weak::new();
        Some(node)
    }

    /// A directory as workers know it; what was removed is none.
    pub fn folder_of(&self, directory: &NodeRef) -> Option<Arc<Folder>> {
        let (as_of, known) = directory.borrow().folder.clone();
        if let Some(folder) = known.upgrade().filter(|_| as_of == self.renames) {
            return Some(folder);
        }
        let folder = Folder::new(self.path_of(directory)?);
        directory.borrow_mut().folder = (self.renames, Arc::downgrade(&folder));
        self.last_folder.replace(Arc::clone(&folder));
        Some(folder)
    }

    /// Forgets all paths, because a name of `node` changes, and it may be a directory.
    pub fn forget_folders(&mut self, node: &NodeRef) {
        if matches!(node.borrow().kind, Kind::Directory(_) | Kind::Unknown) {
            self.renames += 1;
        }
    }

    /// The path of a directory below the root, without a slash at either end; what was removed has
    /// none, nor has what lies so deep that the kernel would not take its path.
    pub fn path_of(&self, directory: &NodeRef) -> Option<Vec<u8>> {
        let mut nodes = Vec::new();
        let mut bytes = 0;
        let mut current = directory.clone();
        while !std::rc::Rc::ptr_eq(&current, &self.root) {
            bytes += current.borrow().name.len() + 1;
            let parent = current.borrow().parent.upgrade().filter(|_| bytes < MAXIMUM_PATH)?;
            nodes.push(std::mem::replace(&mut current, parent));
        }
        let mut path = Vec::with_capacity(bytes);
        for node in nodes.iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&node.borrow().name);
        }
        Some(path)
    }
}

/// Whether a directory is a node itself, or somewhere below it. What lies too deep to tell counts
/// as such.
fn is_within(directory: &NodeRef, node: &NodeRef) -> bool {
    if std::rc::Rc::ptr_eq(directory, node) {
        return true;
    }
    if !matches!(&node.borrow().kind, Kind::Directory(own) if !own.is_empty()) {
        return false;
    }
    let mut current = directory.clone();
    for _ in 0..MAXIMUM_PATH {
        let Some(parent) = current.borrow().parent.upgrade() else {
            return false;
        };
        if std::rc::Rc::ptr_eq(&parent, node) {
            return true;
        }
        current = parent;
    }
    true
}

impl Spot {
    /// Notes the use of the name itself.
    pub fn use_name(&self, access: Access, turn: &mut Turn) {
        if let Some(directory) = self.directory.borrow_mut().as_directory() {
            directory.use_name(&self.name, access, turn.ticket, &mut turn.dependencies);
        }
    }

    /// Notes that the call adds or removes the name.
    pub fn change_name(&self, turn: &mut Turn) {
        self.use_name(Access::Exclusive, turn);
        if let Some(directory) = self.directory.borrow_mut().as_directory() {
            directory.list.join(Access::Change, turn.ticket, &mut turn.dependencies);
        }
    }
}

/// Notes the use of a node's attributes.
pub fn use_attributes(node: &NodeRef, access: Access, turn: &mut Turn) {
    node.borrow_mut().attributes.join(access, turn.ticket, &mut turn.dependencies);
}

/// Notes that a call looks at everything `stat` tells.
pub fn use_status(node: &NodeRef, turn: &mut Turn) {
    let node = &mut *node.borrow_mut();
    node.attributes.join(Access::Share, turn.ticket, &mut turn.dependencies);
    node.content.look(turn.ticket, &mut turn.dependencies);
}
