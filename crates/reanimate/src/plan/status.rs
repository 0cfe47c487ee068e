//! Calls that look at files without reading them.

use libc as sys;

use super::data::use_position;
use super::{Context, Plan, Planned, Planner};
use crate::access::Access;
use crate::action::{Action, StatusLayout, Target};
use crate::prepare::Evidence;
use crate::verify::{Status, entries};
use crate::world::{Kind, NodeRef, use_attributes, use_status};

impl Planner {
    pub(super) fn status(&mut self, context: &mut Context) -> Planned<Plan> {
        let arguments = context.arguments;
        let flags = |index: usize| arguments.uint(index) as i32;
        match i64::from(context.call.number) {
            sys::SYS_stat => self.stat(context, (None, Some(0)), 0, StatusLayout::Stat, 1),
            sys::SYS_lstat => {
                self.stat(context, (None, Some(0)), sys::AT_SYMLINK_NOFOLLOW, StatusLayout::Stat, 1)
            }
            sys::SYS_fstat => {
                self.stat(context, (Some(0), None), sys::AT_EMPTY_PATH, StatusLayout::Stat, 1)
            }
            sys::SYS_newfstatat => {
                self.stat(context, (Some(0), Some(1)), flags(3), StatusLayout::Stat, 2)
            }
            sys::SYS_statx => {
                self.stat(context, (Some(0), Some(1)), flags(2), StatusLayout::Statx, 4)
            }
            sys::SYS_access => self.access(context, (None, Some(0)), 0, 1),
            sys::SYS_faccessat => self.access(context, (Some(0), Some(1)), 0, 2),
            sys::SYS_faccessat2 => self.access(context, (Some(0), Some(1)), flags(3), 2),
            sys::SYS_readlink => self.read_link(context, (None, Some(0)), 1),
            sys::SYS_readlinkat => self.read_link(context, (Some(0), Some(1)), 2),
            _ => self.list(context),
        }
    }

    fn stat(
        &mut self,
        context: &mut Context,
        what: (Option<usize>, Option<u8>),
        flags: i32,
        layout: StatusLayout,
        buffer: u8,
    ) -> Planned<Plan> {
        let kind = status_kind(context, layout, buffer);
        let (target, node) = self.target(context, what, flags, kind)?;
        let counts_links = node.as_ref().is_some_and(|node| node.borrow().is_own);
        if let Some(node) = &node {
            use_status(node, &mut context.turn);
            if let Some(status) =
                context.arguments.output(buffer).and_then(|bytes| Status::parse(layout, bytes))
            {
                self.prove_status(context, node, &status);
            }
        }
        Ok(Plan::Execute(Action::Status { target, layout, buffer, counts_links }))
    }

    fn access(
        &mut self,
        context: &mut Context,
        what: (Option<usize>, Option<u8>),
        flags: i32,
        mode: usize,
    ) -> Planned<Plan> {
        let mode = context.arguments.uint(mode);
        let (target, node) = self.target(context, what, flags, Evidence::Exists)?;
        if let Some(node) = &node {
            use_attributes(node, Access::Share, &mut context.turn);
            if context.succeeded() && mode & sys::X_OK as u32 != 0 {
                self.prove(node, Evidence::Executable);
            }
        }
        Ok(Plan::Execute(Action::Access { target, mode }))
    }

    fn read_link(
        &mut self,
        context: &mut Context,
        what: (Option<usize>, Option<u8>),
        buffer: u8,
    ) -> Planned<Plan> {
        let text = context.arguments.output(buffer).filter(|_| context.succeeded());
        let size = context.arguments.uint(usize::from(buffer) + 1);
        // A link that filled the buffer may go on.
        let target_text = text.filter(|text| (text.len() as u64) < u64::from(size));
        let evidence =
            target_text.map_or(Evidence::Exists, |text| Evidence::Symlink(text.to_vec()));
        let (target, node) =
            self.target(context, what, sys::AT_SYMLINK_NOFOLLOW | sys::AT_EMPTY_PATH, evidence)?;
        if let Some(node) = &node {
            use_attributes(node, Access::Share, &mut context.turn);
            let is_unknown = matches!(node.borrow().kind, Kind::Unknown);
            if let Some(text) = target_text.filter(|_| is_unknown) {
                node.borrow_mut().kind = Kind::Symlink(text.to_vec());
            }
        }
        Ok(Plan::Execute(Action::ReadLink { target, buffer }))
    }

    fn list(&mut self, context: &mut Context) -> Planned<Plan> {
        let has_type = i64::from(context.call.number) == sys::SYS_getdents64;
        let (description, node) = self.file(context, context.arguments.descriptor(0))?;
        use_position(&description, Access::Exclusive, context);
        if context.succeeded() {
            self.prove(&node, Evidence::Directory);
        }
        if let Some(directory) = node.borrow_mut().as_directory() {
            directory.list.join(Access::Share, context.turn.ticket, &mut context.turn.dependencies);
        }
        if let Some(bytes) = context
            .arguments
            .output(1)
            .filter(|_| context.succeeded() && self.preparation.is_some())
        {
            entries(bytes, has_type).for_each(|entry| self.prove_entry(&node, &entry));
        }
        Ok(Plan::Execute(Action::List { handle: description.handle.clone(), has_type }))
    }

    /// What a call is about that takes a descriptor, a path, or both. What it found there, if it
    /// succeeded, is proven.
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
        let path = path.ok_or(Plan::Simulated(super::NO_PATH))?;
        let follows = flags & sys::AT_SYMLINK_NOFOLLOW == 0;
        if let Some((target, node)) = self.named_by_descriptor(context, path).filter(|_| follows) {
            if context.succeeded() {
                self.prove(&node, evidence);
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
        self.prove(&node, evidence);
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
                self.world.folder_of(&current).ok_or(Plan::Simulated(super::REMOVED_DIRECTORY))?;
            let place = crate::action::Place { directory, name: Vec::new(), follows: true };
            return Ok((Target::Place(place), Some(current)));
        }
        let (description, node) = self.file(context, number)?;
        if context.succeeded() {
            self.prove(&node, evidence);
        }
        Ok((Target::Handle(description.handle.clone()), Some(node)))
    }
}

/// What kind of thing a status proves.
fn status_kind(context: &Context, layout: StatusLayout, buffer: u8) -> Evidence {
    let status = context.arguments.output(buffer).and_then(|bytes| Status::parse(layout, bytes));
    match status.map(|status| status.mode & sys::S_IFMT) {
        Some(sys::S_IFDIR) => Evidence::Directory,
        Some(sys::S_IFREG) => Evidence::File,
        Some(sys::S_IFLNK) => Evidence::SomeSymlink,
        Some(sys::S_IFIFO) => Evidence::Fifo,
        Some(sys::S_IFSOCK) => Evidence::Socket,
        Some(sys::S_IFCHR | sys::S_IFBLK) => Evidence::Device,
        _ => Evidence::Exists,
    }
}
