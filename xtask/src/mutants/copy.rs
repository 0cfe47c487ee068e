//! The copy of the repository in which mutations are made: the files of the work tree, and a target
//! folder that is kept.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::Result;

/// Returns the files that git tracks or would add, relative to the repository.
///
/// # Errors
/// There is no git, or no repository.
pub fn files(repository: &Path) -> Result<Vec<String>> {
    let mut command = Command::new("git");
    let output = command
        .arg("-C")
        .arg(repository)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()?;
    if !output.status.success() {
        return Err(
            format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()).into()
        );
    }
    let names = String::from_utf8(output.stdout)?;
    // Git still lists files that were deleted in the work tree.
    let mut files: Vec<String> = names
        .split_terminator('\0')
        .filter(|name| repository.join(name).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    Ok(files)
}

/// Makes `copy` equal to the work tree. Unchanged files keep their times, so that they are not
/// built again.
///
/// # Errors
/// A file cannot be read or written.
pub fn refresh(repository: &Path, copy: &Path) -> Result<()> {
    let files = files(repository)?;
    for file in &files {
        let (from, to) = (repository.join(file), copy.join(file));
        let bytes = fs::read(&from)?;
        let mode = |path: &Path| fs::metadata(path).map(|metadata| metadata.mode()).ok();
        if fs::read(&to).ok().as_ref() != Some(&bytes) || mode(&from) != mode(&to) {
            fs::create_dir_all(to.parent().unwrap_or(copy))?;
            fs::write(&to, bytes)?;
            fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
        }
    }
    let known: HashSet<PathBuf> = files.iter().map(|file| copy.join(file)).collect();
    remove_others(copy, &known)
}

/// Removes files that do not exist any more. Folders may stay.
fn remove_others(folder: &Path, known: &HashSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type()))?;
        if kind?.is_dir() {
            remove_others(&path, known)?;
        } else if !known.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
