//! Making the files that existed before the trace.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::Evidence;
use super::links::behind_link;
use super::materials::{Facts, Preparation, Prepared};
use crate::root::object_path;

/// The facts by path. A directory comes before its entries.
type KnownPaths = BTreeMap<Rc<[u8]>, Facts>;

impl Preparation {
    /// Makes everything, and reports what was made. Directories get their modes last, so that a
    /// mode cannot keep us out.
    pub fn finish(mut self) -> Prepared {
        self.open = None;
        let mut facts: KnownPaths = std::mem::take(&mut self.facts).into_iter().collect();
        lead_to_directories(&mut facts);
        for (path, known) in &facts {
            if let Some(Some(target)) = &known.link
                && let Err(error) = self.clear_for_link(path, target)
            {
                self.fail(path, "clear", error);
            }
        }
        let mut prepared = self.make_all(&mut facts);
        for (path, known) in facts.iter().filter(|(_, known)| known.is_followed) {
            if let Err(error) = self.make_behind(path, known) {
                self.fail(path, "make what is behind", error);
            }
        }
        for (path, known) in
            facts.iter().rev().filter(|(path, known)| !path.is_empty() && !known.is_dressed)
        {
            if let Err(error) = self.dress(path, known) {
                self.fail(path, "set the attributes of", error);
            }
        }
        prepared.failures = self.failures;
        prepared
    }

    fn make_all(&mut self, facts: &mut KnownPaths) -> Prepared {
        let mut prepared = Prepared::default();
        let mut names: HashMap<(u64, u64), Rc<[u8]>> = HashMap::new();
        for (path, known) in facts {
            let result = match known
                .identity
                .and_then(|identity| names.get(&identity))
                .filter(|_| known.link.is_none())
            {
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
        prepared
    }

    fn link(&mut self, first: &[u8], path: &[u8]) -> Result<(), Errno> {
        let (from, from_name) = self.root.parent(first)?;
        let (to, to_name) = self.folder.enter(&self.root, path)?;
        made(rustix::fs::linkat(&from, from_name, to, to_name, AtFlags::empty()))
    }

    fn make(&mut self, path: &[u8], facts: &mut Facts) -> Result<(), Errno> {
        match &facts.link {
            _ if path.is_empty() => Ok(()),
            None => {
                if let Some(file) = self.make_object(path, facts)? {
                    // If something cannot be set yet, it is tried again at the end, and reported
                    // then.
                    facts.is_dressed = dress_object(&file, facts).is_ok();
                }
                Ok(())
            }
            Some(Some(target)) => self.make_link(path, target),
            Some(None) => self.make_some_link(path, facts),
        }
    }

    fn make_link(&mut self, path: &[u8], target: &[u8]) -> Result<(), Errno> {
        let (folder, name) = self.folder.enter(&self.root, path)?;
        made(rustix::fs::symlinkat(target, folder, name))
    }

    /// Makes the target of a link if nothing else made it. It was seen before the text of the link
    /// was read.
    fn make_behind(&mut self, path: &[u8], facts: &Facts) -> Result<(), Errno> {
        let Some(Some(target)) = &facts.link else {
            return Ok(());
        };
        if self.root.inspect(path, true).is_ok() {
            return Ok(());
        }
        const MAXIMUM_LINKS: usize = 40;
        let mut behind = behind_link(path, target);
        for _ in 0..MAXIMUM_LINKS {
            match self
                .root
                .inspect(&behind, false)
                .and_then(|object| rustix::fs::readlinkat(&object, "", Vec::new()))
            {
                Ok(next) => behind = behind_link(&behind, next.as_bytes()),
                Err(_) => break,
            }
        }
        self.make_object(&behind, facts).map(drop)
    }

    /// Makes a link whose text is not in the trace, though its length may be. Its target gets a
    /// path that we choose.
    fn make_some_link(&mut self, path: &[u8], facts: &Facts) -> Result<(), Errno> {
        const USUAL_BYTES: u64 = 24;
        let length = facts.link_size.unwrap_or(USUAL_BYTES).clamp(1, 4000) as usize;
        let target = loop {
            self.link_count += 1;
            let target = format!("/{:?>width$}", self.link_count, width = length.saturating_sub(1))
                .into_bytes();
            if self.root.inspect(&target, false).is_err() {
                break target;
            }
        };
        if facts.is_followed {
            // Data read through the link were already written under its name.
            if self.root.inspect(path, false).is_ok() {
                self.folder.leave();
                let (from, from_name) = self.root.parent(path)?;
                let (to, to_name) = self.root.parent(&target[1..])?;
                rustix::fs::renameat(&from, from_name, &to, to_name)?;
            }
            self.make_object(&target[1..], facts)?;
        }
        self.make_link(path, &target)
    }

    /// Makes something other than a link. Returns it if it is a file.
    fn make_object(&mut self, path: &[u8], facts: &Facts) -> Result<Option<OwnedFd>, Errno> {
        let (folder, name) = self.folder.enter(&self.root, path)?;
        let node = |kind| {
            made(rustix::fs::mknodat(folder, name, kind, facts.permissions(), 0)).map(|()| None)
        };
        match &facts.evidence {
            Evidence::Directory => {
                made(rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755))).map(|()| None)
            }
            Evidence::Fifo => node(FileType::Fifo),
            Evidence::Socket => node(FileType::Socket),
            Evidence::Device => Ok(None),
            // Something below it was seen.
            Evidence::Exists | Evidence::Executable
                if self
                    .root
                    .open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
                    .is_ok() =>
            {
                Ok(None)
            }
            _ => {
                let file = self.make_file(path)?;
                let size = rustix::fs::fstat(&file)?.st_size as u64;
                let wanted = facts.size.unwrap_or(0).max(facts.least_size);
                if wanted > size {
                    rustix::fs::ftruncate(&file, wanted)?;
                }
                Ok(Some(file))
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
        match self.root.inspect(path, true) {
            // A link to something that the trace never used.
            Err(Errno::NOENT) if facts.link.is_some() => Ok(()),
            object => dress_object(object?, facts),
        }
    }
}

/// Sets owners, modes and attributes of an open object, which may be opened with `O_PATH`.
fn dress_object(object: impl AsFd, facts: &Facts) -> Result<(), Errno> {
    if let Some((user, group)) =
        facts.owners.or(facts.user).filter(|_| rustix::process::geteuid().is_root())
    {
        let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
        rustix::fs::chownat(&object, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
    }
    for (name, value) in &facts.attributes {
        rustix::fs::setxattr(object_path(&object), name.as_slice(), value, XattrFlags::empty())?;
    }
    // The target of a link has been dressed under its own name, if the trace has that name.
    if facts.link.is_some() && facts.mode.is_none() && !facts.is_executable {
        return Ok(());
    }
    rustix::fs::chmod(object_path(&object), facts.permissions())
}

/// Marks every path with known entries below it as a directory, or a link to one, even if calls on
/// it only showed that it existed.
fn lead_to_directories(facts: &mut KnownPaths) {
    let may_be = |known: &Facts| match known.link {
        None => matches!(known.evidence, Evidence::Exists | Evidence::Executable),
        Some(None) => true,
        Some(Some(_)) => false,
    };
    let paths: Vec<Rc<[u8]>> =
        facts.iter().filter(|(_, known)| may_be(known)).map(|(path, _)| path.clone()).collect();
    for path in paths {
        let below = [&*path, b"/"].concat();
        let has_children = facts
            .range::<[u8], _>((Bound::Included(below.as_slice()), Bound::Unbounded))
            .next()
            .is_some_and(|(child, _)| child.starts_with(&below));
        if let Some(known) = facts.get_mut(&path).filter(|_| has_children) {
            known.take_in(Evidence::Directory);
        }
    }
}

/// Accepts an object that existed already.
fn made(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::EXIST) => Ok(()),
        result => result,
    }
}
