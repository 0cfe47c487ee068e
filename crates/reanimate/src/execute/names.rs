//! Making, moving and removing names. Each is a single name in an open directory below the root.

use libc as sys;
use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags};

use super::data::done;
use super::places::Places;
use super::{Done, Effect, Failure, file_of};
use crate::action::{Action, Place, Target};
use crate::root::object_path;

impl Places<'_> {
    pub(super) fn name(&mut self, action: &Action) -> Done {
        match action {
            Action::MakeDirectory { place, mode } => {
                let (directory, name) = self.parent(place)?;
                Ok(done(rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(*mode)))?)
            }
            Action::MakeNode { place, mode } => {
                let (directory, name) = self.parent(place)?;
                let kind = match mode & sys::S_IFMT {
                    sys::S_IFIFO => FileType::Fifo,
                    sys::S_IFSOCK => FileType::Socket,
                    _ => FileType::RegularFile,
                };
                Ok(done(rustix::fs::mknodat(
                    directory,
                    name,
                    kind,
                    Mode::from_raw_mode(mode & 0o7777),
                    0,
                ))?)
            }
            Action::MakeSymlink { place, target } => {
                let (directory, name) = self.parent(place)?;
                Ok(done(rustix::fs::symlinkat(target.as_slice(), directory, name))?)
            }
            Action::Link { from, to } => self.link(from, to),
            Action::Remove { place, is_directory } => {
                let (directory, name) = self.parent(place)?;
                let flags = if *is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                Ok(done(rustix::fs::unlinkat(directory, name, flags))?)
            }
            Action::Rename { from, to, flags } => self.rename(from, to, *flags),
            _ => Ok(Effect::success()),
        }
    }

    fn rename(&self, from: &Place, to: &Place, flags: u32) -> Done {
        if flags & sys::RENAME_WHITEOUT != 0 {
            return Err(Failure::Skipped("renames that leave a device behind"));
        }
        let (old_directory, old_name) = self.parent(from)?;
        let (new_directory, new_name) = self.parent(to)?;
        let flags = RenameFlags::from_bits_retain(flags);
        Ok(done(rustix::fs::renameat_with(
            old_directory,
            old_name,
            new_directory,
            new_name,
            flags,
        ))?)
    }

    fn link(&self, from: &Target, to: &Place) -> Done {
        let (directory, name) = self.parent(to)?;
        Ok(done(match from {
            Target::Handle(handle) => rustix::fs::linkat(
                CWD,
                object_path(file_of(handle)?),
                directory,
                name,
                AtFlags::SYMLINK_FOLLOW,
            ),
            Target::Place(place) if place.follows => {
                let object = self.inspect(place)?;
                rustix::fs::linkat(
                    CWD,
                    object_path(&object),
                    directory,
                    name,
                    AtFlags::SYMLINK_FOLLOW,
                )
            }
            Target::Place(place) => {
                let (old_directory, old_name) = self.parent(place)?;
                rustix::fs::linkat(old_directory, old_name, directory, name, AtFlags::empty())
            }
        })?)
    }
}
