//! What a program may need of the machine, and how its absence is found out.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Why the machine cannot serve a need, or `None` if it can. An unknown need is never served, so that a misspelt
/// one shows.
pub fn lacking(need: &str) -> Option<String> {
    let served = match need {
        "root" => rustix::process::geteuid().is_root(),
        "pty" => fs::File::open("/dev/ptmx").is_ok() && Path::new("/dev/pts/ptmx").exists(),
        "ipv6" => has_ipv6_loopback(),
        "userns" => may_unshare_user(),
        "mqueue" => Path::new("/proc/sys/fs/mqueue").exists(),
        "avx2" => std::arch::is_x86_feature_detected!("avx2"),
        "xattr" => has_user_attributes(),
        _ => return Some(format!("needs {need}, which the driver does not know")),
    };
    (!served).then(|| format!("needs {need}, which this machine does not offer"))
}

fn has_ipv6_loopback() -> bool {
    fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| text.contains("00000000000000000000000000000001 "))
}

fn may_unshare_user() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| succeeds(Command::new("unshare").args(["--user", "--pid", "--fork", "true"])))
}

/// Tries it out: whether a file system keeps `user.` attributes cannot be read anywhere.
fn has_user_attributes() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("attribute-{}", std::process::id()));
        let set = || {
            fs::write(&path, "x").ok()?;
            rustix::fs::setxattr(&path, "user.retake", b"1", rustix::fs::XattrFlags::empty()).ok()
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
