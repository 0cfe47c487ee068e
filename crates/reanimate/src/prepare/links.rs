//! Links that were recognised as links only after files below their names had been made. By then,
//! their names are directories.

use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::Errno;

use super::materials::Preparation;
use crate::compare::list;

/// The deepest level at which two trees are merged. Paths of the kernel are no deeper.
const MAXIMUM_DEPTH: u32 = 2048;

impl Preparation {
    /// Moves the tree below the name of a link to the link's target, so that the link can be made.
    pub(super) fn clear_for_link(&mut self, path: &[u8], target: &[u8]) -> Result<(), Errno> {
        let is_directory = |path: &[u8]| {
            let object = self.root.inspect(path, false)?;
            Ok::<_, Errno>(
                FileType::from_raw_mode(rustix::fs::fstat(&object)?.st_mode) == FileType::Directory,
            )
        };
        if path.is_empty() || !is_directory(path).unwrap_or(false) {
            return Ok(());
        }
        let behind = behind_link(path, target);
        let leads_into_itself = behind == path || behind.starts_with(&[path, b"/"].concat());
        if leads_into_itself || behind.is_empty() {
            return Ok(());
        }
        self.folder.enter(&self.root, &behind)?;
        self.folder.leave();
        self.merge(path, &behind, 0)
    }

    /// Moves a tree to another name. If both have an entry of the same name, the one already there
    /// stays.
    fn merge(&self, from: &[u8], to: &[u8], depth: u32) -> Result<(), Errno> {
        let (from_parent, from_name) = self.root.parent(from)?;
        let (to_parent, to_name) = self.root.parent(to)?;
        let exclusively = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&from_parent, from_name, &to_parent, to_name, exclusively) {
            Err(Errno::EXIST) => {}
            result => return result,
        }
        let open = |path: &[u8]| {
            self.root.open(
                path,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW,
                rustix::fs::Mode::empty(),
            )
        };
        let Ok(directory) = open(from) else {
            return rustix::fs::unlinkat(&from_parent, from_name, AtFlags::empty());
        };
        if depth < MAXIMUM_DEPTH && open(to).is_ok() {
            for name in list(&directory)?.into_keys() {
                self.merge(&[from, b"/", &name].concat(), &[to, b"/", &name].concat(), depth + 1)?;
            }
        }
        rustix::fs::unlinkat(&from_parent, from_name, AtFlags::REMOVEDIR)
    }
}

/// The target of a link at a path, computed from its text alone.
pub(super) fn behind_link(path: &[u8], target: &[u8]) -> Vec<u8> {
    let parent =
        path.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |index| &path[..index]);
    let whole =
        if target.starts_with(b"/") { target.to_vec() } else { [parent, b"/", target].concat() };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in whole.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use std::fs;

    #[test]
    fn links_lead_where_their_text_says() {
        for (path, target, behind) in [
            ("lib", "usr/lib", "usr/lib"),
            ("a/b", "../c", "c"),
            ("a/b", "./c//d", "a/c/d"),
            ("a/b", "/x", "x"),
            ("a", "../..", ""),
        ] {
            assert_eq!(behind_link(path.as_bytes(), target.as_bytes()), behind.as_bytes());
        }
    }

    #[test]
    fn what_was_made_below_a_link_is_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        for directory in ["lib/deep", "usr/lib/deep"] {
            fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        for file in ["lib/one", "lib/deep/two", "usr/lib/deep/three"] {
            fs::write(folder.path().join(file), file).unwrap();
        }
        let mut preparation = Preparation::new(Root::new(folder.path()).unwrap());
        preparation.clear_for_link(b"lib", b"usr/lib").unwrap();
        assert!(!folder.path().join("lib").exists());
        for (file, text) in
            [("one", "lib/one"), ("deep/two", "lib/deep/two"), ("deep/three", "usr/lib/deep/three")]
        {
            assert_eq!(fs::read_to_string(folder.path().join("usr/lib").join(file)).unwrap(), text);
        }
    }
}
