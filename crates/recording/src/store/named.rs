//! Derived files, such as patched images, named by their kind and the key of their source.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use super::temporary::{TemporaryFile, make_private_directories};
use super::{CACHE_NAME, Store, TEMPORARY_NAME};
use crate::ContentId;
use crate::error::{Error, Result};
use crate::source::open_regular;

const MAX_KIND_BYTES: usize = 32;

impl Store {
    /// Returns the derived file of this kind and key, if it exists. The request keeps it from being
    /// collected.
    ///
    /// # Errors
    /// `BadName` unless `kind` is 1 to 32 lower-case letters, digits and hyphens; the key may be
    /// anything.
    pub fn named_cache(&self, kind: &str, key: &str) -> Result<Option<File>> {
        let path = self.named_path(kind, key)?;
        let file = match open_regular(&path) {
            Ok(file) => file,
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // The time only tells the collection that the file is in use. If the file system refuses
        // it, nothing else is lost.
        let _ = file.set_modified(SystemTime::now());
        Ok(Some(file))
    }

    /// Keeps `bytes` as the derived file of this kind and key, in place of an older one. Returns it
    /// open for reading.
    pub fn put_named_cache(&self, kind: &str, key: &str, bytes: &[u8]) -> Result<File> {
        // Bytes lost in a power loss would not be noticed, and programs execute these files.
        self.put_named(kind, key, bytes, TemporaryFile::sync)
    }

    /// As [`Store::put_named_cache`], for files that a power loss may damage.
    ///
    /// # Errors
    /// Those of [`Store::put_named_cache`].
    pub fn put_named_hint(&self, kind: &str, key: &str, bytes: &[u8]) -> Result<()> {
        self.put_named(kind, key, bytes, |_| Ok(())).map(drop)
    }

    fn put_named(
        &self,
        kind: &str,
        key: &str,
        bytes: &[u8],
        sync: impl Fn(&TemporaryFile) -> Result<()>,
    ) -> Result<File> {
        let path = self.named_path(kind, key)?;
        if let Some(folder) = path.parent() {
            make_private_directories(folder)?;
        }
        let mut temporary = TemporaryFile::create_in(&self.root().join(TEMPORARY_NAME))?;
        let written = temporary.file().write_all(bytes);
        written.map_err(|error| Error::io("write to", temporary.path(), error))?;
        sync(&temporary)?;
        let file = open_regular(temporary.path())?;
        temporary.replace(&path)?;
        Ok(file)
    }

    /// Removes a derived file. A missing file is not an error.
    pub fn remove_named_cache(&self, kind: &str, key: &str) -> Result<()> {
        let path = self.named_path(kind, key)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn named_path(&self, kind: &str, key: &str) -> Result<PathBuf> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if kind.is_empty() || kind.len() > MAX_KIND_BYTES || !kind.bytes().all(is_allowed) {
            let reason =
                "a kind of derived file has 1 to 32 lower-case letters, digits and hyphens";
            return Err(Error::BadName { name: kind.chars().take(80).collect(), reason });
        }
        let name = ContentId::of(key.as_bytes()).to_string();
        Ok(self.root().join(CACHE_NAME).join(kind).join(name))
    }
}
