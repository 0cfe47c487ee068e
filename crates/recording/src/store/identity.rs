//! Remembers across recordings which file of the system had which content, so that a library is
//! neither hashed nor copied every time.
//!
//! The cache is a file of fixed-size records, each with a checksum. Records are only appended,
//! except that a collection rewrites the file. A damaged or torn record is skipped: its file is
//! only hashed again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

use crate::ContentId;
use crate::error::{Error, Result};
use crate::frame::read_u64;

/// Identifies a file in its present state: tells it from every other file, and from itself after a
/// change. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// When the bytes last changed.
    pub modified_ns: i64,
    /// When anything about the file last changed. Unlike `modified_ns`, no process can set it.
    pub changed_ns: i64,
}

/// Two changes within this time may leave the same time stamps: those of kernels and file systems
/// are that coarse.
const SETTLING: Duration = Duration::from_secs(2);

impl FileIdentity {
    /// Returns the identity of an open file.
    pub fn of(file: &File) -> Result<Self> {
        let metadata = file
            .metadata()
            .map_err(|error| Error::io("inspect", Path::new("a file to be stored"), error))?;
        Ok(Self::of_metadata(&metadata))
    }

    /// Returns the identity of a file from its metadata.
    pub fn of_metadata(metadata: &std::fs::Metadata) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the last change is so long ago that a new one would show in the time stamps.
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settled_before = now.saturating_sub(SETTLING).as_nanos();
        // A clock behind the time stamps proves nothing, so the file is not settled.
        i128::from(self.changed_ns.max(self.modified_ns))
            < i128::try_from(settled_before).unwrap_or(0)
    }
}

const RECORD_BYTES: usize = 80;
const CHECKED_BYTES: usize = RECORD_BYTES - 8;
/// The most records that are read. This bounds memory, and is far above the number of files in use
/// on a system.
const MAX_RECORDS: u64 = 1 << 20;

/// The cache in memory, with its file.
#[derive(Debug)]
pub(crate) struct IdentityCache {
    path: PathBuf,
    known: HashMap<FileIdentity, ContentId>,
}

impl IdentityCache {
    /// Reads the file, if it exists.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut cache = Self { path: path.to_path_buf(), known: HashMap::new() };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(cache),
            Err(error) => return Err(Error::io("open", path, error)),
        };
        let mut bytes = Vec::new();
        let limit = MAX_RECORDS * RECORD_BYTES as u64;
        file.take(limit).read_to_end(&mut bytes).map_err(|error| Error::io("read", path, error))?;
        let (records, _torn) = bytes.as_chunks::<RECORD_BYTES>();
        cache.known.reserve(records.len());
        cache.known.extend(records.iter().filter_map(decode_record));
        Ok(cache)
    }

    pub(crate) fn get(&self, identity: &FileIdentity) -> Option<ContentId> {
        self.known.get(identity).copied()
    }

    /// Remembers a file's content in memory and in the file.
    pub(crate) fn insert(&mut self, identity: &FileIdentity, id: ContentId) -> Result<()> {
        if self.known.insert(*identity, id) == Some(id) {
            return Ok(());
        }
        let fail = |error| Error::io("append to", &self.path, error);
        let options = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
        let mut file = options.map_err(fail)?;
        file.lock().map_err(fail)?;
        // A record torn by a crash must not shift the records after it.
        let bytes = file.metadata().map_err(fail)?.len();
        let torn_bytes = bytes % RECORD_BYTES as u64;
        if torn_bytes != 0 {
            file.set_len(bytes - torn_bytes).map_err(fail)?;
        }
        file.write_all(&encode_record(identity, id)).map_err(fail)
    }

    /// Keeps only the records for which `keep` returns true, in the file, too. No other process may
    /// have the cache open.
    pub(crate) fn retain(&mut self, keep: impl Fn(&FileIdentity, ContentId) -> bool) -> Result<()> {
        self.known.retain(|identity, id| keep(identity, *id));
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut temporary = super::temporary::TemporaryFile::create_in(folder)?;
        let bytes: Vec<u8> =
            self.known.iter().flat_map(|(identity, id)| encode_record(identity, *id)).collect();
        let written = temporary.file().write_all(&bytes);
        written.map_err(|error| Error::io("write to", temporary.path(), error))?;
        temporary.replace(&self.path)
    }
}

fn encode_record(identity: &FileIdentity, id: ContentId) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    let fields = [
        identity.device,
        identity.inode,
        identity.bytes,
        identity.modified_ns.cast_unsigned(),
        identity.changed_ns.cast_unsigned(),
    ];
    for (place, field) in record.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    record[40..72].copy_from_slice(&id.0);
    let checksum = xxh3_64(&record[..CHECKED_BYTES]);
    record[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    record
}

fn decode_record(record: &[u8; RECORD_BYTES]) -> Option<(FileIdentity, ContentId)> {
    if xxh3_64(&record[..CHECKED_BYTES]) != read_u64(record, CHECKED_BYTES) {
        return None;
    }
    let identity = FileIdentity {
        device: read_u64(record, 0),
        inode: read_u64(record, 8),
        bytes: read_u64(record, 16),
        modified_ns: read_u64(record, 24).cast_signed(),
        changed_ns: read_u64(record, 32).cast_signed(),
    };
    let mut hash = [0; 32];
    hash.copy_from_slice(&record[40..72]);
    Some((identity, ContentId(hash)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(inode: u64) -> FileIdentity {
        FileIdentity { device: 1, inode, bytes: 5, modified_ns: -3, changed_ns: 4 }
    }

    #[test]
    fn the_cache_survives_torn_and_damaged_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identities");
        let id = ContentId::of(b"x");
        let mut cache = IdentityCache::open(&path).unwrap();
        (0..3).for_each(|inode| cache.insert(&identity(inode), id).unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[RECORD_BYTES + 3] ^= 1;
        bytes.extend_from_slice(b"torn");
        std::fs::write(&path, &bytes).unwrap();
        let mut cache = IdentityCache::open(&path).unwrap();
        cache.insert(&identity(9), id).unwrap();
        let cache = IdentityCache::open(&path).unwrap();
        let known: Vec<_> =
            (0..10).filter(|&inode| cache.get(&identity(inode)) == Some(id)).collect();
        assert_eq!(known, [0, 2, 9]);
    }

    #[test]
    fn recent_changes_are_not_settled() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let old = FileIdentity { modified_ns: 0, changed_ns: now - 10_000_000_000, ..identity(1) };
        assert!(old.is_settled());
        assert!(!FileIdentity { changed_ns: now, ..old }.is_settled());
        assert!(!FileIdentity { modified_ns: now + 1_000_000_000_000, ..old }.is_settled());
    }
}
