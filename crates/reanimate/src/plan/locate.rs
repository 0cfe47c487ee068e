//! Resolution of the paths of a call.

use libc as sys;

use super::files::{Files, Located, NO_PATH, REMOVED_DIRECTORY};
use super::{Context, Plan, Planned};
use crate::action::Place;
use crate::folder::Folder;
use crate::world::{Base, Resolution};

const NAMELESS: &str = "descriptors of files without a name, used as paths";

impl Files {
    /// Resolves a path argument. `directory` is the index of the argument that relative paths start
    /// at.
    pub(super) fn locate(
        &mut self,
        context: &mut Context,
        directory: Option<usize>,
        path: u8,
        follows: bool,
    ) -> Planned<Located> {
        let path = context.arguments.text(path).ok_or(Plan::Simulated(NO_PATH))?;
        self.locate_path(context, directory, path, follows)
    }

    pub(super) fn locate_path(
        &mut self,
        context: &mut Context,
        directory: Option<usize>,
        path: &[u8],
        follows: bool,
    ) -> Planned<Located> {
        let base = context.thread.surroundings.borrow().base.clone();
        if let Some((number, rest)) = through_descriptor(path) {
            return self.locate_below(context, base, number, rest, follows);
        }
        let mut base = base;
        let number = directory.map_or(sys::AT_FDCWD, |index| context.arguments.descriptor(index));
        if number != sys::AT_FDCWD && path.first() != Some(&b'/') {
            base.current = self.file(context, number)?.1;
        }
        self.locate_from(context, &base, path, follows)
    }

    /// Resolves a path through one of the process's own descriptors: the descriptor itself, or
    /// `rest` below it.
    fn locate_below(
        &mut self,
        context: &mut Context,
        mut base: Base,
        number: i32,
        rest: &[u8],
        follows: bool,
    ) -> Planned<Located> {
        let node = self.file(context, number)?.1;
        if !rest.is_empty() {
            base.current = node;
            return self.locate_from(context, &base, rest, follows);
        }
        if node.borrow_mut().as_directory().is_some() {
            base.current = node;
            return self.locate_from(context, &base, b".", follows);
        }
        let (parent, name) = (node.borrow().parent.upgrade(), node.borrow().name.clone());
        base.current = parent.ok_or(Plan::Simulated(NAMELESS))?;
        self.locate_from(context, &base, &name, false)
    }

    fn locate_from(
        &mut self,
        context: &mut Context,
        base: &Base,
        path: &[u8],
        follows: bool,
    ) -> Planned<Located> {
        context.turn.is_used = true;
        match self.world.resolve(base, path, follows, &mut context.turn) {
            Resolution::Simulated(reason) => Err(Plan::Simulated(reason)),
            Resolution::Spot(spot) => {
                let directory = self
                    .world
                    .folder_of(&spot.directory)
                    .ok_or(Plan::Simulated(REMOVED_DIRECTORY))?;
                let mut name = if spot.is_plain() { spot.name.clone() } else { Vec::new() };
                if spot.wants_directory && spot.is_plain() {
                    name.push(b'/');
                }
                Ok(Located { place: Place { directory, name, follows }, spot: Some(spot) })
            }
            Resolution::Broken => {
                let start = if path.first() == Some(&b'/') { &base.root } else { &base.current };
                let start =
                    self.world.folder_of(start).ok_or(Plan::Simulated(REMOVED_DIRECTORY))?;
                Ok(Located { place: unresolved(start.path(), path, follows), spot: None })
            }
        }
    }
}

/// Splits a path such as `/proc/self/fd/5/name` into the descriptor and the rest.
fn through_descriptor(path: &[u8]) -> Option<(i32, &[u8])> {
    let folders: [&[u8]; 3] = [b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/"];
    let rest = folders.iter().find_map(|folder| path.strip_prefix(*folder))?;
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    let below = rest[end..]
        .iter()
        .position(|byte| *byte != b'/')
        .map_or(&[][..], |start| &rest[end + start..]);
    Some((number, below))
}

/// Returns a place for a path that could not be resolved. The call is executed with this path below
/// the root, and fails as it did in the trace.
fn unresolved(start: &[u8], path: &[u8], follows: bool) -> Place {
    let whole = [start, b"/", path].concat();
    let end = whole.iter().rposition(|byte| *byte != b'/').map_or(0, |index| index + 1);
    let split = whole[..end].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    Place {
        directory: Folder::new(whole[..split].to_vec()),
        name: whole[split + 1..].to_vec(),
        follows,
    }
}

#[cfg(test)]
mod tests {
    use super::through_descriptor;

    #[test]
    fn paths_through_descriptors_are_known() {
        let cases: [(&str, Option<(i32, &str)>); 6] = [
            ("/proc/self/fd/4/./again", Some((4, "./again"))),
            ("/proc/thread-self/fd/12", Some((12, ""))),
            ("/dev/fd/3//a/", Some((3, "a/"))),
            ("/proc/self/fd/", None),
            ("/proc/self/fd/x/a", None),
            ("/proc/1/fd/3", None),
        ];
        for (path, expected) in cases {
            assert_eq!(
                through_descriptor(path.as_bytes()),
                expected.map(|(number, rest)| (number, rest.as_bytes())),
                "{path}"
            );
        }
    }
}
