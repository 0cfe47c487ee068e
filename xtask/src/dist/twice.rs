//! Proves that packages depend on nothing but the sources and the tools: a second build, in another
//! folder, makes the same bytes. A third one, without clang, has the same runtime.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{self, Clang};
use super::{Packages, done, pack, printed};
use crate::bench::Result;

/// # Errors
/// The sources have changes that the second build would not have.
pub(super) fn check_needs(repository: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["status", "--porcelain"]).current_dir(repository);
    let changes = printed(&mut git)?;
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!("a second build has what is committed, and these are not:\n{changes}").into())
}

/// Builds in another folder, and compares. True if all is the same.
///
/// # Errors
/// A build fails.
pub(super) fn prove(
    repository: &Path,
    retake: &Path,
    packages: &Packages,
    output: &Path,
) -> Result<bool> {
    // A name with a space is one more difference.
    let elsewhere = output.join("another folder");
    if elsewhere.exists() {
        fs::remove_dir_all(&elsewhere)?;
    }
    done(Command::new("git").args(["clone", "--quiet"]).arg(repository).arg(&elsewhere))?;
    let other_retake = build::build(&elsewhere, Clang::IfThere)?;
    let others = pack::packages(&elsewhere, &other_retake, &elsewhere.join("target"))?;
    let mut is_same = true;
    for (one, other) in [
        (retake, other_retake.as_path()),
        (&packages.tarball, &others.tarball),
        (&packages.debian, &others.debian),
    ] {
        is_same &= compare(one, other)?;
    }
    let plain_retake = build::build(&elsewhere, Clang::Never)?;
    for [recorder, replayer] in [[retake, &plain_retake], [&plain_retake, retake]] {
        exchange(recorder, replayer, &elsewhere.join("target"))?;
    }
    println!("builds with and without clang replay and debug each other's recordings");
    if is_same {
        fs::remove_dir_all(&elsewhere)?;
    }
    Ok(is_same)
}

/// Compares two files, and prints the result.
fn compare(one: &Path, other: &Path) -> Result<bool> {
    let is_same = fs::read(one)? == fs::read(other)?;
    let name = one.file_name().unwrap_or_default().display();
    if is_same {
        let sum = printed(Command::new("sha256sum").arg(one))?;
        println!("{name}: both builds are the same, {}", &sum[..sum.find(' ').unwrap_or(0)]);
    } else {
        println!("{name}: {} differs from {}", other.display(), one.display());
    }
    Ok(is_same)
}

/// Packs a recording of one build, and replays and debugs it with another.
fn exchange(recorder: &Path, replayer: &Path, folder: &Path) -> Result<()> {
    let home = folder.join("exchange");
    let packed: PathBuf = home.join("packed.retake");
    let command = |retake: &Path, arguments: &[&str]| {
        let mut command = Command::new(retake);
        command.args(arguments).env("RETAKE_DIR", &home);
        command
    };
    let recorded = printed(&mut command(recorder, &["record", "bash", "-c", "echo $$ $RANDOM"]))?;
    printed(command(recorder, &["pack", "-o"]).arg(&packed))?;
    let replayed = printed(command(replayer, &["replay"]).arg(&packed))?;
    if recorded != replayed {
        return Err(format!("recorded {recorded:?}, but replayed {replayed:?}").into());
    }
    let gdb = ["--", "-batch", "-ex", "reverse-stepi", "-ex", "backtrace"];
    printed(command(replayer, &["debug"]).arg(&packed).args(gdb))?;
    fs::remove_dir_all(&home)?;
    Ok(())
}
