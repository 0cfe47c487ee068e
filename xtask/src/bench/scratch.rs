//! The folder with the workloads while they are measured.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of a file that marks a folder as ours, to be removed with all its contents.
const MARKER: &str = "retake-bench-scratch";

/// A folder that is emptied when it is made here, and removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Makes the folder.
    ///
    /// # Errors
    /// The folder cannot be made. Or it is not ours: it is not empty and has no marker.
    pub fn create(path: &Path, keep: bool) -> io::Result<Self> {
        if path.exists() {
            let is_empty = fs::read_dir(path)?.next().is_none();
            if !is_empty && !path.join(MARKER).exists() {
                let message = format!("{} is not empty, and not a scratch folder", path.display());
                return Err(io::Error::other(message));
            }
            fs::remove_dir_all(path)?;
        }
        fs::create_dir_all(path)?;
        fs::write(path.join(MARKER), "")?;
        let path = path.canonicalize()?;
        Ok(Self { path, keep })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Returns whether the folder is kept.
    pub fn keeps(&self) -> bool {
        self.keep
    }

    /// Returns free space in MB, if it is known.
    pub fn free_mb(&self) -> Option<u64> {
        let mut command = Command::new("df");
        let output = command.args(["-Pm", "--"]).arg(&self.path).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
    }

    /// Writes dirty pages of earlier runs to disk, so that the next run does not pay for them.
    pub fn settle(&self) {
        // A failure only makes figures noisier.
        let _ = Command::new("sync").arg("-f").arg(&self.path).status();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // The next run removes the rest, or reports why it cannot.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the bytes of all files below `folder`. Unreadable ones count as zero.
pub fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_folders_are_left_alone() {
        let parent = std::env::temp_dir().join(format!("retake-bench-test-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        fs::write(parent.join("precious"), "data").unwrap();
        assert!(Scratch::create(&parent, false).is_err());
        assert_eq!(folder_bytes(&parent), 4);

        let mine = parent.join("mine");
        let first = Scratch::create(&mine, true).unwrap();
        assert!(first.free_mb().is_some());
        fs::write(mine.join("left"), "data").unwrap();
        drop(first);
        let second = Scratch::create(&mine, false).unwrap();
        assert!(!mine.join("left").exists());
        drop(second);
        assert!(!mine.exists());
        fs::remove_dir_all(&parent).unwrap();
    }
}
