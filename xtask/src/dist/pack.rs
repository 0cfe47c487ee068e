//! Packs the built command with its documentation. The packages depend only on the sources and on
//! the tools: not on the time, the order of files in folders, the umask, nor the file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Packages, done, printed};
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

/// Makes both packages.
pub(super) fn packages(repository: &Path, retake: &Path, output: &Path) -> Result<Packages> {
    let work = output.join("work");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let name = format!("retake-{VERSION}-x86_64");
    let tree = work.join(&name);
    fs::create_dir_all(tree.join("bin"))?;
    fill(repository, retake, &tree)?;
    let packages = Packages {
        tarball: output.join(format!("{name}.tar.gz")),
        debian: output.join(format!("retake_{VERSION}_amd64.deb")),
    };
    let time = time_of_sources(repository);
    tarball(&work, &name, &packages.tarball, &time)?;
    debian(&work, &tree, &packages.debian, &time)?;
    fs::remove_dir_all(&work)?;
    Ok(packages)
}

/// Fills a folder with what is installed below a prefix such as `/usr`.
fn fill(repository: &Path, retake: &Path, tree: &Path) -> Result<()> {
    let installed = tree.join("bin/retake");
    let [manual, documents] = ["share/man/man1", "share/doc/retake"].map(|name| tree.join(name));
    for folder in [&manual, &documents] {
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
    Ok(())
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
fn tarball(work: &Path, name: &str, tarball: &Path, time: &str) -> Result<()> {
    settle(&work.join(name), time)?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--use-compress-program", "gzip -9n"]);
    tar.env_remove("TAR_OPTIONS").env_remove("GZIP");
    done(tar.arg("--file").arg(tarball).arg("--directory").arg(work).arg(name))
}

/// Builds the package for Debian. It depends on nothing: the debugger commands say if gdb is
/// missing.
fn debian(work: &Path, tree: &Path, package: &Path, time: &str) -> Result<()> {
    let root = work.join("debian");
    fs::create_dir_all(root.join("DEBIAN"))?;
    done(Command::new("cp").arg("-r").arg(tree).arg(root.join("usr")))?;
    let pages = files_below(&root.join("usr/share/man"))?;
    done(Command::new("gzip").arg("-9n").args(pages).env_remove("GZIP"))?;
    fs::write(root.join("DEBIAN/control"), control(kilobytes(&root.join("usr"))?))?;
    settle(&root, time)?;
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&root).arg(package);
    done(pack.env("SOURCE_DATE_EPOCH", time))
}

/// Gives all files below a folder the modes and the time that packages have.
fn settle(folder: &Path, time: &str) -> Result<()> {
    done(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(folder))?;
    let mut find = Command::new("find");
    find.arg(folder).args(["-exec", "touch", "--no-dereference", &format!("--date=@{time}")]);
    done(find.args(["{}", "+"]))
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

/// The size of all files below a folder. What the folders themselves take depends on the file
/// system.
fn kilobytes(folder: &Path) -> Result<u64> {
    let sizes = files_below(folder)?.into_iter().map(|file| Ok(fs::metadata(file)?.len()));
    Ok(sizes.sum::<Result<u64>>()?.div_ceil(1024))
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::scratch::Scratch;
    use rustix::fs::Mode;
    use rustix::process::umask;
    use std::fs::File;
    use std::time::{Duration, SystemTime};

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

    /// Packs a few files that were written that long ago, and returns both packages.
    fn packed(folder: &Path, names: [&str; 3], age: Duration) -> [Vec<u8>; 2] {
        let tree = folder.join("retake");
        for name in names {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("written");
            fs::write(&path, name).expect("written");
            let file = File::options().write(true).open(&path).expect("opened");
            file.set_modified(SystemTime::now() - age).expect("a time");
        }
        let [tar, deb] = ["tar", "deb"].map(|name| folder.join(name));
        tarball(folder, "retake", &tar, "1700000000").expect("packed");
        debian(folder, &tree, &deb, "1700000000").expect("packed");
        [tar, deb].map(|path| fs::read(path).expect("read"))
    }

    #[test]
    fn the_same_files_make_the_same_packages() {
        if printed(Command::new("dpkg-deb").arg("--version")).is_err() {
            return;
        }
        let folder = std::env::temp_dir().join(format!("retake-pack-{}", std::process::id()));
        let folder = Scratch::create(&folder, false).expect("a folder of our own");
        let names = ["bin/retake", "share/man/man1/retake.1", "share/doc/README.md"];
        let now = packed(&folder.path().join("now"), names, Duration::ZERO);
        let [first, second, third] = names;
        // Older than the time that the packages have.
        let years = Duration::from_secs(20 * 366 * 86400);
        let usual = umask(Mode::from_raw_mode(0o077));
        let long_ago = packed(&folder.path().join("long ago"), [third, second, first], years);
        umask(usual);
        assert!(now == long_ago);
    }

    #[test]
    fn the_size_of_folders_does_not_count() {
        let folder = std::env::temp_dir().join(format!("retake-size-{}", std::process::id()));
        let folder = Scratch::create(&folder, false).expect("a folder of our own");
        fs::create_dir_all(folder.path().join("usr/a/b")).expect("made");
        fs::write(folder.path().join("usr/a/b/file"), [0; 1025]).expect("written");
        assert_eq!(kilobytes(&folder.path().join("usr")).expect("read"), 2);
    }
}
