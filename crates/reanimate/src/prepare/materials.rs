//! The files to be made before the trace runs.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::Mode;
use rustix::io::Errno;

use super::folder::Folder;
use super::{Evidence, Origin};
use crate::action::Identity;
use crate::root::Root;
use crate::verify::Status;

/// The most attributes that are kept for one file.
const MAXIMUM_ATTRIBUTES: usize = 64;

/// The facts about something that existed before the trace.
#[derive(Debug)]
pub struct Facts {
    /// The kind of thing.
    pub(super) evidence: Evidence,
    /// Whether it was executed.
    pub(super) is_executable: bool,
    /// Whether it is a link, and the target if known. All other facts are about the target.
    pub(super) link: Option<Option<Vec<u8>>>,
    /// Whether the link was followed successfully.
    pub(super) is_followed: bool,
    pub(super) link_size: Option<u64>,
    pub(super) mode: Option<u32>,
    pub(super) owners: Option<(u32, u32)>,
    /// The user and group of a process that made or removed names in it.
    pub(super) user: Option<(u32, u32)>,
    pub(super) size: Option<u64>,
    pub(super) least_size: u64,
    /// Device and inode number, if it had several names.
    pub(super) identity: Option<(u64, u64)>,
    pub(super) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether owners, mode and attributes are set.
    pub(super) is_dressed: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            evidence: Evidence::Exists,
            is_executable: false,
            link: None,
            is_followed: false,
            link_size: None,
            mode: None,
            owners: None,
            user: None,
            size: None,
            least_size: 0,
            identity: None,
            attributes: BTreeMap::new(),
            is_dressed: false,
        }
    }
}

impl Facts {
    pub(super) fn note_user(&mut self, identity: &Identity) {
        self.user.get_or_insert((identity.user, identity.group));
    }

    pub(super) fn note_least_size(&mut self, size: u64) {
        self.least_size = self.least_size.max(size);
    }

    pub(super) fn note_size(&mut self, size: u64) {
        self.size.get_or_insert(size);
    }

    pub(super) fn note_status(&mut self, status: &Status) {
        if status.mode & libc::S_IFMT == libc::S_IFLNK {
            self.link_size.get_or_insert(status.size);
            return;
        }
        self.mode.get_or_insert(status.mode & 0o7777);
        self.owners.get_or_insert((status.user, status.group));
        if status.links > 1 && status.mode & libc::S_IFMT == libc::S_IFREG {
            self.identity = Some((status.device, status.inode));
        }
    }

    pub(super) fn note_attribute(&mut self, name: &[u8], value: &[u8]) {
        if self.attributes.len() < MAXIMUM_ATTRIBUTES && !self.attributes.contains_key(name) {
            self.attributes.insert(name.to_vec(), value.to_vec());
        }
    }

    pub(super) fn permissions(&self) -> Mode {
        let usual = match (&self.evidence, self.is_executable) {
            (Evidence::Directory, _) | (_, true) => 0o755,
            _ => 0o644,
        };
        Mode::from_raw_mode(self.mode.unwrap_or(usual))
    }
}

/// Collects what existed before the trace, and makes it below a root.
#[derive(Debug)]
pub struct Preparation {
    pub(super) root: Root,
    /// The facts for each path.
    pub(super) facts: Vec<(Rc<[u8]>, Facts)>,
    /// The index of each path in `facts`.
    numbers: HashMap<Rc<[u8]>, u32>,
    /// The file written last, kept open because a file is mostly read several times in a row.
    pub(super) open: Option<(u32, OwnedFd)>,
    /// The directory of the file made last.
    pub(super) folder: Folder,
    /// What could not be made, and why.
    pub(super) failures: Vec<String>,
    /// The number of links with a target path that we chose.
    pub(super) link_count: u64,
}

/// The results of a preparation.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Prepared {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Links and other things.
    pub others: u64,
    /// What could not be made, and why: at most the first hundred.
    pub failures: Vec<String>,
}

const MAXIMUM_FAILURES: usize = 100;

impl Preparation {
    /// Makes a preparation for files below a root.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            facts: Vec::new(),
            numbers: HashMap::new(),
            open: None,
            folder: Folder::default(),
            failures: Vec::new(),
            link_count: 0,
        }
    }

    /// Returns the facts about an origin, which from now on counts as proven.
    pub(super) fn facts(&mut self, origin: &mut Origin) -> &mut Facts {
        let number = self.number(origin);
        &mut self.facts[number as usize].1
    }

    /// Returns the index of the facts about an origin. Nodes that had the same path one after the
    /// other share it.
    fn number(&mut self, origin: &mut Origin) -> u32 {
        *origin.facts.get_or_insert_with(|| match self.numbers.get(&origin.path) {
            Some(number) => *number,
            None => {
                let number = self.facts.len() as u32;
                self.numbers.insert(origin.path.clone(), number);
                self.facts.push((origin.path.clone(), Facts::default()));
                number
            }
        })
    }

    /// Writes bytes that a file is proven to have had.
    pub(super) fn write(&mut self, origin: &mut Origin, offset: u64, data: &[u8]) {
        let number = self.number(origin);
        let facts = &mut self.facts[number as usize].1;
        facts.take_in(Evidence::File);
        facts.note_least_size(offset.saturating_add(data.len() as u64));
        if let Err(error) = self.write_whole(number, &origin.path, offset, data) {
            self.fail(&origin.path, "write", error);
        }
    }

    fn write_whole(
        &mut self,
        number: u32,
        path: &[u8],
        mut offset: u64,
        mut data: &[u8],
    ) -> Result<(), Errno> {
        let is_open = self.open.as_ref().is_some_and(|(open, _)| *open == number);
        if !is_open {
            self.open = Some((number, self.make_file(path)?));
        }
        let Some((_, file)) = &self.open else {
            return Ok(());
        };
        while !data.is_empty() {
            let written = rustix::io::pwrite(file, data, offset)?;
            offset += written as u64;
            data = &data[written..];
        }
        Ok(())
    }

    /// Opens a file for writing, and makes it if it does not exist.
    pub(super) fn make_file(&mut self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let (folder, name) = self.folder.enter(&self.root, path)?;
        self.root.make_in(folder, name, Mode::from_raw_mode(0o644))
    }

    pub(super) fn fail(&mut self, path: &[u8], action: &str, error: Errno) {
        if self.failures.len() < MAXIMUM_FAILURES {
            let error = std::io::Error::from(error);
            self.failures
                .push(format!("cannot {action} {}: {error}", String::from_utf8_lossy(path)));
        }
    }
}

impl Prepared {
    pub(super) fn count_of(&mut self, evidence: &Evidence) -> &mut u64 {
        match evidence {
            Evidence::Directory => &mut self.directories,
            Evidence::Exists | Evidence::File | Evidence::Executable => &mut self.files,
            _ => &mut self.others,
        }
    }
}
