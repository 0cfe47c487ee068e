//! Calls that open files.

use std::rc::Rc;

use libc as sys;

use super::files::{Files, Located, SHARED_PIPES};
use super::{Context, Plan, Planned};
use crate::access::Access;
use crate::action::{Action, Place};
use crate::calls::Opening;
use crate::prepare::Evidence;
use crate::tasks::{Description, Opened, Slot};
use crate::world::{Directory, Found, Kind, Node, NodeRef, Spot, World, child_origin};

/// The reason why a device is not opened.
const DEVICES: &str = "devices";

/// Plans calls that open files.
pub(super) struct OpenCalls<'plan> {
    pub(super) files: &'plan mut Files,
}

impl OpenCalls<'_> {
    pub(super) fn plan(&mut self, context: &mut Context) -> Planned<Plan> {
        let opening = Opening::of(context.call)
            .ok_or(Plan::Simulated("calls whose arguments are not in the trace"))?;
        let Opening { directory, path, flags, mode } = opening;
        let follows = flags & sys::O_NOFOLLOW as u32 == 0 && !is_exclusive(flags);
        let located = match self.files.locate(context, directory, path, follows) {
            Ok(located) => located,
            Err(plan) => {
                if let Plan::Simulated(reason) | Plan::Skipped(reason) = plan {
                    context.open_virtual(reason, flags);
                }
                return Err(plan);
            }
        };
        let Located { place, spot } = located;
        let Some(mut spot) = spot else {
            return self.open_nowhere(context, place, flags, mode);
        };
        if !context.succeeded() {
            return self.open_failed(context, place, &spot, flags, mode);
        }
        let node = match self.opened_node(context, &mut spot, flags) {
            Ok(node) => node,
            Err(plan) => {
                if let Plan::Simulated(reason) | Plan::Skipped(reason) = plan {
                    context.open_virtual(reason, flags);
                }
                return Err(plan);
            }
        };
        let ticket = context.turn.ticket;
        let is_pipe = matches!(node.borrow().kind, Kind::Fifo) && flags & sys::O_PATH as u32 == 0;
        if is_pipe && context.simulates_pipes {
            context.open_virtual(SHARED_PIPES, flags);
            return Err(Plan::Simulated(SHARED_PIPES));
        }
        let fifo = is_pipe.then(|| node.borrow_mut().fifo.get_or_insert_default().clone());
        let opened = if is_pipe { Opened::Pipe } else { Opened::Node(node) };
        let description = Description::new(opened, ticket, flags);
        if let Some(fifo) = fifo {
            if opening.writes() {
                fifo.open_writers.set(fifo.open_writers.get() + 1);
                fifo.writers.borrow_mut().join(
                    Access::Exclusive,
                    ticket,
                    &mut context.turn.dependencies,
                );
                context.turn.is_used = true;
            }
            // A new description has no FIFO yet.
            let _ = description.fifo.set(fifo);
        }
        let handle = description.handle.clone();
        context.install(description, flags);
        let mode = mode & 0o7777 & !context.thread.surroundings.borrow().umask;
        Ok(Plan::Execute(Action::Open { place, flags, mode, handle }))
    }

    /// Returns the node that a successful open found or made.
    fn opened_node(
        &mut self,
        context: &mut Context,
        spot: &mut Spot,
        flags: u32,
    ) -> Planned<NodeRef> {
        if flags & sys::O_TMPFILE as u32 == sys::O_TMPFILE as u32 {
            let directory = spot.suppose(|| Kind::Directory(Directory::default()));
            self.files.proofs.prove(&directory, Evidence::Directory);
            return Ok(new_file());
        }
        let is_made = flags & sys::O_CREAT as u32 != 0 && !matches!(spot.found, Found::Node(_));
        if is_made {
            spot.change_name(&mut context.turn);
            return Ok(self.made_file(context, spot, flags));
        }
        let wants_directory = flags & sys::O_DIRECTORY as u32 != 0 || spot.wants_directory;
        let node = spot.suppose(|| {
            if wants_directory { Kind::Directory(Directory::default()) } else { Kind::Unknown }
        });
        self.files.use_spot(context, spot, Access::Share);
        let evidence = match flags & sys::O_ACCMODE as u32 {
            _ if wants_directory => Evidence::Directory,
            0 => Evidence::Exists,
            _ => Evidence::File,
        };
        self.files.proofs.prove(&node, evidence);
        if let Kind::Other = node.borrow().kind {
            return Err(Plan::Skipped(DEVICES));
        }
        if flags & sys::O_TRUNC as u32 != 0 && flags & sys::O_ACCMODE as u32 != 0 {
            let content = &mut *node.borrow_mut();
            content.content.whole(context.turn.ticket, &mut context.turn.dependencies);
            content.content.size = Some(0);
            if let Some(origin) = &mut content.origin {
                origin.note_truncated();
            }
        }
        Ok(node)
    }

    /// Makes the node of a file that the call made, unless the file existed before. Only data read
    /// from it later can tell.
    fn made_file(&mut self, context: &Context, spot: &Spot, flags: u32) -> NodeRef {
        let node = new_file();
        if matches!(spot.found, Found::Unknown) && !is_exclusive(flags) {
            let mut origin = child_origin(&spot.directory, &spot.name);
            if let Some(origin) = origin.as_mut().filter(|_| flags & sys::O_TRUNC as u32 != 0) {
                origin.note_truncated();
            }
            if let Some(origin) = &mut origin {
                origin.may_be_new = true;
            }
            node.borrow_mut().origin = origin;
            node.borrow_mut().content.size = None;
        }
        self.files.proofs.prove_parent(context, &spot.directory);
        World::link(&spot.directory, &spot.name, &node);
        node
    }

    /// Plans an open whose path has a missing part. If the call succeeded, the trace does not
    /// explain why.
    fn open_nowhere(
        &mut self,
        context: &mut Context,
        place: Place,
        flags: u32,
        mode: u32,
    ) -> Planned<Plan> {
        if context.succeeded() {
            const REASON: &str = "paths through directories that the trace does not explain";
            context.open_virtual(REASON, flags);
            return Err(Plan::Skipped(REASON));
        }
        Ok(Plan::Execute(Action::Open { place, flags, mode, handle: Default::default() }))
    }

    fn open_failed(
        &mut self,
        context: &mut Context,
        place: Place,
        spot: &Spot,
        flags: u32,
        mode: u32,
    ) -> Planned<Plan> {
        self.files.use_spot(context, spot, Access::Share);
        if let Some(node) = spot.node() {
            if let Kind::Other = node.borrow().kind {
                return Err(Plan::Skipped(DEVICES));
            }
            crate::world::use_attributes(node, Access::Share, &mut context.turn);
        }
        if context.failed_with(sys::EEXIST) || context.failed_with(sys::EISDIR) {
            let is_directory = context.failed_with(sys::EISDIR);
            self.files.proofs.prove_spot(
                spot,
                if is_directory { Evidence::Directory } else { Evidence::Exists },
            );
        }
        // If the open succeeds now, it does no harm to existing files.
        let flags = flags & !(sys::O_TRUNC as u32);
        Ok(Plan::Execute(Action::Open {
            place,
            flags,
            mode: mode & 0o7777,
            handle: Default::default(),
        }))
    }
}

impl Context<'_> {
    /// Opens a descriptor that is only simulated.
    pub(super) fn open_virtual(&mut self, reason: &'static str, flags: u32) {
        if self.succeeded() && self.call.result <= i64::from(i32::MAX) {
            let description = Description::new(Opened::Virtual(reason), self.turn.ticket, flags);
            self.install(description, flags);
        }
    }

    /// Gives the descriptor number that the call returned to a new open file.
    pub(super) fn install(&mut self, description: Rc<Description>, flags: u32) {
        let Ok(number) = i32::try_from(self.call.result) else {
            return;
        };
        let slot = Slot { description, closes_on_exec: flags & sys::O_CLOEXEC as u32 != 0 };
        self.thread.descriptors.borrow_mut().install(number, slot, self.call.returned_ns);
    }
}

/// An empty file.
pub(super) fn new_file() -> NodeRef {
    let node = Node::new(Kind::File);
    node.borrow_mut().content.size = Some(0);
    node
}

fn is_exclusive(flags: u32) -> bool {
    let exclusive = (sys::O_CREAT | sys::O_EXCL) as u32;
    flags & exclusive == exclusive
}
