//! Files under a lease, which no process can change while the lease lasts. What is found out about
//! them is certain. Files identified only by their times are less certain: a process that has a
//! file mapped can change it without changing its times.

use std::fs::File;
use std::sync::PoisonError;

use super::copy::{clone_file, copy_unchanging, hash_file};
use super::sparse;
use super::temporary::TemporaryFile;
use super::{FileIdentity, Store, TEMPORARY_NAME};
use crate::ContentId;
use crate::error::{Error, Result};

impl Store {
    /// Adds the bytes of a file on which the caller has a lease, unchanged. If `times_tell`, the
    /// file's times show every change: then a file added before and not changed since is not read
    /// again. Returns `None` for a file of mostly holes, which is stored in another form.
    ///
    /// # Errors
    /// `FileChanging` if the file changed despite the lease; `NoSpace`; `Io`.
    pub fn add_leased(&self, file: &File, times_tell: bool) -> Result<Option<ContentId>> {
        let identity = FileIdentity::of(file)?;
        if let Some(id) = self.lookup_leased(&identity).filter(|_| times_tell) {
            return Ok(Some(id));
        }
        let reading = |error| Error::io("read a file to be stored in", self.root(), error);
        if sparse::Layout::of(file, identity.bytes).map_err(reading)?.is_some() {
            return Ok(None);
        }
        let mut temporary = TemporaryFile::create_in(&self.root().join(TEMPORARY_NAME))?;
        let path = temporary.path().to_path_buf();
        let (id, bytes) = if clone_file(file, temporary.file()) {
            hash_file(temporary.file(), &path)?
        } else {
            copy_unchanging(file, temporary.file(), identity.bytes, &path)?
        };
        if bytes != identity.bytes || FileIdentity::of(file)? != identity {
            let (device, inode) = (identity.device, identity.inode);
            return Err(Error::FileChanging { device, inode });
        }
        self.publish(temporary, id, bytes)?;
        if times_tell && identity.is_settled() {
            self.remember(&identity, id);
            let mut leased = self.leased.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = leased.insert(&identity, id);
        }
        Ok(Some(id))
    }

    fn lookup_leased(&self, identity: &FileIdentity) -> Option<ContentId> {
        let id = self.leased.lock().unwrap_or_else(PoisonError::into_inner).get(identity)?;
        self.has_sized(id, identity.bytes).then_some(id)
    }
}
