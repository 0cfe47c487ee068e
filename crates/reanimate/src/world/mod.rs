//! The name space as the trace knows it: directories, files and links, followed through every call
//! of the trace.
//!
//! Calls are planned ahead of their execution. The meaning of a path at the time of its call is
//! known here, not in the file system. Every call gets from here the objects that it conflicts on,
//! and a path without links and `..` to execute it with. Nothing here does I/O.

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

/// Directories whose files describe the machine, with the reason why calls there are not repeated.
const KERNEL_DIRECTORIES: [(&[u8], &str); 3] = [
    (b"proc", "files of the kernel under /proc"),
    (b"sys", "files of the kernel under /sys"),
    (b"dev", "devices under /dev"),
];

/// The call being planned: its ticket, and the calls that it waits for.
#[derive(Debug)]
pub struct Turn {
    /// The worker that will execute it, and its number there.
    pub ticket: Ticket,
    /// The calls it waits for.
    pub dependencies: Tickets,
    /// Whether other calls may wait for it.
    pub is_used: bool,
}

impl Turn {
    /// Makes a turn that waits for no call yet.
    pub fn new(ticket: Ticket) -> Self {
        Self { ticket, dependencies: Tickets::new(), is_used: false }
    }
}

/// The name space.
#[derive(Debug)]
pub struct World {
    /// The root directory.
    pub root: NodeRef,
    /// The number of changes of directory names so far.
    renames: u64,
    /// The folder of the last path, kept because the next path is probably in the same folder.
    last_folder: RefCell<Arc<Folder>>,
}

impl World {
    /// Makes a name space that has only the directories of the kernel.
    pub fn empty() -> Self {
        let root = Node::directory();
        for (name, reason) in KERNEL_DIRECTORIES {
            let mut directory = Directory::default();
            directory.simulated = Some(reason);
            Self::link(&root, name, &Node::new(Kind::Directory(directory)));
        }
        Self { root, renames: 0, last_folder: RefCell::default() }
    }

    /// Makes a name space of which nothing is known. Everything that a call finds existed before
    /// the trace, unless the trace made it.
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

    /// Returns the node known under a name of a directory.
    pub fn child(&self, directory: &NodeRef, name: &[u8]) -> Option<NodeRef> {
        match &directory.borrow().kind {
            Kind::Directory(own) => own.entry(name)?.node.clone(),
            _ => None,
        }
    }

    /// Puts a node under a name, which is stored in the node, too. Refuses to put a directory into
    /// itself, whatever the trace says.
    pub fn link(directory: &NodeRef, name: &[u8], node: &NodeRef) -> Option<NodeRef> {
        if is_within(directory, node) {
            return None;
        }
        let own = &mut *node.borrow_mut();
        own.parent = std::rc::Rc::downgrade(directory);
        own.name = name.to_vec();
        directory.borrow_mut().as_directory()?.set(name, Some(node.clone()))
    }

    /// Removes a name, and returns its node.
    pub fn unlink(directory: &NodeRef, name: &[u8]) -> Option<NodeRef> {
        let node = directory.borrow_mut().as_directory()?.set(name, None)?;
        node.borrow_mut().parent = std::rc::Weak::new();
        Some(node)
    }

    /// Returns the folder that workers use for a directory. A removed directory has none.
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

    /// Invalidates all folders if `node`, whose name changes, may be a directory.
    pub fn forget_folders(&mut self, node: &NodeRef) {
        if matches!(node.borrow().kind, Kind::Directory(_) | Kind::Unknown) {
            self.renames += 1;
        }
    }

    /// The path of a directory below the root, without a slash at either end. `None` for a removed
    /// directory, and for one so deep that its path exceeds the kernel's limit.
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

/// Whether a directory is `node`, or is below it. Also true for directories that are too deep to
/// tell.
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
    /// Logs a use of the name itself.
    pub fn use_name(&self, access: Access, turn: &mut Turn) {
        if let Some(directory) = self.directory.borrow_mut().as_directory() {
            directory.use_name(&self.name, access, turn.ticket, &mut turn.dependencies);
        }
    }

    /// Logs that the call adds or removes the name.
    pub fn change_name(&self, turn: &mut Turn) {
        self.use_name(Access::Exclusive, turn);
        if let Some(directory) = self.directory.borrow_mut().as_directory() {
            directory.list.join(Access::Change, turn.ticket, &mut turn.dependencies);
        }
    }
}

/// Logs a use of a node's attributes.
pub fn use_attributes(node: &NodeRef, access: Access, turn: &mut Turn) {
    node.borrow_mut().attributes.join(access, turn.ticket, &mut turn.dependencies);
}

/// Logs that a call reads everything that `stat` returns.
pub fn use_status(node: &NodeRef, turn: &mut Turn) {
    let node = &mut *node.borrow_mut();
    node.attributes.join(Access::Share, turn.ticket, &mut turn.dependencies);
    node.content.look(turn.ticket, &mut turn.dependencies);
}
