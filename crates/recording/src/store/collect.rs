//! Removes what no recording uses any more from the store.

use std::fs::{self, DirEntry, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::identity::IdentityCache;
use super::{
    CACHE_NAME, IDENTITIES_NAME, LEASED_NAME, Store, TEMPORARY_NAME, content_path, open_lock,
};
use crate::ContentId;
use crate::error::{Error, Result};

/// The result of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectionReport {
    /// The number of files and derived files removed.
    pub removed_count: u64,
    /// The size of these files in bytes.
    pub removed_bytes: u64,
    /// The number of files and derived files left.
    pub kept_count: u64,
}

impl Store {
    /// Removes every file to which no recording has a link, every derived file not requested within
    /// `unused_for`, and temporary files of killed processes. A recording with copies instead of
    /// links does not need the store.
    ///
    /// # Errors
    /// `StoreBusy` if a process has the store open: files that it just added have no link yet.
    pub fn collect(root: &Path, unused_for: Duration) -> Result<CollectionReport> {
        let mut report = CollectionReport::default();
        if !root.is_dir() {
            return Ok(report);
        }
        let _lock = lock_alone(root)?;
        for folder in entries_of(root)? {
            if is_content_folder(&folder) {
                for entry in entries_of(&folder.path())? {
                    let is_content = entry
                        .file_name()
                        .to_str()
                        .is_some_and(|name| name.parse::<ContentId>().is_ok());
                    remove_if(&entry, &mut report, |metadata| is_content && metadata.nlink() == 1)?;
                }
            }
        }
        collect_derived(root, unused_for, &mut report)?;
        remove_left_overs(&root.join(TEMPORARY_NAME))?;
        for name in [IDENTITIES_NAME, LEASED_NAME] {
            let mut identities = IdentityCache::open(&root.join(name))?;
            identities.retain(|_, id| content_path(root, id).is_file())?;
        }
        Ok(report)
    }
}

fn lock_alone(root: &Path) -> Result<File> {
    let lock = open_lock(root)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(Error::StoreBusy { path: root.to_path_buf() }),
        Err(fs::TryLockError::Error(error)) => Err(Error::io("lock", root, error)),
    }
}

fn collect_derived(root: &Path, unused_for: Duration, report: &mut CollectionReport) -> Result<()> {
    let now = SystemTime::now();
    let is_unused = |metadata: &Metadata| {
        let age = metadata.modified().ok().and_then(|time| now.duration_since(time).ok());
        age.is_some_and(|age| age >= unused_for)
    };
    let cache = root.join(CACHE_NAME);
    if !cache.is_dir() {
        return Ok(());
    }
    for kind in entries_of(&cache)? {
        if kind.file_type().is_ok_and(|kind| kind.is_dir()) {
            for entry in entries_of(&kind.path())? {
                remove_if(&entry, report, is_unused)?;
            }
        }
    }
    Ok(())
}

fn remove_left_overs(folder: &Path) -> Result<()> {
    let mut uncounted = CollectionReport::default();
    if folder.is_dir() {
        for entry in entries_of(folder)? {
            remove_if(&entry, &mut uncounted, |_| true)?;
        }
    }
    Ok(())
}

/// Removes a regular file if its metadata satisfy the condition, and counts it. Anything else in
/// the store is foreign and stays.
fn remove_if(
    entry: &DirEntry,
    report: &mut CollectionReport,
    condition: impl Fn(&Metadata) -> bool,
) -> Result<()> {
    let path = entry.path();
    let metadata = entry.metadata().map_err(|error| Error::io("inspect", &path, error))?;
    if !metadata.is_file() {
        return Ok(());
    }
    if !condition(&metadata) {
        report.kept_count += 1;
        return Ok(());
    }
    fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
    report.removed_count += 1;
    report.removed_bytes += metadata.len();
    Ok(())
}

fn is_content_folder(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let has_name = name.len() == 2 && name.as_encoded_bytes().iter().all(is_digit);
    has_name && entry.file_type().is_ok_and(|kind| kind.is_dir())
}

fn entries_of(folder: &Path) -> Result<Vec<DirEntry>> {
    let fail = |error| Error::io("list", folder, error);
    fs::read_dir(folder).map_err(fail)?.collect::<std::io::Result<_>>().map_err(fail)
}
