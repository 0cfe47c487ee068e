//! What places are: files and directories below the root, found from their directory if somebody
//! has it open.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Failure, file_of};
use crate::action::{Identity, Place, Target};
use crate::folder::Object;
use crate::root::{Root, single_name};

/// The tree below the root, as the user reaches it whose calls are executed.
#[derive(Debug)]
pub(super) struct Places<'run> {
    root: &'run Root,
    /// Owners can be set, and users be taken on.
    is_root: bool,
    /// Whose calls are executed, once somebody's rights were taken on.
    identity: Option<Arc<Identity>>,
}

impl<'run> Places<'run> {
    /// As the user reaches them who runs this.
    pub(super) fn new(root: &'run Root) -> Self {
        Self { root, is_root: rustix::process::geteuid().is_root(), identity: None }
    }
}

impl Places<'_> {
    /// Whether owners can be set, and users be taken on.
    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// Takes on users and groups, if that is possible and they are others than those of the call
    /// before.
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

    /// The object that a call is about, without any access to it.
    pub(super) fn find<'task>(&self, target: &'task Target) -> Result<Object<'task>, Failure> {
        Ok(match target {
            Target::Handle(handle) => Object::Kept(file_of(handle)?),
            Target::Place(place) => Object::Found(self.inspect(place)?),
        })
    }

    /// The directory of a place, and the name in it.
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

    /// Opens what a place names.
    pub(super) fn open_place(
        &self,
        place: &Place,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        if let Some(directory) = self.near(place)? {
            match Root::open_in(&directory, &place.name, flags, mode) {
                // A link: it leads on from the root.
                Err(Errno::LOOP) => {}
                opened => return opened,
            }
        }
        self.root.open(&place.path(), flags, mode)
    }

    /// Opens what a place names without any access to it.
    pub(super) fn inspect(&self, place: &Place) -> Result<OwnedFd, Errno> {
        let follow = if place.follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        self.open_place(place, OFlags::PATH | follow, Mode::empty())
    }

    /// What `stat` tells of a place.
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

    /// The directory of a place whose name is a plain one, to be used instead of the whole path.
    fn near<'place>(&self, place: &'place Place) -> Result<Option<Object<'place>>, Errno> {
        let is_plain =
            !matches!(place.name.as_slice(), b"" | b"." | b"..") && !place.name.contains(&b'/');
        // Where there are devices, they are looked for on the way.
        if !is_plain || !self.shares_folders() || self.root.has_devices() {
            return Ok(None);
        }
        self.root.folder(place).map(Some)
    }

    /// Whether a directory that another call opened is one that this call could reach: for root all
    /// are. For others that depends on the modes of all directories on the way, as they are then.
    fn shares_folders(&self) -> bool {
        self.is_root && self.identity.as_ref().is_none_or(|identity| identity.user == 0)
    }
}
