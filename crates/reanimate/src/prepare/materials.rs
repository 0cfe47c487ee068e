//! The things to be made before the trace runs, and their making.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::links::behind_link;
use super::{Evidence, Origin};
use crate::action::{Identity, Place};
use crate::root::{Root, object_path};
use crate::verify::Status;

/// Attributes of one file that are kept.
const MAXIMUM_ATTRIBUTES: usize = 64;

/// What is known of something that was there.
#[derive(Debug)]
pub struct Facts {
    /// What it is.
    pub(super) evidence: Evidence,
    /// It was executed.
    pub(super) is_executable: bool,
    /// It is a link, to this if that is known. All else is about what it leads to.
    pub(super) link: Option<Option<Vec<u8>>>,
    /// The link leads to something.
    pub(super) is_followed: bool,
    link_size: Option<u64>,
    mode: Option<u32>,
    owners: Option<(u32, u32)>,
    /// Who made or removed names in it.
    user: Option<(u32, u32)>,
    size: Option<u64>,
    least_size: u64,
    /// Device and inode number, if it had several names.
    identity: Option<(u64, u64)>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
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

    fn permissions(&self) -> Mode {
        let usual = match (&self.evidence, self.is_executable) {
            (Evidence::Directory, _) | (_, true) => 0o755,
            _ => 0o644,
        };
        Mode::from_raw_mode(self.mode.unwrap_or(usual))
    }
}

/// Collects what was there, and makes it below a root.
#[derive(Debug)]
pub struct Preparation {
    pub(super) root: Root,
    /// What is known of each path.
    facts: Vec<(Rc<[u8]>, Facts)>,
    /// Where in `facts` a path is.
    numbers: HashMap<Rc<[u8]>, u32>,
    /// The file written last; reads come in runs.
    open: Option<(u32, OwnedFd)>,
    /// What could not be made, and why.
    failures: Vec<String>,
    /// Links made to something at a place of ours.
    link_count: u64,
}

/// What a preparation made.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Prepared {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Links and other things.
    pub others: u64,
    /// What could not be made, and why; at most the first hundred.
    pub failures: Vec<String>,
}

const MAXIMUM_FAILURES: usize = 100;

impl Preparation {
    /// For things below that root.
    pub fn new(root: Root) -> Self {
        Self { root, facts: Vec::new(), numbers: HashMap::new(), open: None, failures: Vec::new(), link_count: 0 }
    }

    /// What is known of where something was; from now on it is known to have been there.
    pub(super) fn facts(&mut self, origin: &mut Origin) -> &mut Facts {
        let number = self.number(origin);
        &mut self.facts[number as usize].1
    }

    /// Several things may have been at one place, one after the other.
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

    fn write_whole(&mut self, number: u32, path: &[u8], mut offset: u64, mut data: &[u8]) -> Result<(), Errno> {
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

    fn make_file(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.make_parents(path)?;
        self.root.open(path, OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK, Mode::from_raw_mode(0o644))
    }

    pub(super) fn make_parents(&self, path: &[u8]) -> Result<(), Errno> {
        let Some(end) = path.iter().rposition(|byte| *byte == b'/') else {
            return Ok(());
        };
        self.make_directory(&path[..end])
    }

    fn make_directory(&self, path: &[u8]) -> Result<(), Errno> {
        if path.is_empty() || self.root.inspect(path, true).is_ok() {
            return Ok(());
        }
        let mut at = 0;
        while at < path.len() {
            let end = path[at..].iter().position(|byte| *byte == b'/').map_or(path.len(), |index| at + index);
            let (parent, name) = self.root.parent(&place(&path[..end]))?;
            match rustix::fs::mkdirat(&parent, name.as_slice(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            at = end + 1;
        }
        Ok(())
    }

    /// Makes everything, and says what was made. Directories get their modes last, so that a mode cannot keep us out.
    pub fn finish(mut self) -> Prepared {
        self.open = None;
        let mut prepared = Prepared::default();
        // What lies in a directory comes after it.
        let mut facts: BTreeMap<Vec<u8>, Facts> = std::mem::take(&mut self.facts).into_iter().map(|(path, facts)| (path.to_vec(), facts)).collect();
        lead_to_directories(&mut facts);
        for (path, known) in &facts {
            if let Some(Some(target)) = &known.link
                && let Err(error) = self.clear_for_link(path, target)
            {
                self.fail(path, "clear", error);
            }
        }
        let mut names: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
        for (path, known) in &facts {
            let result = match known.identity.and_then(|identity| names.get(&identity)).filter(|_| known.link.is_none()) {
                Some(first) => self.link(first, path),
                None => self.make(path, known),
            };
            if let Some(identity) = known.identity {
                names.entry(identity).or_insert_with(|| path.clone());
            }
            match result {
                Ok(()) if known.link.is_some() => prepared.others += 1,
                Ok(()) => *prepared.count_of(&known.evidence) += 1,
                Err(error) => self.fail(path, "make", error),
            }
        }
        for (path, known) in facts.iter().filter(|(_, known)| known.is_followed) {
            if let Err(error) = self.make_behind(path, known) {
                self.fail(path, "make what is behind", error);
            }
        }
        for (path, known) in facts.iter().rev().filter(|(path, _)| !path.is_empty()) {
            if let Err(error) = self.dress(path, known) {
                self.fail(path, "set the attributes of", error);
            }
        }
        prepared.failures = self.failures;
        prepared
    }

    fn link(&self, first: &[u8], path: &[u8]) -> Result<(), Errno> {
        self.make_parents(path)?;
        let (from, from_name) = self.root.parent(&place(first))?;
        let (to, to_name) = self.root.parent(&place(path))?;
        made(rustix::fs::linkat(&from, from_name.as_slice(), &to, to_name.as_slice(), AtFlags::empty()))
    }

    fn make(&mut self, path: &[u8], facts: &Facts) -> Result<(), Errno> {
        match &facts.link {
            _ if path.is_empty() => Ok(()),
            None => self.make_object(path, facts),
            Some(Some(target)) => self.make_link(path, target),
            Some(None) => self.make_some_link(path, facts),
        }
    }

    fn make_link(&self, path: &[u8], target: &[u8]) -> Result<(), Errno> {
        self.make_parents(path)?;
        let (parent, name) = self.root.parent(&place(path))?;
        made(rustix::fs::symlinkat(target, &parent, name.as_slice()))
    }

    /// Makes what a link was seen to lead to before its text was read, if nothing else did.
    fn make_behind(&self, path: &[u8], facts: &Facts) -> Result<(), Errno> {
        let Some(Some(target)) = &facts.link else {
            return Ok(());
        };
        if self.root.inspect(path, true).is_ok() {
            return Ok(());
        }
        const MAXIMUM_LINKS: usize = 40;
        let mut behind = behind_link(path, target);
        for _ in 0..MAXIMUM_LINKS {
            match self.root.inspect(&behind, false).and_then(|object| rustix::fs::readlinkat(&object, "", Vec::new())) {
                Ok(next) => behind = behind_link(&behind, next.as_bytes()),
                Err(_) => break,
            }
        }
        self.make_object(&behind, facts)
    }

    /// What the link pointed to is not in the trace; how long that was may be. What it leads to gets a place of ours.
    fn make_some_link(&mut self, path: &[u8], facts: &Facts) -> Result<(), Errno> {
        const USUAL_BYTES: u64 = 24;
        let length = facts.link_size.unwrap_or(USUAL_BYTES).clamp(1, 4000) as usize;
        let target = loop {
            self.link_count += 1;
            let target = format!("/{:?>width$}", self.link_count, width = length.saturating_sub(1)).into_bytes();
            if self.root.inspect(&target, false).is_err() {
                break target;
            }
        };
        if facts.is_followed {
            // Bytes that were read through it are there already.
            if self.root.inspect(path, false).is_ok() {
                let (from, from_name) = self.root.parent(&place(path))?;
                let (to, to_name) = self.root.parent(&place(&target[1..]))?;
                rustix::fs::renameat(&from, from_name.as_slice(), &to, to_name.as_slice())?;
            }
            self.make_object(&target[1..], facts)?;
        }
        self.make_link(path, &target)
    }

    fn make_object(&self, path: &[u8], facts: &Facts) -> Result<(), Errno> {
        self.make_parents(path)?;
        let (parent, name) = self.root.parent(&place(path))?;
        match &facts.evidence {
            Evidence::Directory => self.make_directory(path),
            Evidence::Fifo => made(rustix::fs::mknodat(&parent, name.as_slice(), FileType::Fifo, facts.permissions(), 0)),
            Evidence::Socket => made(rustix::fs::mknodat(&parent, name.as_slice(), FileType::Socket, facts.permissions(), 0)),
            Evidence::Device => Ok(()),
            // Something was found below it.
            Evidence::Exists | Evidence::Executable
                if self.root.open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).is_ok() =>
            {
                Ok(())
            }
            _ => {
                let file = self.make_file(path)?;
                let size = rustix::fs::fstat(&file)?.st_size as u64;
                let wanted = facts.size.unwrap_or(0).max(facts.least_size);
                if wanted > size { rustix::fs::ftruncate(&file, wanted) } else { Ok(()) }
            }
        }
    }

    /// Sets owners, modes and attributes.
    fn dress(&self, path: &[u8], facts: &Facts) -> Result<(), Errno> {
        if facts.evidence == Evidence::Device {
            return Ok(());
        }
        if facts.link.is_some() && !facts.is_followed {
            return Ok(());
        }
        let object = match self.root.inspect(path, true) {
            // A link to what the trace never met.
            Err(Errno::NOENT) if facts.link.is_some() => return Ok(()),
            object => object?,
        };
        if let Some((user, group)) = facts.owners.or(facts.user).filter(|_| rustix::process::geteuid().is_root()) {
            let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
            rustix::fs::chownat(&object, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
        }
        for (name, value) in &facts.attributes {
            rustix::fs::setxattr(object_path(&object), name.as_slice(), value, XattrFlags::empty())?;
        }
        // What a link leads to has been dressed under its own name, if it has one in the trace.
        if facts.link.is_some() && facts.mode.is_none() && !facts.is_executable {
            return Ok(());
        }
        rustix::fs::chmod(object_path(&object), facts.permissions())
    }

    fn fail(&mut self, path: &[u8], action: &str, error: Errno) {
        if self.failures.len() < MAXIMUM_FAILURES {
            let error = std::io::Error::from(error);
            self.failures.push(format!("cannot {action} {}: {error}", String::from_utf8_lossy(path)));
        }
    }
}

impl Prepared {
    fn count_of(&mut self, evidence: &Evidence) -> &mut u64 {
        match evidence {
            Evidence::Directory => &mut self.directories,
            Evidence::Exists | Evidence::File | Evidence::Executable => &mut self.files,
            _ => &mut self.others,
        }
    }
}

/// That below which something was found is a directory, or a link to one, also if calls on it only told that it was there.
fn lead_to_directories(facts: &mut BTreeMap<Vec<u8>, Facts>) {
    let may_be = |known: &Facts| match known.link {
        None => matches!(known.evidence, Evidence::Exists | Evidence::Executable),
        Some(None) => true,
        Some(Some(_)) => false,
    };
    let paths: Vec<Vec<u8>> = facts.iter().filter(|(_, known)| may_be(known)).map(|(path, _)| path.clone()).collect();
    for path in paths {
        let below = [path.as_slice(), b"/"].concat();
        let has_children = facts.range(below.clone()..).next().is_some_and(|(child, _)| child.starts_with(&below));
        if let Some(known) = facts.get_mut(&path).filter(|_| has_children) {
            known.take_in(Evidence::Directory);
        }
    }
}

/// Something that was there already is as good.
fn made(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::EXIST) => Ok(()),
        result => result,
    }
}

pub(super) fn place(path: &[u8]) -> Place {
    let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(index) => (path[..index].to_vec(), path[index + 1..].to_vec()),
        None => (Vec::new(), path.to_vec()),
    };
    Place { directory, name, follows: false }
}
