//! Places: files and directories below the root. They are opened relative to their directory if
//! another call has opened that.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Failure, file_of};
use crate::action::{Identity, Place, Target};
use crate::folder::Object;
use crate::root::{Root, single_name};

/// The tree below the root, accessed with the rights of the user whose calls are executed.
#[derive(Debug)]
pub(super) struct Places<'run> {
    root: &'run Root,
    /// Whether we are root, and can set owners and change users.
    is_root: bool,
    /// The user whose rights were taken on last, if any.
    identity: Option<Arc<Identity>>,
}

impl<'run> Places<'run> {
    /// Accesses the tree with the rights of the user who runs the replay.
    pub(super) fn new(root: &'run Root) -> Self {
        Self { root, is_root: rustix::process::geteuid().is_root(), identity: None }
    }
}

impl Places<'_> {
    /// Whether we can set owners and change users.
    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// Takes on a user and groups if we are root and they differ from those of the call before.
    pub(super) fn become_user(&mut self, identity: &Arc<Identity>) -> Result<(), Errno> {
        if !self.is_root {
            return Ok(());
        }
        if self
            .identity
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, identity) || current == identity)
        {
            return Ok(());
        }
        let (root, user) = (rustix::fs::Uid::ROOT, rustix::fs::Uid::from_raw(identity.user));
        let group = rustix::fs::Gid::from_raw(identity.group);
        let groups: Vec<_> =
            identity.groups.iter().map(|group| rustix::fs::Gid::from_raw(*group)).collect();
        rustix::thread::set_thread_res_uid(None, root, None)?;
        rustix::thread::set_thread_groups(&groups)?;
        rustix::thread::set_thread_res_gid(None, group, None)?;
        rustix::thread::set_thread_res_uid(None, user, None)?;
        self.identity = Some(identity.clone());
        Ok(())
    }

    /// Opens the object of a call with `O_PATH`.
    pub(super) fn find<'task>(&self, target: &'task Target) -> Result<Object<'task>, Failure> {
        Ok(match target {
            Target::Handle(handle) => Object::Kept(file_of(handle)?),
            Target::Place(place) => Object::Found(self.inspect(place)?),
        })
    }

    /// Opens the directory of a place. Returns it with the name in it.
    pub(super) fn parent<'place>(
        &self,
        place: &'place Place,
    ) -> Result<(Object<'place>, &'place [u8]), Errno> {
        let name = single_name(&place.name)?;
        let directory = match self.shares_folders() {
            true => self.root.folder(place)?,
            false => Object::Found(self.root.open(
                place.directory.path(),
                OFlags::PATH | OFlags::DIRECTORY,
                Mode::empty(),
            )?),
        };
        Ok((directory, name))
    }

    /// Opens the object of a place.
    pub(super) fn open_place(
        &self,
        place: &Place,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        if let Some(directory) = self.near(place)? {
            match Root::open_in(&directory, &place.name, flags, mode) {
                // A link: the path is resolved from the root.
                Err(Errno::LOOP) => {}
                opened => return opened,
            }
        }
        self.root.open(&place.path(), flags, mode)
    }

    /// Opens the object of a place with `O_PATH`.
    pub(super) fn inspect(&self, place: &Place) -> Result<OwnedFd, Errno> {
        let follow = if place.follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        self.open_place(place, OFlags::PATH | follow, Mode::empty())
    }

    /// Returns the `stat` data of a place.
    pub(super) fn stat(&self, place: &Place) -> Result<Stat, Errno> {
        if let Some(directory) = self.near(place)? {
            let stat =
                rustix::fs::statat(&directory, place.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            if !place.follows || FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                return Ok(stat);
            }
        }
        rustix::fs::fstat(self.inspect(place)?)
    }

    /// Returns the directory of a place with a plain name, for use instead of the whole path.
    fn near<'place>(&self, place: &'place Place) -> Result<Option<Object<'place>>, Errno> {
        let is_plain =
            !matches!(place.name.as_slice(), b"" | b"." | b"..") && !place.name.contains(&b'/');
        // If there are devices, the whole path is opened and checked.
        if !is_plain || !self.shares_folders() || self.root.has_devices() {
            return Ok(None);
        }
        self.root.folder(place).map(Some)
    }

    /// Whether this call could reach every directory that another call opened. Root can. For
    /// others, that depends on the modes of all directories on the path at that time.
    fn shares_folders(&self) -> bool {
        self.is_root && self.identity.as_ref().is_none_or(|identity| identity.user == 0)
    }
}
