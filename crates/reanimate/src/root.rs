//! The directory that everything happens in.
//!
//! Every path is opened with `openat2` and `RESOLVE_IN_ROOT`. Neither `..` nor an absolute path nor
//! a symbolic link leads out, whatever the trace says and whatever is below the root. All
//! operations act on the opened object, or on a single name in an opened directory, in ways that
//! follow no link.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::action::Place;
use crate::folder::{KeptCount, Object};

/// Tries of an open, which fails while a directory on the path is being renamed.
const MAXIMUM_TRIES: u32 = 1000;

/// A directory that nothing leads out of.
#[derive(Debug, Clone)]
pub struct Root {
    directory: Arc<OwnedFd>,
    /// Whether the tree contains devices. Objects are then checked before they are opened.
    has_devices: bool,
    /// How many of its directories are kept open.
    kept: KeptCount,
}

impl Root {
    /// Opens a directory as the root.
    ///
    /// # Errors
    /// If it cannot be opened, or is no directory.
    pub fn new(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { directory: Arc::new(directory), has_devices: false, kept: KeptCount::default() })
    }

    /// Returns a root that refuses to open devices.
    pub fn without_devices(self) -> Self {
        Self { has_devices: true, ..self }
    }

    /// Opens a path, relative or absolute, below the root.
    ///
    /// # Errors
    /// Those of the kernel; `ENXIO` for a device.
    pub fn open(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if self.has_devices && !flags.contains(OFlags::PATH) {
            self.refuse_device(path, flags)?;
        }
        self.open_any(path, flags, mode)
    }

    fn refuse_device(&self, path: &[u8], flags: OFlags) -> Result<(), Errno> {
        let Ok(object) =
            self.open_any(path, OFlags::PATH | flags & OFlags::NOFOLLOW, Mode::empty())
        else {
            return Ok(());
        };
        if is_device(object)? { Err(Errno::NXIO) } else { Ok(()) }
    }

    fn open_any(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        open_at(
            &*self.directory,
            path,
            (flags, mode),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )
    }

    /// Opens a name in an open directory, or makes a file of that name. Links and `..` are refused.
    ///
    /// # Errors Those of the kernel; `ELOOP` for a link.
    pub fn open_in(
        directory: impl AsFd,
        name: &[u8],
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        open_at(directory, name, (flags, mode), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
    }

    /// Opens a file for writing by its name in an open directory, and makes it if it does not
    /// exist.
    ///
    /// # Errors Those of the kernel; `ELOOP` for a link, `ENXIO` for a device.
    pub fn make_in(&self, directory: impl AsFd, name: &[u8], mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        if !self.has_devices {
            return Self::open_in(directory, name, flags | OFlags::CREATE, mode);
        }
        match Self::open_in(&directory, name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Err(Errno::EXIST) => {}
            made => return made,
        }
        // The checked object is the one to be opened, even if the name is given to another one
        // meanwhile.
        let object = Self::open_in(directory, name, OFlags::PATH, Mode::empty())?;
        if is_device(&object)? {
            return Err(Errno::NXIO);
        }
        rustix::fs::open(object_path(&object), flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Opens the directory of a place. The directory stays open for other calls.
    ///
    /// # Errors Those of the kernel.
    pub fn folder<'place>(&self, place: &'place Place) -> Result<Object<'place>, Errno> {
        place.directory.opened(&self.kept, |path| {
            self.open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
        })
    }

    /// Whether devices may be below the root.
    pub fn has_devices(&self) -> bool {
        self.has_devices
    }

    /// Opens a path with `O_PATH`, which gives no access to the object.
    ///
    /// # Errors Those of the kernel.
    pub fn inspect(&self, path: &[u8], follows: bool) -> Result<OwnedFd, Errno> {
        let follow = if follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        self.open(path, OFlags::PATH | follow, Mode::empty())
    }

    /// Opens the directory of a path. Returns it with the name in it.
    ///
    /// # Errors Those of the kernel.
    pub fn parent<'path>(&self, path: &'path [u8]) -> Result<(OwnedFd, &'path [u8]), Errno> {
        let (directory, name) = split(path);
        let directory = self.open(directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok((directory, single_name(name)?))
    }
}

/// Splits a path into directory and name.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(index) => (&path[..index], &path[index + 1..]),
        None => (&[], path),
    }
}

/// Returns a name that stays in its directory: `.` if the name is empty.
///
/// # Errors `EINVAL` if the name contains a slash.
pub fn single_name(name: &[u8]) -> Result<&[u8], Errno> {
    let end = name.iter().rposition(|byte| *byte != b'/').map_or(0, |index| index + 1);
    match &name[..end] {
        b"" => Ok(b"."),
        whole if whole.contains(&b'/') => Err(Errno::INVAL),
        _ => Ok(name),
    }
}

fn open_at(
    directory: impl AsFd,
    path: &[u8],
    (flags, mode): (OFlags, Mode),
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    // `openat2` refuses a mode where `open` would ignore it.
    let makes = flags.contains(OFlags::CREATE) || flags.contains(OFlags::TMPFILE);
    let mode = if makes { mode } else { Mode::empty() };
    let is_path = flags.contains(OFlags::PATH);
    let flags = if is_path {
        flags & (OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW)
    } else {
        flags | OFlags::NOCTTY
    };
    for _ in 0..MAXIMUM_TRIES {
        match rustix::fs::openat2(&directory, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

fn is_device(object: impl AsFd) -> Result<bool, Errno> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(object)?.st_mode);
    Ok(matches!(kind, FileType::CharacterDevice | FileType::BlockDevice))
}

/// Returns a path that leads to exactly the object of a descriptor, for calls that do not take
/// `O_PATH` descriptors.
pub fn object_path(object: impl AsFd) -> String {
    format!("/proc/self/fd/{}", object.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside_and_root() -> (tempfile::TempDir, Root) {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        let inside = outside.path().join("root");
        std::fs::create_dir(&inside).unwrap();
        for (target, name) in
            [("/", "absolute"), ("..", "up"), ("../secret", "file"), ("/proc/self/root", "magic")]
        {
            std::os::unix::fs::symlink(target, inside.join(name)).unwrap();
        }
        let root = Root::new(&inside).unwrap();
        (outside, root)
    }

    #[test]
    fn no_path_leads_out() {
        let (outside, root) = outside_and_root();
        let absolute = outside.path().join("secret");
        let paths = [
            "../secret",
            "/../secret",
            "up/secret",
            "absolute/../../secret",
            "file",
            "up/../secret",
            "magic/etc/passwd",
        ];
        for path in paths.iter().copied().chain(absolute.to_str()) {
            let found = root.open(path.as_bytes(), OFlags::RDONLY, Mode::empty());
            assert!(found.is_err(), "{path}");
        }
        let itself = root.open(b"..", OFlags::PATH, Mode::empty()).unwrap();
        let here = root.open(b"", OFlags::PATH, Mode::empty()).unwrap();
        let inode = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
        assert_eq!(inode(&itself), inode(&here));
    }

    #[test]
    fn no_name_leads_out_of_its_directory() {
        let (outside, root) = outside_and_root();
        let here = root.open(b"", OFlags::PATH, Mode::empty()).unwrap();
        let write = OFlags::WRONLY | OFlags::CREATE;
        for name in ["..", "../secret", "/etc/passwd", "file", "up/secret", "absolute"] {
            assert!(Root::open_in(&here, name.as_bytes(), write, Mode::RUSR).is_err(), "{name}");
        }
        assert!(Root::open_in(&here, b"new", write, Mode::RUSR).is_ok());
        assert_eq!(std::fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
    }

    #[test]
    fn names_with_slashes_are_refused() {
        assert_eq!(single_name(b"../secret"), Err(Errno::INVAL));
        assert_eq!(single_name(b"name/"), Ok(&b"name/"[..]));
        assert_eq!(single_name(b""), Ok(&b"."[..]));
    }
}
