//! The directory of what is being made: most of what is made one after the other lies in the same.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::materials::Preparation;
use crate::root::split;

/// A directory below the root that is open.
#[derive(Debug)]
pub(super) struct Folder {
    path: Vec<u8>,
    file: OwnedFd,
}

impl Preparation {
    /// Opens the directory of a path, made if it was not there; with the name in it.
    pub(super) fn enter<'path>(
        &mut self,
        path: &'path [u8],
    ) -> Result<(&OwnedFd, &'path [u8]), Errno> {
        let (directory, name) = split(path);
        let folder = match self.folder.take().filter(|folder| folder.path == directory) {
            Some(folder) => folder,
            None => Folder { path: directory.to_vec(), file: self.open_directory(directory)? },
        };
        Ok((&self.folder.insert(folder).file, name))
    }

    /// Forgets the open directory, because names of directories change.
    pub(super) fn leave(&mut self) {
        self.folder = None;
    }

    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let open = || self.root.open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        match open() {
            Err(Errno::NOENT) => self.make_directories(path).and_then(|()| open()),
            opened => opened,
        }
    }

    /// Makes a directory, and those on the way to it.
    fn make_directories(&self, path: &[u8]) -> Result<(), Errno> {
        let mut at = 0;
        while at < path.len() {
            let end = path[at..]
                .iter()
                .position(|byte| *byte == b'/')
                .map_or(path.len(), |index| at + index);
            let (parent, name) = self.root.parent(&path[..end])?;
            match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            at = end + 1;
        }
        Ok(())
    }
}
