//! The directories that names of calls are in.
//!
//! Calls one after the other are mostly about names in the same few directories. Its path is put
//! together once for all of them, and who executes the first opens it for the others: they need
//! neither the path nor the way along it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory below the root, for as long as no directory changes its name. No links lead to it if
/// the trace is right; if it is wrong, opening it still cannot lead out.
#[derive(Debug, Default)]
pub struct Folder {
    path: Vec<u8>,
    file: OnceLock<Kept>,
}

/// How many directories are kept open: each is a descriptor.
#[derive(Debug, Clone, Default)]
pub struct KeptCount(Arc<AtomicU32>);

/// An open directory that counts.
#[derive(Debug)]
struct Kept {
    file: OwnedFd,
    count: KeptCount,
}

/// An open directory, or another object that was opened without access.
#[derive(Debug)]
pub enum Object<'kept> {
    /// Somebody keeps it.
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
    /// The directory with this path, without a slash at either end.
    pub fn new(path: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { path, file: OnceLock::new() })
    }

    /// Its path below the root.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// It, open: by `open` if nobody has it open already.
    ///
    /// # Errors
    /// Those of `open`.
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
        // Another worker may have been faster; then this one is closed.
        Ok(Object::Kept(self.file.get_or_init(|| Kept { file, count: count.clone() }).file.as_fd()))
    }
}

impl KeptCount {
    /// The most of them.
    const MAXIMUM: u32 = 256;

    /// Whether there is room for one more, which is then counted.
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
