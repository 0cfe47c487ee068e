//! Builds the command for packages. The result does not depend on the folder of the repository, nor
//! on the folder where Cargo keeps the sources of dependencies.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::done;
use crate::bench::Result;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What separates the flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

/// Whether programs for the kernel are built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clang {
    /// If there is a clang that can build them.
    IfThere,
    Never,
}

/// Builds the command without shared libraries. It has a target folder of its own, because its
/// flags would make the usual builds start anew.
pub(super) fn build(repository: &Path, clang: Clang) -> Result<PathBuf> {
    let folder = repository.join("target/dist/build");
    // The folders of dependencies exist only when they are there.
    done(cargo(repository).args(["fetch", "--locked", "--target", TARGET]))?;
    let renamed = renamed_folders(repository, &cargo_home()?);
    let mut command = cargo(repository);
    command.args(["build", "--release", "--locked", "--package", "retake", "--target", TARGET]);
    command.arg("--target-dir").arg(&folder);
    command.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags_of_rust(&renamed));
    // The second variable allows quotes in the first.
    command.env("CFLAGS", flags_of_c(&renamed)).env("CC_SHELL_ESCAPED_FLAGS", "1");
    if clang == Clang::Never {
        command.env("BPF_CLANG", "");
    }
    done(&mut command)?;
    Ok(folder.join(TARGET).join("release/retake"))
}

fn cargo(repository: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repository);
    command
}

/// The folder where Cargo keeps the sources of dependencies.
fn cargo_home() -> Result<PathBuf> {
    let at_home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(at_home);
    home.ok_or_else(|| "neither CARGO_HOME nor HOME is set".into())
}

/// The folders with sources, and the names that the packages have for them. The names of Cargo's
/// folders depend on where it downloads from.
fn renamed_folders(repository: &Path, home: &Path) -> Vec<(PathBuf, &'static str)> {
    let mut folders = vec![(repository.to_owned(), "/retake")];
    let downloaded = fs::read_dir(home.join("registry/src")).into_iter().flatten().flatten();
    let mut downloaded: Vec<PathBuf> = downloaded.map(|entry| entry.path()).collect();
    downloaded.sort();
    folders.extend(downloaded.into_iter().map(|folder| (folder, "/crates")));
    folders
}

fn flags_of_rust(renamed: &[(PathBuf, &str)]) -> OsString {
    let mut flags = OsString::from("-Ctarget-feature=+crt-static");
    for (folder, name) in renamed {
        flags.push(format!("{SEPARATOR}--remap-path-prefix="));
        flags.push(folder);
        flags.push(format!("={name}"));
    }
    flags
}

/// The flags for dependencies in C. Those of the environment stay.
fn flags_of_c(renamed: &[(PathBuf, &str)]) -> String {
    let mut flags = std::env::var("CFLAGS").unwrap_or_default();
    for (folder, name) in renamed {
        let folder = folder.to_string_lossy().replace('\'', r"'\''");
        flags.push_str(&format!(" '-ffile-prefix-map={folder}={name}'"));
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::scratch::Scratch;

    #[test]
    fn folders_of_the_machine_get_other_names() {
        let home = std::env::temp_dir().join(format!("retake-dist-{}", std::process::id()));
        let home = Scratch::create(&home, false).expect("a folder of our own");
        let home = home.path();
        fs::create_dir_all(home.join("registry/src/from-somewhere")).expect("a folder of our own");
        let renamed = renamed_folders(Path::new("/some where"), home);
        let rust = flags_of_rust(&renamed).into_string().expect("text");
        let rust: Vec<&str> = rust.split(SEPARATOR).collect();
        let downloaded = format!("{}/registry/src/from-somewhere=/crates", home.display());
        assert_eq!(rust[1], "--remap-path-prefix=/some where=/retake");
        assert_eq!(rust[2], format!("--remap-path-prefix={downloaded}"));
        let c = flags_of_c(&renamed);
        assert!(c.contains(" '-ffile-prefix-map=/some where=/retake'"), "{c}");
        assert!(c.ends_with(&format!(" '-ffile-prefix-map={downloaded}'")), "{c}");
    }
}
