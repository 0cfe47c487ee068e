//! Calls that change or read modes, owners, times and extended attributes.

use libc as sys;

use super::files::{Files, NO_PATH};
use super::{Context, Plan, Planned};
use crate::access::Access;
use crate::action::{Action, Target, Time};
use crate::calls::u64_at;
use crate::prepare::Evidence;
use crate::world::{NodeRef, use_attributes};

/// The arguments of the directory or descriptor, and of the path.
type What = (Option<usize>, Option<u8>);

const DESCRIPTOR: What = (Some(0), None);
const PATH: What = (None, Some(0));
const AT: What = (Some(0), Some(1));
const NOFOLLOW: i32 = sys::AT_SYMLINK_NOFOLLOW;

/// Plans calls that change or read attributes.
pub(super) struct AttributeCalls<'plan> {
    pub(super) files: &'plan mut Files,
}

impl AttributeCalls<'_> {
    pub(super) fn plan(&mut self, context: &mut Context) -> Planned<Plan> {
        let arguments = context.arguments;
        let flags = |index: usize| arguments.uint(index) as i32;
        match i64::from(context.call.number) {
            sys::SYS_chmod => self.set_mode(context, PATH, 0, 1),
            sys::SYS_fchmod => self.set_mode(context, DESCRIPTOR, sys::AT_EMPTY_PATH, 1),
            sys::SYS_fchmodat => self.set_mode(context, AT, 0, 2),
            sys::SYS_fchmodat2 => self.set_mode(context, AT, flags(3), 2),
            sys::SYS_chown => self.set_owner(context, PATH, 0, 1),
            sys::SYS_lchown => self.set_owner(context, PATH, NOFOLLOW, 1),
            sys::SYS_fchown => self.set_owner(context, DESCRIPTOR, sys::AT_EMPTY_PATH, 1),
            sys::SYS_fchownat => self.set_owner(context, AT, flags(4), 2),
            sys::SYS_utime => self.set_times(context, PATH, 0, 1),
            sys::SYS_utimes => self.set_times(context, PATH, 0, 1),
            sys::SYS_futimesat => {
                self.set_times(context, at_or_descriptor(context), sys::AT_EMPTY_PATH, 2)
            }
            sys::SYS_utimensat => {
                self.set_times(context, at_or_descriptor(context), flags(3) | sys::AT_EMPTY_PATH, 2)
            }
            sys::SYS_truncate => self.truncate(context),
            _ => self.extended(context),
        }
    }

    /// The object whose attributes a call changes. The call waits for earlier calls that read them.
    fn changed(
        &mut self,
        context: &mut Context,
        what: What,
        flags: i32,
    ) -> Planned<(Target, Option<NodeRef>)> {
        let (target, node) = self.files.target(context, what, flags, Evidence::Exists)?;
        if let Some(node) = &node {
            use_attributes(node, Access::Exclusive, &mut context.turn);
            if let Some(origin) = node.borrow_mut().origin.as_mut().filter(|_| context.succeeded())
            {
                origin.note_attributes_changed();
            }
            block_lookups(context, node);
        }
        Ok((target, node))
    }

    fn set_mode(
        &mut self,
        context: &mut Context,
        what: What,
        flags: i32,
        mode: usize,
    ) -> Planned<Plan> {
        let (target, _) = self.changed(context, what, flags)?;
        Ok(Plan::Execute(Action::SetMode { target, mode: context.arguments.uint(mode) & 0o7777 }))
    }

    fn set_owner(
        &mut self,
        context: &mut Context,
        what: What,
        flags: i32,
        first: usize,
    ) -> Planned<Plan> {
        let (target, _) = self.changed(context, what, flags)?;
        let (user, group) = (context.arguments.uint(first), context.arguments.uint(first + 1));
        Ok(Plan::Execute(Action::SetOwner { target, user, group }))
    }

    fn set_times(
        &mut self,
        context: &mut Context,
        what: What,
        flags: i32,
        buffer: u8,
    ) -> Planned<Plan> {
        let times = match context.arguments.input(buffer) {
            Some(input) => Some(
                times(context.call.number, &input.data)
                    .ok_or(Plan::Skipped("times that are not in the trace"))?,
            ),
            None => None,
        };
        let (target, _) = self.changed(context, what, flags)?;
        Ok(Plan::Execute(Action::SetTimes { target, times }))
    }

    fn truncate(&mut self, context: &mut Context) -> Planned<Plan> {
        let size = context.arguments.word(1);
        let mut located = self.files.locate(context, None, 0, true)?;
        if let Some(spot) = &mut located.spot {
            self.files.use_spot(context, spot, Access::Share);
            if context.succeeded() {
                let node = spot.suppose(|| crate::world::Kind::Unknown);
                self.files.resized(context, &node, size);
            }
        }
        Ok(Plan::Execute(Action::Truncate { place: located.place, size }))
    }

    fn extended(&mut self, context: &mut Context) -> Planned<Plan> {
        let number = i64::from(context.call.number);
        let (what, flags) = match number {
            sys::SYS_fsetxattr
            | sys::SYS_fgetxattr
            | sys::SYS_flistxattr
            | sys::SYS_fremovexattr => (DESCRIPTOR, sys::AT_EMPTY_PATH),
            sys::SYS_lsetxattr
            | sys::SYS_lgetxattr
            | sys::SYS_llistxattr
            | sys::SYS_lremovexattr => (PATH, NOFOLLOW),
            _ => (PATH, 0),
        };
        let arguments = context.arguments;
        let lists =
            matches!(number, sys::SYS_listxattr | sys::SYS_llistxattr | sys::SYS_flistxattr);
        if lists {
            let (target, node) = self.files.target(context, what, flags, Evidence::Exists)?;
            node.iter().for_each(|node| use_attributes(node, Access::Share, &mut context.turn));
            return Ok(Plan::Execute(Action::ListAttributes {
                target,
                capacity: arguments.word(2),
            }));
        }
        let name = arguments.text(1).ok_or(Plan::Simulated(NO_PATH))?.to_vec();
        match number {
            sys::SYS_getxattr | sys::SYS_lgetxattr | sys::SYS_fgetxattr => {
                let (target, node) = self.files.target(context, what, flags, Evidence::Exists)?;
                if let Some(node) = &node {
                    use_attributes(node, Access::Share, &mut context.turn);
                    if let Some(value) = arguments.output(2).filter(|_| context.succeeded()) {
                        self.files.proofs.prove_attribute(node, &name, value);
                    }
                }
                Ok(Plan::Execute(Action::GetAttribute {
                    target,
                    name,
                    capacity: arguments.word(3),
                }))
            }
            sys::SYS_setxattr | sys::SYS_lsetxattr | sys::SYS_fsetxattr => {
                let (target, _) = self.changed(context, what, flags)?;
                Ok(Plan::Execute(Action::SetAttribute { target, name, flags: arguments.uint(4) }))
            }
            _ => {
                let (target, _) = self.changed(context, what, flags)?;
                Ok(Plan::Execute(Action::RemoveAttribute { target, name }))
            }
        }
    }
}

/// Makes later lookups wait: the mode of a directory decides who can reach the entries.
fn block_lookups(context: &mut Context, node: &NodeRef) {
    let (parent, name) = match &*node.borrow() {
        node if matches!(node.kind, crate::world::Kind::Directory(_)) => {
            (node.parent.upgrade(), node.name.clone())
        }
        _ => return,
    };
    if let Some(directory) = parent
        .as_ref()
        .map(|parent| parent.borrow_mut())
        .as_mut()
        .and_then(|parent| parent.as_directory())
    {
        directory.use_name(
            &name,
            Access::Exclusive,
            context.turn.ticket,
            &mut context.turn.dependencies,
        );
    }
}

/// Returns the arguments of `utimensat` or `futimesat`, which act on the descriptor itself if they
/// get no path.
fn at_or_descriptor(context: &Context) -> What {
    if context.arguments.word(1) == 0 { DESCRIPTOR } else { AT }
}

/// The access and modification times, which each call has in a format of its own.
fn times(number: u32, data: &[u8]) -> Option<[Time; 2]> {
    let word = |index: usize| u64_at(data, 8 * index).map(|word| word as i64);
    let time = |seconds, nanoseconds| Time { seconds, nanoseconds };
    Some(match i64::from(number) {
        sys::SYS_utime => [time(word(0)?, 0), time(word(1)?, 0)],
        sys::SYS_utimensat => [time(word(0)?, word(1)?), time(word(2)?, word(3)?)],
        _ => [
            time(word(0)?, word(1)?.checked_mul(1000)?),
            time(word(2)?, word(3)?.checked_mul(1000)?),
        ],
    })
}
