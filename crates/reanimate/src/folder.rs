//! The directories that calls find names in.
//!
//! Consecutive calls mostly use names in the same few directories. The path of a directory is put
//! together once for all of them. The first worker that needs the directory opens it, and the
//! others use its descriptor: they need neither the path nor the lookups along it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory below the root, valid until some directory is renamed. If the trace is right, its
/// path has no links. If it is wrong, the path still cannot lead out of the root.
#[derive(Debug, Default)]
pub struct Folder {
    path: Vec<u8>,
    file: OnceLock<Kept>,
}

/// The number of directories that are kept open. Each takes a descriptor.
#[derive(Debug, Clone, Default)]
pub struct KeptCount(Arc<AtomicU32>);

/// An open directory that is counted.
#[derive(Debug)]
struct Kept {
    file: OwnedFd,
    count: KeptCount,
}

/// An open directory, or another object that was opened with `O_PATH`.
#[derive(Debug)]
pub enum Object<'kept> {
    /// Owned by a [`Folder`].
    Kept(BorrowedFd<'kept>),
    /// Opened for this call.
    Found(OwnedFd),
}

impl AsFd for Object<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Kept(file) => *file,
            Self::Found(file) => file.as_fd(),
        }
    }
}

impl Folder {
    /// Makes a directory from its path, which has no slash at either end.
    pub fn new(path: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { path, file: OnceLock::new() })
    }

    /// The path below the root.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the open directory. Calls `open` if it is not open yet.
    ///
    /// # Errors Those of `open`.
    pub fn opened<E>(
        &self,
        count: &KeptCount,
        open: impl FnOnce(&[u8]) -> Result<OwnedFd, E>,
    ) -> Result<Object<'_>, E> {
        if let Some(kept) = self.file.get() {
            return Ok(Object::Kept(kept.file.as_fd()));
        }
        let file = open(&self.path)?;
        if !count.take() {
            return Ok(Object::Found(file));
        }
        // If another worker was faster, its file is kept and this one is closed.
        Ok(Object::Kept(self.file.get_or_init(|| Kept { file, count: count.clone() }).file.as_fd()))
    }
}

impl KeptCount {
    /// The most directories that are kept open.
    const MAXIMUM: u32 = 256;

    /// Counts one more and returns true, if there is room for it.
    fn take(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < Self::MAXIMUM).then_some(count + 1)
            })
            .is_ok()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.count.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(_path: &[u8]) -> std::io::Result<OwnedFd> {
        Ok(std::fs::File::open("/")?.into())
    }

    #[test]
    fn a_directory_is_opened_once_and_closed_with_its_last_user() {
        let count = KeptCount::default();
        let folder = Folder::new(b"a/b".to_vec());
        assert!(matches!(folder.opened(&count, open).unwrap(), Object::Kept(_)));
        let again = folder.opened(&count, |_| Err(std::io::Error::other("it is open")));
        assert!(matches!(again.unwrap(), Object::Kept(_)));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        drop(folder);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_more_than_some_are_kept_open() {
        let count = KeptCount::default();
        let folders: Vec<_> =
            (0..KeptCount::MAXIMUM + 2).map(|_| Folder::new(Vec::new())).collect();
        let kept = folders
            .iter()
            .filter(|folder| matches!(folder.opened(&count, open).unwrap(), Object::Kept(_)))
            .count();
        assert_eq!(kept, KeptCount::MAXIMUM as usize);
    }

    #[test]
    fn what_cannot_be_opened_is_tried_again() {
        let folder = Folder::new(Vec::new());
        assert!(folder.opened(&KeptCount::default(), |_| Err(())).is_err());
        assert!(folder.opened(&KeptCount::default(), open).is_ok());
    }
}
