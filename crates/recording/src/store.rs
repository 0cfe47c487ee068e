//! The store: files named by their content and shared by all recordings.
//!
//! Layout: the files are in `<first two digits>/<hash>`, and derived files in `cache/<kind>/<hash
//! of the key>`. `identities` and `leased` say which file of the system had which content. The rest
//! is `temporary/` and `lock`.
//!
//! Invariants: a file has exactly the bytes of the hash that names it (the hash was computed while
//! these bytes were written), and never changes. A name appears only once its file is complete. Any
//! number of processes may use a store at once; a collection needs it alone.

mod collect;
pub(crate) mod copy;
mod identity;
mod leased;
mod named;
pub mod sparse;
pub(crate) mod temporary;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::ContentId;
use crate::error::{Error, Result};
use crate::source::open_regular;
pub use collect::CollectionReport;
use copy::{clone_file, copy_file, hash_file};
pub use identity::FileIdentity;
use identity::IdentityCache;
use temporary::{TemporaryFile, make_private_directories};

pub(crate) const TEMPORARY_NAME: &str = "temporary";
pub(crate) const CACHE_NAME: &str = "cache";
pub(crate) const IDENTITIES_NAME: &str = "identities";
pub(crate) const LEASED_NAME: &str = "leased";
pub(crate) const LOCK_NAME: &str = "lock";

/// How often copying is retried for a file that changes meanwhile.
const COPY_ATTEMPTS: u32 = 5;

/// An open store. A collection is possible only after it is dropped.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    identities: Mutex<IdentityCache>,
    /// The identities of files that were protected by a lease when they were entered.
    leased: Mutex<IdentityCache>,
    /// A shared lock, held while the store is open. It keeps content that was just added, and that
    /// no recording links to yet, from being collected.
    _lock: File,
}

impl Store {
    /// Opens the store in directory `root`, which is created if needed. Waits for a running
    /// collection.
    pub fn open(root: &Path) -> Result<Self> {
        make_private_directories(&root.join(TEMPORARY_NAME))?;
        make_private_directories(&root.join(CACHE_NAME))?;
        let lock = open_lock(root)?;
        while let Err(error) = lock.lock_shared() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(Error::io("lock", root, error));
            }
        }
        let identities = Mutex::new(IdentityCache::open(&root.join(IDENTITIES_NAME))?);
        let leased = Mutex::new(IdentityCache::open(&root.join(LEASED_NAME))?);
        Ok(Self { root: root.to_path_buf(), identities, leased, _lock: lock })
    }

    /// Returns the store's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path that a file with this content has or would have.
    pub fn path(&self, id: ContentId) -> PathBuf {
        content_path(&self.root, id)
    }

    /// Whether the store has this content.
    pub fn contains(&self, id: ContentId) -> bool {
        fs::symlink_metadata(self.path(id)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Opens the file with this content for reading.
    ///
    /// # Errors
    /// `NoContent`, `Io`.
    pub fn open_content(&self, id: ContentId) -> Result<File> {
        if self.contains(id) { open_regular(&self.path(id)) } else { Err(self.no_content(id)) }
    }

    /// Returns the content of a file with a known identity, if the store has it. No byte of the
    /// file needs to be read then.
    pub fn lookup(&self, identity: &FileIdentity) -> Option<ContentId> {
        let id = self.identities.lock().unwrap_or_else(PoisonError::into_inner).get(identity)?;
        self.has_sized(id, identity.bytes).then_some(id)
    }

    /// Adds the bytes of a regular file, whatever its position. A file with a known identity is not
    /// read at all. Otherwise the bytes are read once if the store has them already or if the file
    /// system can share them between files, else twice.
    ///
    /// # Errors
    /// `FileChanging` if another process keeps writing to it; `NoSpace`; `Io`.
    pub fn add_file(&self, file: &File) -> Result<ContentId> {
        for _ in 0..COPY_ATTEMPTS {
            let identity = FileIdentity::of(file)?;
            if let Some(id) = self.lookup(&identity) {
                return Ok(id);
            }
            let id = self.add_unknown(file, identity.bytes)?;
            // Bytes written while we read may be in the copy, or not, or partly.
            if let Some(id) = id.filter(|_| FileIdentity::of(file).is_ok_and(|now| now == identity))
            {
                self.remember(&identity, id);
                return Ok(id);
            }
        }
        let identity = FileIdentity::of(file)?;
        Err(Error::FileChanging { device: identity.device, inode: identity.inode })
    }

    /// Adds a file of `bytes` bytes. Returns `None` if the file changed meanwhile.
    fn add_unknown(&self, file: &File, bytes: u64) -> Result<Option<ContentId>> {
        let mut temporary = TemporaryFile::create_in(&self.root.join(TEMPORARY_NAME))?;
        let reading = |error| Error::io("read a file to be stored in", &self.root, error);
        if let Some(layout) = sparse::Layout::of(file, bytes).map_err(reading)? {
            let path = temporary.path().to_path_buf();
            let written = layout.write(file, temporary.file());
            written.map_err(|error| Error::io("write to", &path, error))?;
            let (id, stored_bytes) = hash_file(temporary.file(), &path)?;
            self.publish(temporary, id, stored_bytes)?;
            return Ok(Some(id));
        }
        if clone_file(file, temporary.file()) {
            // From here on no other process can change the bytes.
            let path = temporary.path().to_path_buf();
            let (id, copied_bytes) = hash_file(temporary.file(), &path)?;
            self.publish(temporary, id, copied_bytes)?;
            return Ok(Some(id));
        }
        let (expected, hashed_bytes) = hash_file(file, &self.root)?;
        if self.has_sized(expected, hashed_bytes) {
            return Ok(Some(expected));
        }
        if hashed_bytes != bytes {
            return Ok(None);
        }
        let path = temporary.path().to_path_buf();
        let (id, copied_bytes) = copy_file(file, temporary.file(), &path)?;
        if id != expected {
            return Ok(None);
        }
        self.publish(temporary, id, copied_bytes)?;
        Ok(Some(id))
    }

    /// Adds bytes from memory.
    pub fn add_bytes(&self, bytes: &[u8]) -> Result<ContentId> {
        use std::io::Write;
        let id = ContentId::of(bytes);
        if !self.has_sized(id, bytes.len() as u64) {
            let mut temporary = TemporaryFile::create_in(&self.root.join(TEMPORARY_NAME))?;
            let written = temporary.file().write_all(bytes);
            written.map_err(|error| Error::io("write to", temporary.path(), error))?;
            self.publish(temporary, id, bytes.len() as u64)?;
        }
        Ok(id)
    }

    /// Creates a file named by this content in `directory`: a hard link, or a copy if a link is
    /// impossible.
    pub(crate) fn link_into(&self, id: ContentId, directory: &Path) -> Result<()> {
        if !self.contains(id) {
            return Err(self.no_content(id));
        }
        let target = directory.join(id.to_string());
        match fs::hard_link(self.path(id), &target) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // The target is on another file system, or the file has too many links.
            Err(_) => self.copy_into(id, directory, &target),
        }
    }

    /// As [`Store::link_into`], and first adds the content, `bytes`, if it is not there. Once it is
    /// there, its bytes are on the disk, so nobody needs to look at its size.
    pub(crate) fn link_bytes(&self, id: ContentId, bytes: &[u8], directory: &Path) -> Result<()> {
        use std::io::Write;
        match fs::hard_link(self.path(id), directory.join(id.to_string())) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut temporary = TemporaryFile::create_in(&self.root.join(TEMPORARY_NAME))?;
                let written = temporary.file().write_all(bytes);
                written.map_err(|error| Error::io("write to", temporary.path(), error))?;
                temporary.sync()?;
                self.publish(temporary, id, bytes.len() as u64)?;
            }
            Err(_) => {}
        }
        self.link_into(id, directory)
    }

    /// Shares a file whose bytes are known to be this content, if the store lacks it and a hard
    /// link between the two places is possible. Otherwise nothing is lost.
    pub(crate) fn adopt(&self, id: ContentId, path: &Path) {
        let target = self.path(id);
        if target.parent().is_some_and(|folder| make_private_directories(folder).is_ok()) {
            let _ = fs::hard_link(path, target);
        }
    }

    fn copy_into(&self, id: ContentId, directory: &Path, target: &Path) -> Result<()> {
        let file = self.open_content(id)?;
        let mut temporary = TemporaryFile::create_in(directory)?;
        if !clone_file(&file, temporary.file()) {
            let path = temporary.path().to_path_buf();
            let (found, _) = copy_file(&file, temporary.file(), &path)?;
            if found != id {
                let reason = format!("its content is {found}");
                return Err(Error::BadContent { path: self.path(id), id, reason });
            }
        }
        temporary.publish_if_absent(target).map(drop)
    }

    /// Whether the store has this content with this file size. After a power loss, a file may exist
    /// without its bytes. Treating it as absent replaces it, so additions need not wait for the
    /// disk.
    fn has_sized(&self, id: ContentId, bytes: u64) -> bool {
        let metadata = fs::symlink_metadata(self.path(id));
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() == bytes)
    }

    /// Gives a complete file its name.
    fn publish(&self, temporary: TemporaryFile, id: ContentId, bytes: u64) -> Result<()> {
        let target = self.path(id);
        if let Some(folder) = target.parent() {
            make_private_directories(folder)?;
        }
        if self.has_sized(id, bytes) {
            return Ok(());
        }
        if self.contains(id) {
            temporary.replace(&target)
        } else {
            temporary.publish_if_absent(&target).map(drop)
        }
    }

    /// Remembers the content of a file. If that fails, the file is only hashed again.
    fn remember(&self, identity: &FileIdentity, id: ContentId) {
        if identity.is_settled() {
            let _ =
                self.identities.lock().unwrap_or_else(PoisonError::into_inner).insert(identity, id);
        }
    }

    fn no_content(&self, id: ContentId) -> Error {
        Error::NoContent { path: self.root.clone(), id }
    }
}

/// Returns the path at which the store in `root` keeps a content.
pub(crate) fn content_path(root: &Path, id: ContentId) -> PathBuf {
    let name = id.to_string();
    root.join(&name[..2]).join(name)
}

fn open_lock(root: &Path) -> Result<File> {
    let path = root.join(LOCK_NAME);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path);
    file.map_err(|error| Error::io("open", &path, error))
}
