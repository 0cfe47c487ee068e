//! Reads the names below the root before the trace runs, so that planning knows every link and
//! every hard link.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;

use crate::error::Error;
use crate::root::Root;
use crate::world::{Directory, Kind, Node, NodeRef, World};

/// The most files below the root.
const MAXIMUM_FILES: u64 = 1 << 22;

/// What the scan found.
#[derive(Debug)]
pub struct Scanned {
    /// All names.
    pub world: World,
    /// Whether devices are among them, or may be in directories that were not scanned.
    pub has_devices: bool,
    /// Whether the root is empty.
    pub is_empty: bool,
}

struct Scan<'root> {
    root: &'root Root,
    scanned: Scanned,
    /// Files with several names, by device and inode number.
    shared: HashMap<(u64, u64), NodeRef>,
    count: u64,
    /// Directories still to visit.
    waiting: Vec<(NodeRef, Vec<u8>)>,
}

/// Reads all names below the root. Messages call the root `shown`.
///
/// # Errors If something cannot be read, or there are too many files.
pub fn scan(root: &Root, shown: &Path) -> Result<Scanned, Error> {
    let world = World::empty();
    let waiting = vec![(world.root.clone(), Vec::new())];
    let scanned = Scanned { world, has_devices: false, is_empty: true };
    let mut scan = Scan { root, scanned, shared: HashMap::new(), count: 0, waiting };
    while let Some((node, path)) = scan.waiting.pop() {
        let read = scan.directory(&node, &path);
        read.map_err(|error| Error::Scan { path: as_path(&path), error: error.into() })?;
        if scan.count > MAXIMUM_FILES {
            return Err(Error::TooLarge { path: shown.to_owned(), maximum: MAXIMUM_FILES });
        }
    }
    Ok(scan.scanned)
}

fn as_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

impl Scan<'_> {
    fn directory(&mut self, node: &NodeRef, path: &[u8]) -> Result<(), Errno> {
        let file = match self.root.open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW,
            Mode::empty(),
        ) {
            // A directory that we may not read is left out. It may contain devices.
            Err(Errno::ACCESS | Errno::PERM) => {
                self.scanned.has_devices = true;
                return Ok(());
            }
            opened => opened?,
        };
        let mut buffer = Vec::with_capacity(64 << 10);
        let mut entries = RawDir::new(&file, buffer.spare_capacity_mut());
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let name = entry?.file_name().to_bytes().to_vec();
            if !matches!(name.as_slice(), b"." | b"..") {
                names.push(name);
            }
            if self.count + names.len() as u64 > MAXIMUM_FILES {
                break;
            }
        }
        self.count += names.len() as u64;
        self.scanned.is_empty &= names.is_empty();
        for name in names {
            let stat = match rustix::fs::statat(&file, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            self.entry(node, path, &file, &name, &stat)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: &NodeRef,
        path: &[u8],
        file: &std::os::fd::OwnedFd,
        name: &[u8],
        stat: &Stat,
    ) -> Result<(), Errno> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.child_directory(parent, path, name);
                return Ok(());
            }
            FileType::RegularFile => Kind::File,
            FileType::Symlink => {
                Kind::Symlink(rustix::fs::readlinkat(file, name, Vec::new())?.into_bytes())
            }
            FileType::Fifo => Kind::Fifo,
            FileType::CharacterDevice | FileType::BlockDevice => {
                self.scanned.has_devices = true;
                Kind::Other
            }
            _ => Kind::Other,
        };
        let identity = (stat.st_dev, stat.st_ino);
        let has_several = stat.st_nlink > 1;
        if let Some(known) = self.shared.get(&identity).filter(|_| has_several) {
            World::link(parent, name, known);
            return Ok(());
        }
        let node = Node::new(kind);
        node.borrow_mut().content.size = Some(stat.st_size as u64);
        node.borrow_mut().is_own = false;
        World::link(parent, name, &node);
        if has_several {
            self.shared.insert(identity, node);
        }
        Ok(())
    }

    /// Whether a directory that is not scanned has anything in it.
    fn hides_something(&self, path: &[u8]) -> bool {
        let opened = self.root.open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW,
            Mode::empty(),
        );
        let names = opened.and_then(|directory| crate::compare::list(&directory));
        names.map_or(true, |names| names.keys().any(|name| path != b"dev" || name != b"shm"))
    }

    fn child_directory(&mut self, parent: &NodeRef, path: &[u8], name: &[u8]) {
        let below = if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() };
        // Directories such as `/proc` are not scanned, except for `/dev/shm`, where programs keep
        // files in memory.
        if let Some(known) = self.scanned.world.child(parent, name) {
            self.scanned.has_devices |= self.hides_something(&below);
            if below == b"dev" {
                let memory_files = Node::directory();
                World::link(&known, b"shm", &memory_files);
                let is_there = self.root.inspect(b"dev/shm", false).is_ok();
                if is_there {
                    self.waiting.push((memory_files, b"dev/shm".to_vec()));
                }
            }
            return;
        }
        let node = Node::new(Kind::Directory(Directory::default()));
        World::link(parent, name, &node);
        self.waiting.push((node, below));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_second_names_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        std::fs::write(path.join("a/file"), "12345").unwrap();
        std::fs::hard_link(path.join("a/file"), path.join("a/b/again")).unwrap();
        std::os::unix::fs::symlink("b/again", path.join("a/link")).unwrap();
        let scanned = scan(&Root::new(path).unwrap(), path).unwrap();
        assert!(!scanned.is_empty && !scanned.has_devices);
        let world = &scanned.world;
        let a = world.child(&world.root, b"a").unwrap();
        let file = world.child(&a, b"file").unwrap();
        assert_eq!(file.borrow().content.size, Some(5));
        let b = world.child(&a, b"b").unwrap();
        assert!(std::rc::Rc::ptr_eq(&file, &world.child(&b, b"again").unwrap()));
        assert!(matches!(&world.child(&a, b"link").unwrap().borrow().kind, Kind::Symlink(target)
                if target == b"b/again"));
        assert_eq!(world.path_of(&b).unwrap(), b"a/b");
    }

    #[test]
    fn what_is_not_looked_at_may_be_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let has_devices = || scan(&Root::new(path).unwrap(), path).unwrap().has_devices;
        std::fs::create_dir_all(path.join("dev/shm/memory")).unwrap();
        assert!(!has_devices());
        std::fs::write(path.join("dev/disk"), "").unwrap();
        assert!(has_devices());
    }

    #[test]
    fn an_empty_root_is_known_as_such() {
        let folder = tempfile::tempdir().unwrap();
        assert!(scan(&Root::new(folder.path()).unwrap(), folder.path()).unwrap().is_empty);
    }
}
