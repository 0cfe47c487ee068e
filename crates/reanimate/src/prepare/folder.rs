//! The directory of the files that are being made. Files made in a row are mostly in the same one.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::root::{Root, split};

/// The directory entered last, below a root, held open.
#[derive(Debug, Default)]
pub(super) struct Folder {
    open: Option<(Vec<u8>, OwnedFd)>,
}

impl Folder {
    /// Opens the directory of a path, and makes it if it does not exist. Returns it with the name
    /// in it.
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

    /// Closes the directory, because names of directories are about to change.
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

/// Makes a directory and its missing parents.
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
