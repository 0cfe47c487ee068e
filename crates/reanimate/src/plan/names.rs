//! Calls that make, move and remove names.

use std::rc::Rc;

use libc as sys;

use super::files::{Files, Located};
use super::{Context, Plan, Planned};
use crate::access::Access;
use crate::action::{Action, Place};
use crate::prepare::Evidence;
use crate::world::{Kind, Node, NodeRef, Spot, World, use_attributes};

const DEVICE: &str = "device nodes, which are not made";
const NO_TARGET: &str = "calls whose path is not in the trace";

/// Plans calls that make, move and remove names.
pub(super) struct NameCalls<'plan> {
    pub(super) files: &'plan mut Files,
}

impl NameCalls<'_> {
    pub(super) fn plan(&mut self, context: &mut Context) -> Planned<Plan> {
        let arguments = context.arguments;
        match i64::from(context.call.number) {
            sys::SYS_mkdir => self.make_directory(context, None, 0),
            sys::SYS_mkdirat => self.make_directory(context, Some(0), 1),
            sys::SYS_rmdir => self.remove(context, None, 0, true),
            sys::SYS_unlink => self.remove(context, None, 0, false),
            sys::SYS_unlinkat => {
                self.remove(context, Some(0), 1, arguments.uint(2) & sys::AT_REMOVEDIR as u32 != 0)
            }
            sys::SYS_rename => self.rename(context, (None, 0), (None, 1), 0),
            sys::SYS_renameat => self.rename(context, (Some(0), 1), (Some(2), 3), 0),
            sys::SYS_renameat2 => {
                self.rename(context, (Some(0), 1), (Some(2), 3), arguments.uint(4))
            }
            sys::SYS_link => self.link(context, (None, 0), (None, 1), 0),
            sys::SYS_linkat => {
                self.link(context, (Some(0), 1), (Some(2), 3), arguments.uint(4) as i32)
            }
            sys::SYS_symlink => self.symlink(context, 0, (None, 1)),
            sys::SYS_symlinkat => self.symlink(context, 0, (Some(1), 2)),
            sys::SYS_mknod => self.make_node(context, (None, 0), arguments.uint(1)),
            _ => self.make_node(context, (Some(0), 1), arguments.uint(2)),
        }
    }

    /// Locates a name to be made, moved or removed. If it is a link, the link itself is meant, even
    /// with a slash after it.
    fn name(
        &mut self,
        context: &mut Context,
        directory: Option<usize>,
        path: u8,
    ) -> Planned<Located> {
        let path = context.arguments.text(path).ok_or(Plan::Simulated(NO_TARGET))?;
        let end = path
            .iter()
            .rposition(|byte| *byte != b'/')
            .map_or(path.len().min(1), |index| index + 1);
        let mut located = self.files.locate_path(context, directory, &path[..end], false)?;
        match &mut located.spot {
            Some(spot) if !spot.is_plain() => {
                // `.`, `..` or the root cannot be made or removed. The call failed in the trace,
                // and fails again.
                located.place.name =
                    if spot.name.is_empty() { b".".to_vec() } else { spot.name.clone() };
                located.spot = None;
            }
            Some(spot) => {
                spot.wants_directory = end < path.len();
                if spot.wants_directory {
                    located.place.name.push(b'/');
                }
            }
            None => {}
        }
        Ok(located)
    }

    /// Logs a failed call, which only read the name and its node.
    fn looked(&mut self, context: &mut Context, spot: &Spot) {
        self.files.use_spot(context, spot, Access::Share);
        if let Some(node) = spot.node() {
            use_attributes(node, Access::Share, &mut context.turn);
            if let Kind::Directory(directory) = &mut node.borrow_mut().kind {
                directory.list.join(
                    Access::Share,
                    context.turn.ticket,
                    &mut context.turn.dependencies,
                );
            }
        }
        match -context.call.result as i32 {
            sys::EEXIST => self.files.proofs.prove_spot(spot, Evidence::Exists),
            sys::ENOTEMPTY => self.files.proofs.prove_spot(spot, Evidence::Directory),
            _ => {}
        }
    }

    /// Links a new node under a name if the call succeeded.
    fn make(&mut self, context: &mut Context, located: Located, node: NodeRef) -> Place {
        if let Some(spot) = located.spot {
            if context.succeeded() {
                spot.change_name(&mut context.turn);
                self.files.proofs.prove_parent(context, &spot.directory);
                World::link(&spot.directory, &spot.name, &node);
            } else {
                self.looked(context, &spot);
            }
        }
        located.place
    }

    fn make_directory(
        &mut self,
        context: &mut Context,
        directory: Option<usize>,
        path: u8,
    ) -> Planned<Plan> {
        let mode = context.arguments.uint(usize::from(path) + 1) & 0o7777;
        let located = self.name(context, directory, path)?;
        let place = self.make(context, located, Node::directory());
        let mode = mode & !context.thread.surroundings.borrow().umask;
        Ok(Plan::Execute(Action::MakeDirectory { place, mode }))
    }

    pub(super) fn make_node(
        &mut self,
        context: &mut Context,
        (directory, path): (Option<usize>, u8),
        mode: u32,
    ) -> Planned<Plan> {
        let located = self.name(context, directory, path)?;
        let mode = mode & !(context.thread.surroundings.borrow().umask & 0o777);
        let node = match mode & sys::S_IFMT {
            0 | sys::S_IFREG => super::open::new_file(),
            sys::S_IFIFO => Node::new(Kind::Fifo),
            sys::S_IFSOCK => Node::new(Kind::Other),
            _ => {
                self.make(context, located, Node::new(Kind::Simulated(DEVICE)));
                return Ok(Plan::Skipped(DEVICE));
            }
        };
        let place = self.make(context, located, node);
        Ok(Plan::Execute(Action::MakeNode { place, mode }))
    }

    fn symlink(
        &mut self,
        context: &mut Context,
        target: u8,
        (directory, path): (Option<usize>, u8),
    ) -> Planned<Plan> {
        let target = context.arguments.text(target).ok_or(Plan::Simulated(NO_TARGET))?.to_vec();
        let located = self.name(context, directory, path)?;
        let place = self.make(context, located, Node::new(Kind::Symlink(target.clone())));
        Ok(Plan::Execute(Action::MakeSymlink { place, target }))
    }

    fn remove(
        &mut self,
        context: &mut Context,
        directory: Option<usize>,
        path: u8,
        is_directory: bool,
    ) -> Planned<Plan> {
        let located = self.name(context, directory, path)?;
        let plan = Plan::Execute(Action::Remove { place: located.place, is_directory });
        let Some(mut spot) = located.spot else {
            return Ok(plan);
        };
        if !context.succeeded() {
            self.looked(context, &spot);
            return Ok(plan);
        }
        let evidence = if is_directory { Evidence::Directory } else { Evidence::Exists };
        let node = spot.suppose(|| evidence.kind());
        self.files.proofs.prove(&node, evidence);
        self.files.proofs.prove_parent(context, &spot.directory);
        spot.change_name(&mut context.turn);
        unnamed(context, &node);
        self.files.world.forget_folders(&node);
        World::unlink(&spot.directory, &spot.name);
        let simulated = match node.borrow().kind {
            Kind::Simulated(reason) => Some(Plan::Simulated(reason)),
            _ => None,
        };
        Ok(simulated.unwrap_or(plan))
    }

    fn rename(
        &mut self,
        context: &mut Context,
        from: (Option<usize>, u8),
        to: (Option<usize>, u8),
        flags: u32,
    ) -> Planned<Plan> {
        let from = self.name(context, from.0, from.1)?;
        let to = self.name(context, to.0, to.1)?;
        let plan = Plan::Execute(Action::Rename { from: from.place, to: to.place, flags });
        let (Some(mut old), Some(mut new)) = (from.spot, to.spot) else {
            return Ok(plan);
        };
        if !context.succeeded() {
            self.looked(context, &old);
            self.looked(context, &new);
            return Ok(plan);
        }
        let exchanges = flags & sys::RENAME_EXCHANGE != 0;
        let node = old.suppose(|| Kind::Unknown);
        self.files.proofs.prove(&node, Evidence::Exists);
        self.files.proofs.prove_parent(context, &old.directory);
        self.files.proofs.prove_parent(context, &new.directory);
        if exchanges {
            let other = new.suppose(|| Kind::Unknown);
            self.files.proofs.prove(&other, Evidence::Exists);
        }
        old.change_name(&mut context.turn);
        new.change_name(&mut context.turn);
        use_attributes(&node, Access::Exclusive, &mut context.turn);
        let other = new.node().cloned();
        if let Some(other) = &other {
            // Both are names of the same file: nothing happens.
            if Rc::ptr_eq(other, &node) {
                return Ok(plan);
            }
            unnamed(context, other);
        }
        self.files.world.forget_folders(&node);
        other.iter().for_each(|other| self.files.world.forget_folders(other));
        World::unlink(&old.directory, &old.name);
        World::link(&new.directory, &new.name, &node);
        if let Some(other) = other.filter(|_| exchanges) {
            World::link(&old.directory, &old.name, &other);
        }
        let simulated = match node.borrow().kind {
            Kind::Simulated(reason) => Some(Plan::Simulated(reason)),
            _ => None,
        };
        Ok(simulated.unwrap_or(plan))
    }

    fn link(
        &mut self,
        context: &mut Context,
        from: (Option<usize>, u8),
        to: (Option<usize>, u8),
        flags: i32,
    ) -> Planned<Plan> {
        let follows =
            if flags & sys::AT_SYMLINK_FOLLOW == 0 { sys::AT_SYMLINK_NOFOLLOW } else { 0 };
        let (source, node) = match self.files.named_by_descriptor(context, from.1) {
            Some((source, node)) => (source, Some(node)),
            None => self.files.target(
                context,
                (from.0, Some(from.1)),
                follows | flags & sys::AT_EMPTY_PATH,
                Evidence::Exists,
            )?,
        };
        let located = self.name(context, to.0, to.1)?;
        let place = match node {
            Some(node) => {
                use_attributes(&node, Access::Exclusive, &mut context.turn);
                self.files.world.forget_folders(&node);
                self.make(context, located, node)
            }
            None => {
                if let Some(spot) = &located.spot {
                    self.looked(context, spot);
                }
                located.place
            }
        };
        Ok(Plan::Execute(Action::Link { from: source, to: place }))
    }
}

/// Logs that a node loses a name: its link count changes, and a directory must be empty.
fn unnamed(context: &mut Context, node: &NodeRef) {
    use_attributes(node, Access::Exclusive, &mut context.turn);
    if let Kind::Directory(directory) = &mut node.borrow_mut().kind {
        directory.list.join(Access::Exclusive, context.turn.ticket, &mut context.turn.dependencies);
    }
}
