//! Calls that inspect files without reading them.

use libc as sys;

use super::data::use_position;
use super::files::Files;
use super::{Context, Plan, Planned};
use crate::access::Access;
use crate::action::{Action, StatusLayout};
use crate::prepare::Evidence;
use crate::verify::{Status, entries};
use crate::world::{Kind, use_attributes, use_status};

/// Plans calls that inspect files.
pub(super) struct StatusCalls<'plan> {
    pub(super) files: &'plan mut Files,
}

impl StatusCalls<'_> {
    pub(super) fn plan(&mut self, context: &mut Context) -> Planned<Plan> {
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
        let (target, node) = self.files.target(context, what, flags, kind)?;
        let counts_links = node.as_ref().is_some_and(|node| node.borrow().is_own);
        if let Some(node) = &node {
            use_status(node, &mut context.turn);
            if let Some(status) =
                context.arguments.output(buffer).and_then(|bytes| Status::parse(layout, bytes))
            {
                self.files.proofs.prove_status(context, node, &status);
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
        let (target, node) = self.files.target(context, what, flags, Evidence::Exists)?;
        if let Some(node) = &node {
            use_attributes(node, Access::Share, &mut context.turn);
            if context.succeeded() && mode & sys::X_OK as u32 != 0 {
                self.files.proofs.prove(node, Evidence::Executable);
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
        // If the target fills the buffer, it may be truncated.
        let target_text = text.filter(|text| (text.len() as u64) < u64::from(size));
        let evidence =
            target_text.map_or(Evidence::Exists, |text| Evidence::Symlink(text.to_vec()));
        let (target, node) = self.files.target(
            context,
            what,
            sys::AT_SYMLINK_NOFOLLOW | sys::AT_EMPTY_PATH,
            evidence,
        )?;
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
        let (description, node) = self.files.file(context, context.arguments.descriptor(0))?;
        use_position(&description, Access::Exclusive, context);
        if context.succeeded() {
            self.files.proofs.prove(&node, Evidence::Directory);
        }
        if let Some(directory) = node.borrow_mut().as_directory() {
            directory.list.join(Access::Share, context.turn.ticket, &mut context.turn.dependencies);
        }
        if let Some(bytes) = context
            .arguments
            .output(1)
            .filter(|_| context.succeeded() && self.files.proofs.are_wanted())
        {
            entries(bytes, has_type).for_each(|entry| self.files.proofs.prove_entry(&node, &entry));
        }
        Ok(Plan::Execute(Action::List { handle: description.handle.clone(), has_type }))
    }
}

/// The kind of object that a status proves.
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
