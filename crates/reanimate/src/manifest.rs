//! A manifest: a description of a tree, taken where the program left it, and compared with the tree
//! that a replay made.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::compare::{Comparison, list, user_attributes};
use crate::error::Error;

const READ_BYTES: usize = 256 << 10;

/// A tree, entry by entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Absolute path of the tree.
    pub tree: String,
    /// The entries by their paths relative to the tree. Bytes that are not printable ASCII are
    /// written as `\xNN`.
    pub entries: BTreeMap<String, ManifestEntry>,
}

/// One file, directory or link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// `file`, `directory`, `link`, `fifo`, `socket` or `device`.
    pub kind: String,
    /// Mode bits, without the type; 0 for links.
    pub mode: u32,
    /// User and group.
    pub owners: (u32, u32),
    /// The size of a file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// BLAKE3 of a file's contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The target of a link, or the number of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The first name, if the file has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// Names and values of the extended attributes that programs set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// A manifest in the making. Links are not followed.
struct Take {
    entries: BTreeMap<String, ManifestEntry>,
    /// The first name of each file that has several.
    names: HashMap<(u64, u64), String>,
    waiting: Vec<PathBuf>,
}

impl Manifest {
    /// Takes the manifest of the tree at an absolute path.
    ///
    /// # Errors If the tree cannot be read.
    pub fn take(tree: &Path) -> Result<Self, Error> {
        let mut take =
            Take { entries: BTreeMap::new(), names: HashMap::new(), waiting: vec![PathBuf::new()] };
        while let Some(below) = take.waiting.pop() {
            let path = tree.join(&below);
            take.directory(&path, &below)
                .map_err(|error| Error::Compare { path, error: error.into() })?;
        }
        Ok(Self { tree: tree.to_string_lossy().into_owned(), entries: take.entries })
    }

    /// Compares the manifest with a tree. Owners are compared if we are root.
    ///
    /// # Errors
    /// If the tree cannot be read.
    pub fn compare(&self, copy: &Path) -> Result<Comparison, Error> {
        let mut others = Self::take(copy)?.entries;
        let compares_owners = rustix::process::geteuid().is_root();
        let mut comparison =
            Comparison { files: self.entries.len() as u64, ..Comparison::default() };
        for (path, entry) in &self.entries {
            match others.remove(path) {
                None => comparison.note(Path::new(path), "only in the manifest"),
                Some(other) => entry
                    .differences(&other, compares_owners)
                    .into_iter()
                    .for_each(|what| comparison.note(Path::new(path), what)),
            }
        }
        others.keys().for_each(|path| comparison.note(Path::new(path), "not in the manifest"));
        Ok(comparison)
    }
}

impl ManifestEntry {
    fn differences(&self, other: &Self, compares_owners: bool) -> Vec<String> {
        if self.kind != other.kind {
            return vec![format!("type {} and {}", self.kind, other.kind)];
        }
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| String::from("none"));
        let checks = [
            (self.mode != other.mode, format!("mode {:o} and {:o}", self.mode, other.mode)),
            (
                compares_owners && self.owners != other.owners,
                format!("owners {:?} and {:?}", self.owners, other.owners),
            ),
            (
                self.bytes != other.bytes,
                format!("size {} and {}", self.bytes.unwrap_or(0), other.bytes.unwrap_or(0)),
            ),
            (self.bytes == other.bytes && self.content != other.content, String::from("contents")),
            (
                self.target != other.target,
                format!("leads to {} and {}", shown(&self.target), shown(&other.target)),
            ),
            (
                self.same_as != other.same_as,
                format!("the same file as {} and {}", shown(&self.same_as), shown(&other.same_as)),
            ),
            (self.attributes != other.attributes, String::from("extended attributes")),
        ];
        checks.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect()
    }
}

impl Take {
    fn directory(&mut self, path: &Path, below: &Path) -> Result<(), Errno> {
        let directory = rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        for (name, stat) in list(&directory)? {
            let entry_path = below.join(std::ffi::OsStr::from_bytes(&name));
            let entry = self.entry(&directory, &name, &stat, &entry_path)?;
            self.entries.insert(text(&entry_path), entry);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: &OwnedFd,
        name: &[u8],
        stat: &Stat,
        path: &Path,
    ) -> Result<ManifestEntry, Errno> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let mut entry = ManifestEntry {
            mode: stat.st_mode & 0o7777,
            owners: (stat.st_uid, stat.st_gid),
            ..ManifestEntry::default()
        };
        let open = |flags| {
            rustix::fs::openat(
                directory,
                name,
                flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        entry.kind = String::from(match kind {
            FileType::RegularFile => "file",
            FileType::Directory => "directory",
            FileType::Symlink => "link",
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
            _ => "device",
        });
        match kind {
            FileType::Directory => self.waiting.push(path.to_owned()),
            FileType::Symlink => {
                entry.mode = 0;
                entry.target = Some(
                    rustix::fs::readlinkat(directory, name, Vec::new())?
                        .as_bytes()
                        .escape_ascii()
                        .to_string(),
                );
            }
            FileType::RegularFile => {
                entry.bytes = Some(stat.st_size as u64);
                entry.content = Some(hash(&open(OFlags::RDONLY)?)?);
                entry.same_as = self.first_name(stat, path);
            }
            FileType::CharacterDevice | FileType::BlockDevice => {
                entry.target = Some(format!("device {:#x}", stat.st_rdev))
            }
            _ => {}
        }
        if matches!(kind, FileType::Directory | FileType::RegularFile) {
            let attributes = user_attributes(&open(OFlags::PATH)?)?;
            entry.attributes = attributes
                .into_iter()
                .map(|(name, value)| {
                    (name.escape_ascii().to_string(), value.escape_ascii().to_string())
                })
                .collect();
        }
        Ok(entry)
    }

    fn first_name(&mut self, stat: &Stat, path: &Path) -> Option<String> {
        if stat.st_nlink < 2 {
            return None;
        }
        Some(self.names.entry((stat.st_dev, stat.st_ino)).or_insert_with(|| text(path)).clone())
    }
}

fn text(path: &Path) -> String {
    path.as_os_str().as_bytes().escape_ascii().to_string()
}

fn hash(file: &OwnedFd) -> Result<String, Errno> {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match rustix::io::read(file, &mut bytes[..])? {
            0 => return Ok(hasher.finalize().to_string()),
            count => drop(hasher.update(&bytes[..count])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("d")).unwrap();
        fs::write(path.join("d/file"), vec![7; READ_BYTES + 10]).unwrap();
        fs::hard_link(path.join("d/file"), path.join("again")).unwrap();
        std::os::unix::fs::symlink("d/file", path.join("link")).unwrap();
        folder
    }

    fn differences(change: impl FnOnce(&Path)) -> Vec<String> {
        let manifest = Manifest::take(tree().path()).unwrap();
        let copy = tree();
        change(copy.path());
        let comparison = manifest.compare(copy.path()).unwrap();
        comparison
            .differences
            .into_iter()
            .map(|difference| format!("{}: {}", difference.path, difference.what))
            .collect()
    }

    #[test]
    fn what_differs_from_a_manifest_is_told() {
        assert!(differences(|_| {}).is_empty());
        assert_eq!(
            differences(|path| fs::write(path.join("d/new"), "").unwrap()),
            ["d/new: not in the manifest"]
        );
        assert_eq!(
            differences(|path| fs::remove_file(path.join("link")).unwrap()),
            ["link: only in the manifest"]
        );
        let changed = differences(|path| {
            let mut data = vec![7; READ_BYTES + 10];
            data[3] = 8;
            fs::write(path.join("again"), data).unwrap();
        });
        assert_eq!(changed, ["again: contents", "d/file: contents"]);
        let unlinked = differences(|path| {
            fs::remove_file(path.join("again")).unwrap();
            fs::copy(path.join("d/file"), path.join("again")).unwrap();
        });
        assert_eq!(unlinked.len(), 2, "{unlinked:?}");
    }
}
