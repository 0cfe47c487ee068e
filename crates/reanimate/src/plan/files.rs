//! The files of the trace: how calls find them by descriptors and paths, and how they use them.

use std::rc::Rc;

use libc as sys;
use retake_trace_format::ProcessStart;

use super::{Context, Plan, Planned};
use crate::access::{Access, Ticket, add};
use crate::action::{Action, Place, Target};
use crate::prepare::{Evidence, Proofs};
use crate::tasks::{Description, Opened, Slot, Surroundings};
use crate::world::{Base, Directory, Kind, NodeRef, Resolution, Spot, Turn, World};

pub(super) const UNKNOWN_DESCRIPTOR: &str = "descriptors whose opening is not in the trace";
pub(super) const SHARED_PIPES: &str = "pipes between threads that run one at a time";
pub(super) const NO_PATH: &str = "calls whose path is not in the trace";
pub(super) const REMOVED_DIRECTORY: &str = "paths in a directory that was removed";
const CLOSED_VIRTUAL: &str = "closing of what was not opened";

/// A path of a call.
pub(super) struct Located {
    pub(super) place: Place,
    /// What the trace knows of the name. `None` if a part of the path is missing.
    pub(super) spot: Option<Spot>,
}

/// What is known of files from the calls so far.
#[derive(Debug)]
pub(super) struct Files {
    /// The names, and the uses of files.
    pub(super) world: World,
    /// Proofs of what the files were before the trace.
    pub(super) proofs: Proofs,
}

impl Files {
    /// Returns the open file behind a descriptor. The call waits for the call that opened it.
    pub(super) fn description(
        &mut self,
        context: &mut Context,
        number: i32,
    ) -> Planned<Rc<Description>> {
        let slot = context.thread.descriptors.borrow().get(number).cloned();
        match slot {
            Some(slot) => {
                match slot.description.opened {
                    Opened::Virtual(_) => return Ok(slot.description),
                    // The pipe was made before threads began to share workers.
                    Opened::Pipe if context.simulates_pipes => {
                        return Err(Plan::Simulated(SHARED_PIPES));
                    }
                    _ => {}
                }
                add(&mut context.turn.dependencies, slot.description.opened_by);
                Ok(slot.description)
            }
            None if context.failed_with(sys::EBADF) => {
                Err(Plan::Simulated("calls with a bad descriptor"))
            }
            None => Err(Plan::Simulated(UNKNOWN_DESCRIPTOR)),
        }
    }

    /// Returns the file or directory behind a descriptor.
    pub(super) fn file(
        &mut self,
        context: &mut Context,
        number: i32,
    ) -> Planned<(Rc<Description>, NodeRef)> {
        let description = self.description(context, number)?;
        match &description.opened {
            Opened::Node(node) => {
                let node = node.clone();
                Ok((description, node))
            }
            Opened::Pipe => Err(Plan::Simulated("calls about pipes that move no data")),
            Opened::Virtual(reason) => Err(Plan::Simulated(reason)),
        }
    }

    /// Returns the open file of a path such as `/proc/self/fd/5`. Such paths are used to link
    /// unnamed files, and by the C library to change modes without following links.
    pub(super) fn named_by_descriptor(
        &mut self,
        context: &mut Context,
        path: u8,
    ) -> Option<(Target, NodeRef)> {
        let text = context
            .arguments
            .text(path)
            .filter(|text| text.starts_with(b"/proc/") || text.starts_with(b"/dev/fd/"))?;
        let text = std::str::from_utf8(text).ok()?;
        let number = text
            .strip_prefix("/proc/")
            .and_then(|rest| rest.split_once("/fd/"))
            .map(|(_, number)| number);
        let number = number.or_else(|| text.strip_prefix("/dev/fd/"))?.parse().ok()?;
        let description = self.description(context, number).ok()?;
        match &description.opened {
            Opened::Node(node) => Some((Target::Handle(description.handle.clone()), node.clone())),
            _ => None,
        }
    }

    /// Returns the object of a call that takes a descriptor, a path, or both. If the call
    /// succeeded, the evidence is recorded.
    pub(super) fn target(
        &mut self,
        context: &mut Context,
        (directory, path): (Option<usize>, Option<u8>),
        flags: i32,
        evidence: Evidence,
    ) -> Planned<(Target, Option<NodeRef>)> {
        let text = path.and_then(|path| context.arguments.text(path));
        if let Some(index) = directory
            .filter(|_| flags & sys::AT_EMPTY_PATH != 0 && text.is_none_or(<[u8]>::is_empty))
        {
            return self.target_descriptor(context, index, evidence);
        }
        let path = path.ok_or(Plan::Simulated(NO_PATH))?;
        let follows = flags & sys::AT_SYMLINK_NOFOLLOW == 0;
        if let Some((target, node)) = self.named_by_descriptor(context, path).filter(|_| follows) {
            if context.succeeded() {
                self.proofs.prove(&node, evidence);
            }
            return Ok((target, Some(node)));
        }
        let located = self.locate(context, directory, path, follows)?;
        let Some(mut spot) = located.spot else {
            return Ok((Target::Place(located.place), None));
        };
        self.use_spot(context, &spot, Access::Share);
        if !context.succeeded() {
            return Ok((Target::Place(located.place), spot.node().cloned()));
        }
        let node = spot.suppose(|| evidence.kind());
        self.proofs.prove(&node, evidence);
        if let Kind::Simulated(reason) = node.borrow().kind {
            return Err(Plan::Simulated(reason));
        }
        Ok((Target::Place(located.place), Some(node)))
    }

    fn target_descriptor(
        &mut self,
        context: &mut Context,
        index: usize,
        evidence: Evidence,
    ) -> Planned<(Target, Option<NodeRef>)> {
        let number = context.arguments.descriptor(index);
        if number == sys::AT_FDCWD {
            let current = context.thread.surroundings.borrow().base.current.clone();
            let directory =
                self.world.folder_of(&current).ok_or(Plan::Simulated(REMOVED_DIRECTORY))?;
            let place = Place { directory, name: Vec::new(), follows: true };
            return Ok((Target::Place(place), Some(current)));
        }
        let (description, node) = self.file(context, number)?;
        if context.succeeded() {
            self.proofs.prove(&node, evidence);
        }
        Ok((Target::Handle(description.handle.clone()), Some(node)))
    }

    /// Logs the use of a name, and what the trace proves about it.
    pub(super) fn use_spot(&mut self, context: &mut Context, spot: &Spot, access: Access) {
        spot.use_name(access, &mut context.turn);
        if context.failed_with(sys::ENOENT)
            && self.proofs.are_wanted()
            && spot.is_plain()
            && let Some(directory) = spot.directory.borrow_mut().as_directory()
        {
            directory.note_absent(&spot.name);
        }
    }

    /// Logs a write of so many bytes at an offset, or at an unknown offset.
    pub(super) fn written(
        &mut self,
        context: &mut Context,
        node: &NodeRef,
        start: Option<u64>,
        bytes: u64,
    ) {
        self.proofs.prove(node, Evidence::File);
        let node = &mut *node.borrow_mut();
        let overwritten = start.map_or(0..u64::MAX, |start| start..start.saturating_add(bytes));
        node.copies.retain(|copied| {
            copied.range.end <= overwritten.start || overwritten.end <= copied.range.start
        });
        match start {
            Some(start) => {
                let range = start..start.saturating_add(bytes);
                node.content.write(
                    range.clone(),
                    context.turn.ticket,
                    &mut context.turn.dependencies,
                );
                if let Some(origin) = &mut node.origin {
                    origin.note_written(range);
                }
            }
            None => {
                node.content.whole(context.turn.ticket, &mut context.turn.dependencies);
                node.content.size = None;
                if let Some(origin) = &mut node.origin {
                    origin.note_changed_somewhere();
                }
            }
        }
    }

    /// Logs that a call sets the size of a file.
    pub(super) fn resized(&mut self, context: &mut Context, node: &NodeRef, size: u64) {
        self.proofs.prove(node, Evidence::File);
        let succeeded = context.succeeded();
        let node = &mut *node.borrow_mut();
        node.content.whole(context.turn.ticket, &mut context.turn.dependencies);
        if succeeded {
            node.content.size = Some(size);
            if let Some(origin) = &mut node.origin {
                origin.note_resized(size);
            }
        }
    }

    /// Logs a write through a mapping, which changes bytes but never the size.
    pub(super) fn written_through_mapping(
        &mut self,
        context: &mut Context,
        node: &NodeRef,
        start: u64,
        bytes: u64,
    ) {
        self.proofs.prove(node, Evidence::File);
        let node = &mut *node.borrow_mut();
        node.content.write(
            start..start.saturating_add(bytes),
            context.turn.ticket,
            &mut context.turn.dependencies,
        );
        if let Some(origin) = &mut node.origin {
            origin.note_overwritten(start..start.saturating_add(bytes));
        }
    }

    /// Returns the directories and the umask that a process started with.
    pub(super) fn surroundings_of(&mut self, start: &ProcessStart) -> Surroundings {
        let whole = Base { root: self.world.root.clone(), current: self.world.root.clone() };
        let root = self.start_directory(&whole, &start.root);
        let current = self.start_directory(&whole, &start.working_directory);
        Surroundings { base: Base { root, current }, umask: start.umask & 0o777 }
    }

    /// Returns a directory that a process had when it started. This proves that the directory
    /// existed.
    fn start_directory(&mut self, base: &Base, path: &[u8]) -> NodeRef {
        let mut turn = Turn::new(Ticket::NOBODY);
        match self.world.resolve(base, path, true, &mut turn) {
            Resolution::Spot(mut spot) => {
                let node = spot.suppose(|| Kind::Directory(Directory::default()));
                self.proofs.prove(&node, Evidence::Directory);
                node
            }
            _ => self.world.root.clone(),
        }
    }
}

/// Plans what remains to be done for closed descriptors.
pub(super) fn closing(slots: &[Slot]) -> Plan {
    let real = slots
        .iter()
        .map(|slot| &slot.description)
        .filter(|description| !matches!(description.opened, Opened::Virtual(_)));
    let handles: Vec<_> = real.map(|description| description.handle.clone()).collect();
    if handles.is_empty() {
        Plan::Simulated(CLOSED_VIRTUAL)
    } else {
        Plan::Execute(Action::Close(handles))
    }
}
