//! `cargo xtask dist`: builds packages that need neither Rust nor a source tree: a tarball, and a
//! package for Debian and Ubuntu. The command is linked statically, so it runs on any distribution.

mod build;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::bench::Result;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What each shell calls the file with its completions, below the prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/retake"),
    ("zsh", "share/zsh/vendor-completions/_retake"),
    ("fish", "share/fish/vendor_completions.d/retake.fish"),
];

/// Files and folders of the repository that belong to the documentation.
const DOCUMENTS: [&str; 6] =
    ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "docs", "examples"];

/// Options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The folder for the packages.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Builds the packages, and prints where they are.
///
/// # Errors
/// A command fails, or is not there: `dpkg-deb`, `tar`, `gzip`, `strip`.
pub fn run(repository: &Path, options: &Options) -> Result<bool> {
    let repository = repository.canonicalize()?;
    let output = options.output.clone().unwrap_or_else(|| repository.join("target/dist"));
    let work = output.join("work");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(&work)?;
    let retake = build::build(&repository)?;
    let name = format!("retake-{VERSION}-x86_64");
    let tree = work.join(&name);
    fill(&repository, &retake, &tree)?;
    let time = time_of_sources(&repository);
    let tarball = output.join(format!("{name}.tar.gz"));
    pack(&work, &name, &tarball, &time)?;
    let package = output.join(format!("retake_{VERSION}_amd64.deb"));
    debian(&work, &tree, &package, &time)?;
    fs::remove_dir_all(&work)?;
    for file in [tarball, package] {
        println!("{} ({} bytes)", file.display(), fs::metadata(&file)?.len());
    }
    Ok(true)
}

/// Fills a folder with what is installed below a prefix such as `/usr`.
fn fill(repository: &Path, retake: &Path, tree: &Path) -> Result<()> {
    let installed = tree.join("bin/retake");
    let [manual, documents] = ["share/man/man1", "share/doc/retake"].map(|name| tree.join(name));
    for folder in [&tree.join("bin"), &manual, &documents] {
        fs::create_dir_all(folder)?;
    }
    // Symbols of functions stay, for backtraces of our own mistakes.
    done(Command::new("strip").arg("--strip-debug").arg("-o").arg(&installed).arg(retake))?;
    done(Command::new(&installed).arg("man").arg(&manual))?;
    for (shell, place) in COMPLETIONS {
        let place = tree.join(place);
        fs::create_dir_all(place.parent().ok_or("a file without a folder")?)?;
        fs::write(place, printed(Command::new(&installed).args(["completions", shell]))?)?;
    }
    for name in DOCUMENTS {
        done(Command::new("cp").arg("-r").arg(repository.join(name)).arg(&documents))?;
    }
    done(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(tree))
}

/// The time of the newest change, in seconds since 1970. All files of the packages have it.
fn time_of_sources(repository: &Path) -> String {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(repository);
    std::env::var("SOURCE_DATE_EPOCH")
        .or_else(|_| printed(&mut git).map(|text| text.trim().to_owned()))
        .unwrap_or_else(|_| "0".to_owned())
}

/// Packs the folder `name` of `work`.
fn pack(work: &Path, name: &str, tarball: &Path, time: &str) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{time}")).args(["--use-compress-program", "gzip -9n"]);
    done(tar.arg("--file").arg(tarball).arg("--directory").arg(work).arg(name))
}

/// Builds the package for Debian. It depends on nothing: the debugger commands say if gdb is
/// missing.
fn debian(work: &Path, tree: &Path, package: &Path, time: &str) -> Result<()> {
    let root = work.join("debian");
    fs::create_dir_all(root.join("DEBIAN"))?;
    done(Command::new("cp").arg("-r").arg(tree).arg(root.join("usr")))?;
    let pages = fs::read_dir(root.join("usr/share/man/man1"))?;
    let pages: Vec<PathBuf> = pages.flatten().map(|page| page.path()).collect();
    done(Command::new("gzip").arg("-9n").args(pages))?;
    fs::write(root.join("DEBIAN/control"), control(kilobytes(&root.join("usr"))?))?;
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&root).arg(package);
    done(pack.env("SOURCE_DATE_EPOCH", time))
}

/// The package's description. `kilobytes` is the size of what it installs.
fn control(kilobytes: u64) -> String {
    format!(
        "Package: retake\n\
        Version: {VERSION}\n\
        Architecture: amd64\n\
        Section: devel\n\
        Priority: optional\n\
        Installed-Size: {kilobytes}\n\
        Suggests: gdb\n\
        Maintainer: the developers of Retake <retake@localhost>\n\
        Description: records runs of programs and repeats them exactly\n \
        Records a run of a program and all its processes, and repeats it: the same\n \
        output, system calls and memory. Recordings are debugged forwards and\n \
        backwards. No hardware performance counter is needed.\n"
    )
}

/// The size of all files below a folder.
fn kilobytes(folder: &Path) -> Result<u64> {
    let text = printed(Command::new("du").args(["-sk", "--apparent-size"]).arg(folder))?;
    Ok(text.split_whitespace().next().unwrap_or_default().parse()?)
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}

fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_one_that_dpkg_reads() {
        let text = control(1234);
        assert!(text.contains("\nInstalled-Size: 1234\n") && text.ends_with(".\n"), "{text}");
        // A line of a paragraph begins with one space, and no line is empty.
        let is_read = |line: &str| match line.strip_prefix(' ') {
            Some(rest) => rest.starts_with(char::is_alphabetic),
            None => line.contains(": "),
        };
        assert!(text.lines().all(is_read), "{text}");
    }
}
