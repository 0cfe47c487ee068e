//! Scratch folders: one for the whole run, and one for each test inside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of the whole run. [`Folders::remove`] removes it.
#[derive(Debug)]
pub struct Folders {
    root: PathBuf,
    keep: bool,
}

impl Folders {
    /// Creates the run's folder below `parent`. All its tests share one home folder. It contains
    /// the store of file contents, so that the C library is stored only once.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub fn create(parent: &Path) -> io::Result<Self> {
        let root = parent.join(format!("programs-run-{}", std::process::id()));
        fs::create_dir_all(root.join("home"))?;
        let keep = std::env::var_os("RETAKE_KEEP_FOLDERS").is_some_and(|value| value == "1");
        Ok(Self { root, keep })
    }

    /// The home folder of all commands.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Creates a folder for one test. It is removed when the guard is dropped.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn for_test(&self, name: &str) -> io::Result<TestFolder> {
        let path = self.root.join(name.replace('/', "-"));
        fs::create_dir_all(&path)?;
        Ok(TestFolder { path, keep: self.keep })
    }

    /// Removes everything that the run has made, or prints where it is.
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
    /// Creates an empty folder in this one.
    ///
    /// # Errors
    /// The folder cannot be created, or exists already.
    pub fn inner(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// A path in this folder at which nothing exists yet.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        if !self.keep {
            // A leftover is reported when the folder of the whole run is removed.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
