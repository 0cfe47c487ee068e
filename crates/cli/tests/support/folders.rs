//! Scratch folders: one for the whole run, one in it for each test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of a whole run, removed by [`Folders::remove`].
#[derive(Debug)]
pub struct Folders {
    root: PathBuf,
    keep: bool,
}

impl Folders {
    /// Makes the run's folder below `parent`, with a home folder that all its tests share (the
    /// store of file contents is there, so that the C library is stored once and not for every
    /// test).
    ///
    /// # Errors
    /// If a folder cannot be made.
    pub fn create(parent: &Path) -> io::Result<Self> {
        let root = parent.join(format!("programs-run-{}", std::process::id()));
        fs::create_dir_all(root.join("home"))?;
        let keep = std::env::var_os("RETAKE_KEEP_FOLDERS").is_some_and(|value| value == "1");
        Ok(Self { root, keep })
    }

    /// The home folder of everything that runs.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Makes a folder for one test, removed when the guard goes.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn for_test(&self, name: &str) -> io::Result<TestFolder> {
        let path = self.root.join(name.replace('/', "-"));
        fs::create_dir_all(&path)?;
        Ok(TestFolder { path, keep: self.keep })
    }

    /// Removes everything the run has made, or says where it is.
    pub fn remove(&self) {
        if self.keep {
            eprintln!("folders are kept in {}", self.root.display());
        } else if let Err(error) = fs::remove_dir_all(&self.root) {
            eprintln!("warning: {} remains: {error}", self.root.display());
        }
    }
}

/// The folder of one test.
#[derive(Debug)]
pub struct TestFolder {
    path: PathBuf,
    keep: bool,
}

impl TestFolder {
    /// A new empty folder in this one.
    ///
    /// # Errors
    /// If it cannot be made or is there already.
    pub fn inner(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// A path in this folder where nothing is yet.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        if !self.keep {
            // A leftover is reported when the whole run's folder is removed.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
