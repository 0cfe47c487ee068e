//! Proves that the packages work: it makes small Debian systems, installs each package there, and
//! tries it as root, as an ordinary user, and in bwrap.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Packages, done};
use crate::bench::Result;

/// The versions of Debian.
const SUITES: [&str; 2] = ["bookworm", "trixie"];

/// What is installed there. None of it is needed to record and replay.
const INSTALLED: &str = "bash-completion bsdextrautils bubblewrap gdb man-db perl-base \
    python3-minimal zsh";

/// A file that says that a root is complete. A later proof uses it again.
const COMPLETE: &str = "root-of-retake";

const ENTER: &str = include_str!("enter.sh");
const WALK: &str = include_str!("walk.sh");
const USER: &str = "ann";

/// A command that runs the next one as the ordinary user.
const AS_USER: &str = "setpriv --reuid ann --regid ann --init-groups env HOME=/home/ann";
const AS_ROOT: &str = "env HOME=/root";
/// The same, in a sandbox without the network, where only a new home can be written.
const BWRAP: &str = "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp \
    --unshare-net --unshare-pid --die-with-parent --dir /tmp/home --setenv HOME /tmp/home";

/// # Errors
/// This is not root, or `debootstrap` is not there.
pub(super) fn check_needs() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err("--prove makes Debian systems, which only root can\n  \
            try     sudo cargo xtask dist --prove"
            .into());
    }
    if retake_testing::needs::find_command("debootstrap").is_none() {
        return Err("--prove needs debootstrap\n  try     apt-get install debootstrap".into());
    }
    Ok(())
}

/// Tries both packages on all systems. True if everything works.
///
/// # Errors
/// A system cannot be made, or a package cannot be installed.
pub(super) fn prove(packages: &Packages, folder: &Path) -> Result<bool> {
    let mut works = true;
    for suite in SUITES {
        let root = Root::make(folder, suite)?;
        fs::write(root.folder.join("walk.sh"), WALK)?;
        fs::copy(&packages.debian, root.folder.join("retake.deb"))?;
        fs::copy(&packages.tarball, root.folder.join("retake.tar.gz"))?;
        root.run("dpkg --install /retake.deb")?;
        works &= root.walk("the .deb", "/usr/bin", "shells_and_manuals");
        root.run("dpkg --purge retake && test ! -e /usr/share/doc/retake")?;
        root.run("rm -rf /opt/* && tar --extract --file /retake.tar.gz --directory /opt")?;
        root.run("mv /opt/retake-* /opt/retake && ! command -v retake")?;
        works &= root.walk("the tarball", "/opt/retake/bin:/usr/bin", "");
    }
    Ok(works)
}

/// A small Debian system in a folder.
struct Root {
    suite: &'static str,
    folder: PathBuf,
}

impl Root {
    /// Makes a system, or takes the one of an earlier proof.
    fn make(parent: &Path, suite: &'static str) -> Result<Self> {
        let root = Self { suite, folder: parent.join(suite) };
        if root.folder.join(COMPLETE).exists() {
            return Ok(root);
        }
        if root.folder.exists() {
            fs::remove_dir_all(&root.folder)?;
        }
        fs::create_dir_all(parent)?;
        let mut command = Command::new("debootstrap");
        done(command.args(["--variant=minbase", suite]).arg(&root.folder))?;
        // debootstrap does not know alternatives among dependencies, as apt does.
        root.run(&format!(
            "export DEBIAN_FRONTEND=noninteractive && apt-get update --quiet=2 && \
            apt-get install --yes --quiet=2 --no-install-recommends {INSTALLED} && \
            useradd --create-home {USER}"
        ))?;
        fs::write(root.folder.join(COMPLETE), "")?;
        Ok(root)
    }

    /// Returns a command that runs a script in the system.
    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "enter.sh"]);
        command.arg(&self.folder).args(["sh", "-c", script]);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command
    }

    fn run(&self, script: &str) -> Result<()> {
        let status = self.command(script).status()?;
        if status.success() {
            return Ok(());
        }
        Err(format!("in {}: {script} failed: {status}", self.folder.display()).into())
    }

    /// Tries the installed command in all ways. `extra` is one more part for root.
    fn walk(&self, package: &str, path: &str, extra: &str) -> bool {
        let mut works = true;
        for (who, as_whom, extra) in [
            ("root", AS_ROOT.to_owned(), extra),
            ("an ordinary user", AS_USER.to_owned(), ""),
            ("root in bwrap", format!("{AS_ROOT} {BWRAP}"), ""),
            ("an ordinary user in bwrap", format!("{AS_USER} {BWRAP}"), ""),
        ] {
            println!("{}, {package}, {who}:", self.suite);
            let walk = format!("PATH={path}:$PATH; {as_whom} bash /walk.sh {extra}");
            if let Err(error) = self.run(&walk) {
                println!("{error}");
                works = false;
            }
        }
        works
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_are_without_mistakes_in_syntax() {
        for (shell, script) in [("sh", ENTER), ("bash", WALK)] {
            done(Command::new(shell).args(["-n", "-c", script])).expect(shell);
        }
    }
}
