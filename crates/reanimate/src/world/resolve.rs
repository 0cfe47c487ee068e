//! Path resolution by what the trace has shown so far.

use std::borrow::Cow;
use std::rc::Rc;

use super::{Directory, Kind, NodeRef, Turn, World};
use crate::access::Access;
use crate::prepare::Origin;

/// The most links in a path, as in the kernel.
const MAXIMUM_LINKS: u32 = 40;

/// The longest path or link target, as in the kernel.
pub const MAXIMUM_PATH: usize = libc::PATH_MAX as usize;

/// The most directories that one path may add to the name space. Each of them takes memory.
const MAXIMUM_SHOWN: u32 = 128;

/// The directories where the paths of a process start.
#[derive(Debug, Clone)]
pub struct Base {
    /// The start of absolute paths. `..` leads no higher.
    pub root: NodeRef,
    /// The start of relative paths.
    pub current: NodeRef,
}

/// A name in a directory, and what is known about it.
#[derive(Debug)]
pub struct Spot {
    /// The directory.
    pub directory: NodeRef,
    /// The name. If the path ends in `.` or `..`, it is that, and `found` is the directory meant.
    /// Empty for the root directory.
    pub name: Vec<u8>,
    /// What the name refers to.
    pub found: Found,
    /// Whether the path ended in a slash.
    pub wants_directory: bool,
}

/// What is known about a name.
#[derive(Debug, Clone)]
pub enum Found {
    /// The name refers to this node.
    Node(NodeRef),
    /// The name does not exist.
    Absent,
    /// Nothing is known of the name yet.
    Unknown,
}

/// The result of resolving a path.
#[derive(Debug)]
pub enum Resolution {
    /// A name in a directory.
    Spot(Spot),
    /// A place where calls are not repeated, with the reason.
    Simulated(&'static str),
    /// A part of the path is missing, or is no directory.
    Broken,
}

impl Spot {
    /// Whether the name can be made and removed.
    pub fn is_plain(&self) -> bool {
        !matches!(self.name.as_slice(), b"" | b"." | b"..")
    }

    /// Returns the node, if there is one.
    pub fn node(&self) -> Option<&NodeRef> {
        match &self.found {
            Found::Node(node) => Some(node),
            _ => None,
        }
    }

    /// Returns the node, and makes it if it was unknown: the trace shows that the call found it.
    pub fn suppose(&mut self, kind: impl FnOnce() -> Kind) -> NodeRef {
        if let Found::Node(node) = &self.found {
            return node.clone();
        }
        let node = super::Node::new(kind());
        node.borrow_mut().origin = child_origin(&self.directory, &self.name);
        World::link(&self.directory, &self.name, &node);
        self.found = Found::Node(node.clone());
        node
    }
}

/// Returns the origin of a name, if the directory itself existed before the trace.
pub fn child_origin(directory: &NodeRef, name: &[u8]) -> Option<Box<Origin>> {
    let directory = directory.borrow();
    directory.origin.as_ref().map(|origin| Box::new(origin.child(name)))
}

/// The state of a path resolution.
struct Walk<'a> {
    base: &'a Base,
    current: NodeRef,
    wants_directory: bool,
    follows: bool,
    links: u32,
    /// The number of directories that this path added to the name space.
    shown: u32,
}

enum Step {
    On,
    /// Continues with the target of this link.
    Follow(Vec<u8>),
    Done(Resolution),
}

impl World {
    /// Resolves a path. Every name on the way is logged as used by the call.
    pub fn resolve(&self, base: &Base, path: &[u8], follows: bool, turn: &mut Turn) -> Resolution {
        let is_absolute = path.first() == Some(&b'/');
        let current = if is_absolute { base.root.clone() } else { base.current.clone() };
        if path.is_empty() || path.len() >= MAXIMUM_PATH {
            return Resolution::Broken;
        }
        let mut walk = Walk {
            base,
            current,
            wants_directory: path.ends_with(b"/"),
            follows,
            links: 0,
            shown: 0,
        };
        let mut path = Cow::Borrowed(path);
        let mut at = 0;
        loop {
            let (name, rest) = first_component(&path[at..]);
            match walk.step(name, rest.is_empty(), turn) {
                Step::On => at = path.len() - rest.len(),
                Step::Follow(mut target) => {
                    target.push(b'/');
                    target.extend_from_slice(rest);
                    (path, at) = (Cow::Owned(target), 0);
                }
                Step::Done(resolution) => return resolution,
            }
        }
    }
}

/// Splits a path into its first name, which is empty if there is none, and the rest without the
/// slashes between them.
fn first_component(path: &[u8]) -> (&[u8], &[u8]) {
    let without_slashes = |path: &'_ [u8]| path.iter().take_while(|byte| **byte == b'/').count();
    let path = &path[without_slashes(path)..];
    let (name, rest) =
        path.split_at(path.iter().position(|byte| *byte == b'/').unwrap_or(path.len()));
    (name, &rest[without_slashes(rest)..])
}

impl Walk<'_> {
    fn step(&mut self, name: &[u8], is_last: bool, turn: &mut Turn) -> Step {
        match name {
            b"" => Step::Done(self.directory_itself(name)),
            b"." if is_last => Step::Done(self.directory_itself(name)),
            b"." => Step::On,
            b".." => {
                self.up();
                if is_last { Step::Done(self.directory_itself(name)) } else { Step::On }
            }
            _ => self.enter(name, is_last, turn),
        }
    }

    /// Returns the current directory, for a path that does not name it in its parent.
    fn directory_itself(&self, name: &[u8]) -> Resolution {
        let found = Found::Node(self.current.clone());
        Resolution::Spot(Spot {
            directory: self.current.clone(),
            name: name.to_vec(),
            found,
            wants_directory: true,
        })
    }

    fn up(&mut self) {
        if Rc::ptr_eq(&self.current, &self.base.root) {
            return;
        }
        let parent = self.current.borrow().parent.upgrade();
        if let Some(parent) = parent {
            self.current = parent;
        }
    }

    fn enter(&mut self, name: &[u8], is_last: bool, turn: &mut Turn) -> Step {
        let found = match lookup(&self.current, name) {
            Lookup::Found(found) => found,
            Lookup::Simulated(reason) => return Step::Done(Resolution::Simulated(reason)),
            Lookup::NotADirectory => return Step::Done(Resolution::Broken),
        };
        let follows = !is_last || self.follows || self.wants_directory;
        if let Found::Node(node) = &found {
            let node = node.borrow();
            match &node.kind {
                Kind::Symlink(target) if follows => {
                    return self.follow(name, target.clone(), is_last, turn);
                }
                Kind::Simulated(reason) => return Step::Done(Resolution::Simulated(reason)),
                Kind::Directory(Directory { simulated: Some(reason), .. }) if is_last => {
                    return Step::Done(Resolution::Simulated(reason));
                }
                _ => {}
            }
        }
        if is_last {
            let directory = self.current.clone();
            return Step::Done(Resolution::Spot(Spot {
                directory,
                name: name.to_vec(),
                found,
                wants_directory: self.wants_directory,
            }));
        }
        self.use_name(name, turn);
        match found {
            Found::Node(node) => self.current = node,
            Found::Absent => return Step::Done(Resolution::Broken),
            Found::Unknown if self.shown >= MAXIMUM_SHOWN => return Step::Done(Resolution::Broken),
            Found::Unknown => {
                self.shown += 1;
                let mut spot = Spot {
                    directory: self.current.clone(),
                    name: name.to_vec(),
                    found,
                    wants_directory: true,
                };
                self.current = spot.suppose(|| Kind::Directory(Directory::default()));
            }
        }
        Step::On
    }

    fn follow(&mut self, name: &[u8], target: Vec<u8>, is_last: bool, turn: &mut Turn) -> Step {
        self.use_name(name, turn);
        self.links += 1;
        if self.links > MAXIMUM_LINKS || target.is_empty() || target.len() >= MAXIMUM_PATH {
            return Step::Done(Resolution::Broken);
        }
        if target.first() == Some(&b'/') {
            self.current = self.base.root.clone();
        }
        self.wants_directory |= is_last && target.ends_with(b"/");
        Step::Follow(target)
    }

    fn use_name(&self, name: &[u8], turn: &mut Turn) {
        if let Some(directory) = self.current.borrow_mut().as_directory() {
            directory.use_name(name, Access::Share, turn.ticket, &mut turn.dependencies);
        }
    }
}

enum Lookup {
    Found(Found),
    Simulated(&'static str),
    NotADirectory,
}

fn lookup(directory: &NodeRef, name: &[u8]) -> Lookup {
    let mut directory = directory.borrow_mut();
    let was_there = directory.origin.is_some();
    let Some(own) = directory.as_directory() else {
        return Lookup::NotADirectory;
    };
    let entry = own.entry(name);
    let node = entry.and_then(|entry| entry.node.clone());
    Lookup::Found(match (node, own.simulated) {
        (Some(node), _) => Found::Node(node),
        (None, Some(reason)) => return Lookup::Simulated(reason),
        (None, None) if was_there && entry.is_none_or(|entry| !entry.is_known) => Found::Unknown,
        (None, None) => Found::Absent,
    })
}
