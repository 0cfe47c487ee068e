//! Comparison of two trees: names, types, contents, sizes, modes, links, attributes, owners.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use serde::Serialize;

use crate::error::Error;
use crate::root::object_path;

/// The most differences that are kept. All are counted.
const MAXIMUM_DIFFERENCES: usize = 1000;
const READ_BYTES: usize = 256 << 10;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeDifference {
    /// The path, relative to the trees.
    pub path: String,
    /// What differs: the original first, then the copy.
    pub what: String,
}

/// The result of comparing two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Files, directories and links in the original.
    pub files: u64,
    /// The number of all differences.
    pub difference_count: u64,
    /// The first differences.
    pub differences: Vec<TreeDifference>,
}

impl Comparison {
    /// Whether the trees are the same.
    pub fn is_same(&self) -> bool {
        self.difference_count == 0
    }

    pub(crate) fn note(&mut self, path: &Path, what: impl Into<String>) {
        self.difference_count += 1;
        if self.differences.len() < MAXIMUM_DIFFERENCES {
            self.differences.push(TreeDifference {
                path: path.to_string_lossy().into_owned(),
                what: what.into(),
            });
        }
    }
}

struct Walk {
    comparison: Comparison,
    compares_owners: bool,
    /// For files with several names: maps each file of the original to the file that has its first
    /// name in the copy.
    pairs: HashMap<(u64, u64), (u64, u64)>,
    /// Directories still to visit.
    waiting: Vec<PathBuf>,
}

/// Compares the tree at `original` with the one at `copy`, without following links. Owners are
/// compared if we are root. Times are not compared.
///
/// # Errors
/// If one of the trees cannot be read.
pub fn compare_trees(original: &Path, copy: &Path) -> Result<Comparison, Error> {
    let compares_owners = rustix::process::geteuid().is_root();
    let mut walk = Walk {
        comparison: Comparison::default(),
        compares_owners,
        pairs: HashMap::new(),
        waiting: vec![PathBuf::new()],
    };
    while let Some(path) = walk.waiting.pop() {
        let (left, right) = (original.join(&path), copy.join(&path));
        let open = |path: &Path| {
            let opened = rustix::fs::open(
                path,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            );
            opened.map_err(|error| Error::Compare { path: path.to_owned(), error: error.into() })
        };
        let (left_directory, right_directory) = (open(&left)?, open(&right)?);
        let compared = walk.directory(&path, &left_directory, &right_directory);
        compared.map_err(|error| Error::Compare { path: left, error: error.into() })?;
    }
    Ok(walk.comparison)
}

impl Walk {
    fn directory(&mut self, path: &Path, left: &OwnedFd, right: &OwnedFd) -> Result<(), Errno> {
        let (names, mut others) = (list(left)?, list(right)?);
        for (name, stat) in names {
            self.comparison.files += 1;
            let below = path.join(std::ffi::OsStr::from_bytes(&name));
            match others.remove(&name) {
                None => self.comparison.note(&below, "only in the original"),
                Some(other) => self.entry(&below, &name, (left, &stat), (right, &other))?,
            }
        }
        for name in others.into_keys() {
            self.comparison
                .note(&path.join(std::ffi::OsStr::from_bytes(&name)), "only in the copy");
        }
        Ok(())
    }

    fn entry(
        &mut self,
        path: &Path,
        name: &[u8],
        left: (&OwnedFd, &Stat),
        right: (&OwnedFd, &Stat),
    ) -> Result<(), Errno> {
        let (own, other) = (left.1, right.1);
        let kind = FileType::from_raw_mode(own.st_mode);
        if kind != FileType::from_raw_mode(other.st_mode) {
            self.comparison.note(
                path,
                format!("type {:?} and {:?}", kind, FileType::from_raw_mode(other.st_mode)),
            );
            return Ok(());
        }
        if own.st_mode != other.st_mode && kind != FileType::Symlink {
            self.comparison.note(
                path,
                format!("mode {:o} and {:o}", own.st_mode & 0o7777, other.st_mode & 0o7777),
            );
        }
        if self.compares_owners && (own.st_uid, own.st_gid) != (other.st_uid, other.st_gid) {
            self.comparison.note(
                path,
                format!(
                    "owners {}:{} and {}:{}",
                    own.st_uid, own.st_gid, other.st_uid, other.st_gid
                ),
            );
        }
        match kind {
            FileType::Directory => self.waiting.push(path.to_owned()),
            FileType::Symlink => self.links(path, name, left.0, right.0)?,
            FileType::RegularFile => self.files(path, name, left, right)?,
            _ if own.st_rdev != other.st_rdev => self.comparison.note(path, "another device"),
            _ => {}
        }
        if matches!(kind, FileType::Directory | FileType::RegularFile) {
            self.attributes(path, name, left.0, right.0)?;
        }
        Ok(())
    }

    fn links(
        &mut self,
        path: &Path,
        name: &[u8],
        left: &OwnedFd,
        right: &OwnedFd,
    ) -> Result<(), Errno> {
        let own = rustix::fs::readlinkat(left, name, Vec::new())?;
        let other = rustix::fs::readlinkat(right, name, Vec::new())?;
        if own != other {
            self.comparison.note(path, format!("link to {own:?} and to {other:?}"));
        }
        Ok(())
    }

    fn files(
        &mut self,
        path: &Path,
        name: &[u8],
        left: (&OwnedFd, &Stat),
        right: (&OwnedFd, &Stat),
    ) -> Result<(), Errno> {
        let (own, other) = (left.1, right.1);
        if own.st_nlink > 1 || other.st_nlink > 1 {
            let identity = |stat: &Stat| (stat.st_dev, stat.st_ino);
            let paired = *self.pairs.entry(identity(own)).or_insert(identity(other));
            if own.st_nlink != other.st_nlink || paired != identity(other) {
                self.comparison.note(
                    path,
                    format!("{} names and {}, or different names", own.st_nlink, other.st_nlink),
                );
            }
        }
        if own.st_size != other.st_size {
            self.comparison.note(path, format!("size {} and {}", own.st_size, other.st_size));
            return Ok(());
        }
        let open = |directory| {
            rustix::fs::openat(
                directory,
                name,
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        let (left, right) = (open(left.0)?, open(right.0)?);
        if let Some(first) = first_difference(&left, &right)? {
            self.comparison.note(path, format!("contents, from byte {first} on"));
        }
        Ok(())
    }

    fn attributes(
        &mut self,
        path: &Path,
        name: &[u8],
        left: &OwnedFd,
        right: &OwnedFd,
    ) -> Result<(), Errno> {
        let read = |directory| {
            let object = rustix::fs::openat(
                directory,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            user_attributes(&object)
        };
        if read(left)? != read(right)? {
            self.comparison.note(path, "extended attributes");
        }
        Ok(())
    }
}

/// Lists all entries but `.` and `..`.
pub(crate) fn list(directory: &OwnedFd) -> Result<BTreeMap<Vec<u8>, Stat>, Errno> {
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut found = BTreeMap::new();
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(name.as_slice(), b"." | b"..") {
            let stat = rustix::fs::statat(directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            found.insert(name, stat);
        }
    }
    Ok(found)
}

fn first_difference(left: &OwnedFd, right: &OwnedFd) -> Result<Option<u64>, Errno> {
    let (mut own, mut other) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
    let mut at = 0;
    loop {
        let count = rustix::io::pread(left, &mut own[..], at)?;
        if count == 0 {
            return Ok(None);
        }
        let mut got = 0;
        while got < count {
            match rustix::io::pread(right, &mut other[got..count], at + got as u64)? {
                0 => return Ok(Some(at + got as u64)),
                more => got += more,
            }
        }
        if let Some(first) =
            own[..count].iter().zip(&other[..count]).position(|(own, other)| own != other)
        {
            return Ok(Some(at + first as u64));
        }
        at += count as u64;
    }
}

/// Returns the extended attributes that programs set.
pub(crate) fn user_attributes(object: &OwnedFd) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
    const MAXIMUM_BYTES: usize = 64 << 10;
    let mut list = vec![0; MAXIMUM_BYTES];
    let count = match rustix::fs::listxattr(object_path(object), &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        count => count?,
    };
    let names = list[..count].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    let mut attributes = BTreeMap::new();
    for name in names {
        let mut value = vec![0; MAXIMUM_BYTES];
        let count = rustix::fs::getxattr(object_path(object), name, &mut value[..])?;
        value.truncate(count);
        attributes.insert(name.to_vec(), value);
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::create_dir(path.join("d")).unwrap();
        std::fs::write(path.join("d/file"), vec![7; READ_BYTES + 10]).unwrap();
        std::fs::hard_link(path.join("d/file"), path.join("again")).unwrap();
        std::os::unix::fs::symlink("d/file", path.join("link")).unwrap();
        folder
    }

    fn differences(change: impl FnOnce(&Path)) -> Vec<String> {
        let (left, right) = (tree(), tree());
        change(right.path());
        let comparison = compare_trees(left.path(), right.path()).unwrap();
        assert_eq!(comparison.files, 4);
        comparison
            .differences
            .into_iter()
            .map(|difference| format!("{}: {}", difference.path, difference.what))
            .collect()
    }

    #[test]
    fn equal_trees_are_equal() {
        assert!(differences(|_| {}).is_empty());
    }

    #[test]
    fn every_difference_is_found() {
        let changed = differences(|path| {
            let mut data = vec![7; READ_BYTES + 10];
            data[READ_BYTES + 3] = 8;
            std::fs::write(path.join("again"), data).unwrap();
        });
        assert_eq!(
            changed,
            [
                format!("again: contents, from byte {} on", READ_BYTES + 3),
                format!("d/file: contents, from byte {} on", READ_BYTES + 3)
            ]
        );
        assert_eq!(
            differences(|path| std::fs::remove_file(path.join("link")).unwrap()),
            ["link: only in the original"]
        );
        assert_eq!(
            differences(|path| std::fs::write(path.join("d/new"), "").unwrap()),
            ["d/new: only in the copy"]
        );
        let relinked = differences(|path| {
            std::fs::remove_file(path.join("again")).unwrap();
            std::fs::copy(path.join("d/file"), path.join("again")).unwrap();
        });
        assert_eq!(relinked.len(), 2, "{relinked:?}");
        let mode = differences(|path| {
            std::fs::set_permissions(
                path.join("d"),
                std::os::unix::fs::PermissionsExt::from_mode(0o700),
            )
            .unwrap();
        });
        assert_eq!(mode, ["d: mode 755 and 700"]);
    }
}
