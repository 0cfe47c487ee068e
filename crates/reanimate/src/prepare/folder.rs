//! The directory of what is being made: most of what is made one after the other lies in the same.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::root::{Root, split};

/// The directory below a root that was entered last, held open.
#[derive(Debug, Default)]
pub(super) struct Folder {
    open: Option<(Vec<u8>, OwnedFd)>,
}

impl Folder {
    /// Opens the directory of a path, made if it was not there; with the name in it.
    pub(super) fn enter<'path>(
        &mut self,
        root: &Root,
        path: &'path [u8],
    ) -> Result<(&OwnedFd, &'path [u8]), Errno> {
        let (directory, name) = split(path);
        let open = match self.open.take().filter(|(path, _)| path == directory) {
            Some(open) => open,
            None => (directory.to_vec(), open_directory(root, directory)?),
        };
        Ok((&self.open.insert(open).1, name))
    }

    /// Forgets the open directory, because names of directories change.
    pub(super) fn leave(&mut self) {
        self.open = None;
    }
}

fn open_directory(root: &Root, path: &[u8]) -> Result<OwnedFd, Errno> {
    let open = || root.open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
    match open() {
        Err(Errno::NOENT) => make_directories(root, path).and_then(|()| open()),
        opened => opened,
    }
}

/// Makes a directory, and those on the way to it.
fn make_directories(root: &Root, path: &[u8]) -> Result<(), Errno> {
    let mut at = 0;
    while at < path.len() {
        let end =
            path[at..].iter().position(|byte| *byte == b'/').map_or(path.len(), |index| at + index);
        let (parent, name) = root.parent(&path[..end])?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        at = end + 1;
    }
    Ok(())
}
