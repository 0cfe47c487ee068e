//! The needs of tests.
//!
//! A need is the name of a command, `python:MODULE`, or one of the words in [`lacking`]. Each
//! command is listed with its Debian package, so that `cargo xtask setup` can install what is
//! missing.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::report::{self, Cause};

/// Commands that tests use, and the Debian packages that contain them.
pub const COMMANDS: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("cargo", "cargo"),
    ("clang", "clang"),
    ("ctest", "cmake"),
    ("curl", "curl"),
    ("gcc", "gcc"),
    ("gdb", "gdb"),
    ("git", "git"),
    ("go", "golang-go"),
    ("g++", "g++"),
    ("java", "openjdk-17-jre-headless"),
    ("javac", "openjdk-17-jdk-headless"),
    ("lldb", "lldb"),
    ("make", "make"),
    ("mount", "mount"),
    ("musl-gcc", "musl-tools"),
    ("node", "nodejs"),
    ("objcopy", "binutils"),
    ("pbzip2", "pbzip2"),
    ("pigz", "pigz"),
    ("python3", "python3"),
    ("readelf", "binutils"),
    ("rsync", "rsync"),
    ("rustc", "rustc"),
    ("script", "bsdutils"),
    ("setfattr", "attr"),
    ("setpriv", "util-linux"),
    ("sqlite3", "sqlite3"),
    ("strace", "strace"),
    ("strip", "binutils"),
    ("tar", "tar"),
    ("unshare", "util-linux"),
    ("xz", "xz-utils"),
];

/// Python modules that tests use. `cargo xtask setup` installs them into [`python_environment`].
pub const PYTHON_MODULES: &[&str] = &["duckdb", "pytest"];

/// Why a machine cannot serve a need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    pub cause: Cause,
    /// The reason, for people.
    pub reason: String,
}

/// Whether the machine lacks something. If so, the running test is reported as skipped.
pub fn is_lacking(need: &str) -> bool {
    let lack = lacking(need);
    if let Some(lack) = &lack {
        report::skip(lack.cause, &lack.reason);
    }
    lack.is_some()
}

/// Why the machine cannot serve a need, or `None` if it can.
///
/// # Panics
/// The need is unknown. A misspelt need must not skip a test.
pub fn lacking(need: &str) -> Option<Lack> {
    if let Some((_, package)) = COMMANDS.iter().find(|(command, _)| *command == need) {
        let lack = || Lack {
            cause: Cause::NotInstalled,
            reason: format!("no {need} (Debian: {package})"),
        };
        return find_command(need).is_none().then(lack);
    }
    if let Some(module) = need.strip_prefix("python:") {
        let reason = format!("no Python module {module} (cargo xtask setup)");
        return python_with(module)
            .is_none()
            .then_some(Lack { cause: Cause::NotInstalled, reason });
    }
    let served = match need {
        "root" => rustix::process::geteuid().is_root(),
        "two cores" => std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1),
        "pty" => fs::File::open("/dev/ptmx").is_ok() && Path::new("/dev/pts/ptmx").exists(),
        "ipv6" => has_ipv6_loopback(),
        "userns" => may("unshare", &["--user", "--pid", "--fork", "true"]),
        "mounts" => may("unshare", &["--mount", "mount", "-t", "tmpfs", "none", "/tmp"]),
        "mqueue" => Path::new("/proc/sys/fs/mqueue").exists(),
        "idle times" => Path::new("/sys/devices/system/cpu/cpu0/cpuidle/state0").exists(),
        "avx2" => std::arch::is_x86_feature_detected!("avx2"),
        "rdrand" => has_instructions(&["rdrand", "rdseed"]),
        "avx512f" => has_instructions(&["avx512f"]),
        "rdpid" => has_instructions(&["rdpid"]),
        "xattr" => has_user_attributes(),
        "leases" => has_leases(),
        _ => panic!("no test may need {need:?}: crates/testing/src/needs.rs does not know it"),
    };
    let lack = || Lack { cause: Cause::Machine, reason: format!("this machine has no {need}") };
    (!served).then(lack)
}

/// Whether the processor has all these features, according to the kernel.
fn has_instructions(names: &[&str]) -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    names.iter().all(|name| flags.split(' ').any(|flag| flag == *name))
}

/// Whether leases work where the tests' files are. They do not on overlayfs and network file
/// systems.
fn has_leases() -> bool {
    const LOCAL: [u64; 6] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0xca45_1a4e];
    let folder = python_environment();
    let existing = folder.ancestors().find(|folder| folder.exists());
    let about = existing.and_then(|folder| rustix::fs::statfs(folder).ok());
    about.is_some_and(|about| LOCAL.contains(&(about.f_type as u64)))
}

/// The search path for commands. Servers are often in folders that an ordinary user's path lacks.
pub fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}

/// The path of a command. The absolute path of a file is returned unchanged.
pub fn find_command(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The folder of the tests' Python environment.
pub fn python_environment() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    target.join("test-python")
}

/// A Python that has a module: in the tests' environment, or else the system's.
pub fn python_with(module: &str) -> Option<PathBuf> {
    let pythons = [python_environment().join("bin/python3"), PathBuf::from("python3")];
    pythons
        .into_iter()
        .find(|python| succeeds(Command::new(python).args(["-c", &format!("import {module}")])))
}

fn has_ipv6_loopback() -> bool {
    const LOOPBACK: &str = "00000000000000000000000000000001 ";
    fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| text.contains(LOOPBACK))
}

/// Whether a command succeeds.
fn may(command: &str, arguments: &[&str]) -> bool {
    succeeds(Command::new(command).args(arguments))
}

/// Tries whether the file system keeps `user.` attributes. Nothing tells that.
fn has_user_attributes() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("retake-attribute-{}", std::process::id()));
        let set = || {
            fs::write(&path, "x").ok()?;
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&path, "user.retake", b"1", flags).ok()
        };
        let served = set().is_some();
        let _ = fs::remove_file(&path);
        served
    })
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_looked_for() {
        assert_eq!(lacking("bash"), None);
        assert!(find_command("no-such-command").is_none());
        let lack = lacking("python:no_such_module").unwrap();
        assert_eq!(lack.cause, Cause::NotInstalled);
        assert!(lack.reason.contains("no_such_module"), "{lack:?}");
    }

    #[test]
    #[should_panic(expected = "does not know it")]
    fn a_misspelt_need_is_a_mistake() {
        lacking("gbd");
    }
}
