//! The requirements of recording. Each is tried out or looked up on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use retake_kernel::segment::SegmentCount;
use retake_kernel::{confinement, cpuid, maps, probe, shared};
use retake_recording::Location;
use retake_supervisor::{NEEDED_SEGMENTS, Options, Session, SessionError, this_processor};
use rustix::fs::{Access, access, statvfs};
use serde::Serialize;

use crate::failure::how_to_keep_elsewhere;
use crate::gdb;
use crate::machine;
use crate::text;

/// The oldest kernel that has all features that recording uses.
const GOOD_KERNEL: (u32, u32) = (6, 7);
/// The oldest kernel on which a program can dispatch its system calls to itself.
const OLDEST_KERNEL: (u32, u32) = (5, 11);
/// Below this much free space, the check reports a limit.
const LITTLE_SPACE_BYTES: u64 = 1 << 30;
/// Below this much free space, nothing can be recorded.
const NO_SPACE_BYTES: u64 = 1 << 24;
/// The number of segments that recordings of large programs may need at the same time.
const ENOUGH_SEGMENTS: u64 = 1024;
const ENOUGH_THREADS: u64 = 1024;
/// The bytes that a session's fixed segments and a few rings take.
const ENOUGH_SEGMENT_BYTES: u64 = 128 << 20;

/// The result of one check.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The name of the check.
    pub name: &'static str,
    /// Whether recording is possible.
    pub state: State,
    /// What the check found.
    pub detail: String,
    /// The command that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// What the result means for recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing is missing.
    Ok,
    /// Recording works, but something is slower or impossible.
    Limited,
    /// Recording is impossible.
    Missing,
}

impl Check {
    fn new(name: &'static str, state: State, detail: impl Into<String>) -> Self {
        Self { name, state, detail: detail.into(), mend: None }
    }

    fn mend(self, command: impl Into<String>) -> Self {
        Self { mend: Some(command.into()), ..self }
    }
}

/// Runs all checks. It must be called before any thread is started, because one check forks.
pub fn all() -> Vec<Check> {
    vec![
        kernel(),
        dispatch(),
        tracing(),
        shared_memory(),
        shared_memory_limits(),
        session(),
        vdso(),
        cpuid_faulting(),
        seccomp(),
        confinement(),
        disk(),
        debugger(),
        tracing_in_kernel(),
    ]
}

fn kernel() -> Check {
    let release = machine::kernel_release();
    let detail = format!("Linux {release}");
    let check = |state, detail| Check::new("kernel", state, detail);
    match version_of(&release) {
        Some(version) if version >= GOOD_KERNEL => check(State::Ok, detail),
        Some(version) if version >= OLDEST_KERNEL => {
            check(State::Limited, format!("{detail}, older than 6.7: comparing memory is slow"))
        }
        Some(_) => {
            check(State::Missing, format!("{detail}, older than 5.11: a newer kernel is needed"))
        }
        None => check(State::Limited, format!("unknown version {release:?}")),
    }
}

/// Parses the first two numbers of a release: `6.18.5-arch1` gives (6, 18).
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn dispatch() -> Check {
    match probe::syscall_user_dispatch() {
        Ok(()) => Check::new("system-call dispatch", State::Ok, "available"),
        Err(error) => Check::new(
            "system-call dispatch",
            State::Missing,
            format!("the kernel or a filter refuses it: {error}"),
        )
        .mend(
            "a kernel with CONFIG_GENERIC_ENTRY; in a container --security-opt seccomp=unconfined",
        ),
    }
}

fn tracing() -> Check {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = scope.map_or("no yama".to_owned(), |text| format!("ptrace_scope {}", text.trim()));
    match probe::tracing() {
        Ok(()) => Check::new("tracing of children", State::Ok, format!("allowed ({scope})")),
        Err(error) => Check::new(
            "tracing of children",
            State::Missing,
            format!("forbidden ({scope}): {error}"),
        )
        .mend("sudo sysctl -w kernel.yama.ptrace_scope=1; in a container --cap-add SYS_PTRACE"),
    }
}

fn shared_memory() -> Check {
    match probe::executable_shared_memory() {
        Ok(()) => Check::new("shared memory", State::Ok, "System V, executable"),
        Err(error) => Check::new(
            "shared memory",
            State::Missing,
            format!(
                "System V shared memory \
        cannot be attached executable: {error}"
            ),
        )
        .mend(
            "a kernel with CONFIG_SYSVIPC; in a container --ipc=private --security-opt \
            seccomp=unconfined",
        ),
    }
}

fn shared_memory_limits() -> Check {
    let limit = |name: &str| {
        let text = fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let check = |state, detail| Check::new("shared memory limits", state, detail);
    let (Some(bytes), Some(pages), Some(segments)) =
        (limit("shmmax"), limit("shmall"), limit("shmmni"))
    else {
        return check(State::Limited, "/proc/sys/kernel does not show the limits".to_owned());
    };
    let all_bytes = pages.saturating_mul(4096);
    let rings = all_bytes / (shared::SMALL_RING_BYTES + shared::RING_SLACK) as u64;
    let threads = rings.min(shared::MAX_SLOTS as u64);
    let used = SegmentCount::now().map_or(0, |count| count.used);
    let free = segments.saturating_sub(used);
    let detail = format!(
        "room for {threads} threads at a time; {used} of {segments} segments (kernel.shmmni) in use"
    );
    if bytes.min(all_bytes) < ENOUGH_SEGMENT_BYTES {
        return check(State::Missing, "segments are too small".to_owned()).mend(
            "sudo sysctl -w kernel.shmmax=18446744073692774399 kernel.shmall=18446744073692774399",
        );
    }
    if free < NEEDED_SEGMENTS {
        return check(State::Missing, detail).mend("sudo sysctl -w kernel.shmmni=4096");
    }
    if free < ENOUGH_SEGMENTS || threads < ENOUGH_THREADS {
        return check(State::Limited, detail)
            .mend("sudo sysctl -w kernel.shmmni=4096 kernel.shmall=18446744073692774399");
    }
    check(State::Ok, detail)
}

/// Checks that everything that a recording needs before its program runs can be set up.
fn session() -> Check {
    let check = |state, detail| Check::new("session", state, detail);
    match Session::create(shared::MODE_RECORD, Options::default(), &this_processor(), None) {
        Ok(_) => check(State::Ok, "can be set up".to_owned()),
        Err(SessionError::SharedMemory(error)) => {
            check(State::Missing, format!("no shared memory: {error}"))
        }
        Err(SessionError::Recorded) => {
            check(State::Missing, "this process is itself being recorded".to_owned())
                .mend("running retake outside of a recording")
        }
        Err(error @ SessionError::FewSegments { .. }) => {
            let error = error.to_string();
            check(State::Missing, error.lines().next().unwrap_or_default().to_owned())
                .mend("sudo sysctl -w kernel.shmmni=4096")
        }
        Err(error @ (SessionError::Vdso(_) | SessionError::Processor(_))) => {
            let error = error.to_string();
            let first_line = error.lines().next().unwrap_or_default();
            check(State::Missing, first_line.to_owned())
                .mend("booting with vdso=1, or reporting the kernel version")
        }
    }
}

fn vdso() -> Check {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mappings = maps::of_process(own).unwrap_or_default();
    let found = mappings.iter().find(|mapping| mapping.name == "[vdso]");
    match found {
        Some(mapping) => Check::new(
            "vDSO",
            State::Ok,
            format!("{} bytes", mapping.end.saturating_sub(mapping.start)),
        ),
        None => {
            Check::new("vDSO", State::Missing, "processes have none").mend("booting with vdso=1")
        }
    }
}

fn cpuid_faulting() -> Check {
    if cpuid::can_fault() {
        Check::new("CPUID faulting", State::Ok, "available")
    } else {
        Check::new(
            "CPUID faulting",
            State::Limited,
            "not on this processor: CPUID in code made at run time is not recorded",
        )
    }
}

fn seccomp() -> Check {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map_or("", str::trim);
    let check = |state, detail| Check::new("seccomp", state, detail);
    match mode {
        "0" => check(State::Ok, "no filter".to_owned()),
        "" => check(State::Limited, "unknown".to_owned()),
        mode => check(
            State::Limited,
            format!("a filter is active (mode {mode}); calls it forbids fail in recordings, too"),
        )
        .mend("in a container --security-opt seccomp=unconfined, if recording fails"),
    }
}

/// Checks what only replay needs.
fn confinement() -> Check {
    let check = |state, detail| Check::new("confinement of replay", state, detail);
    match (confinement::is_available(), confinement::landlock_version()) {
        (Err(error), _) => check(
            State::Missing,
            format!("no filter can report system calls: {error}; replay is not possible"),
        )
        .mend(
            "a kernel with CONFIG_SECCOMP_FILTER; in a container --security-opt seccomp=unconfined",
        ),
        (Ok(()), 0) => check(State::Limited, "filters of system calls, but no Landlock".to_owned())
            .mend("booting with lsm=landlock,… on a kernel with CONFIG_SECURITY_LANDLOCK"),
        (Ok(()), version) => {
            check(State::Ok, format!("filters of system calls, Landlock version {version}"))
        }
    }
}

fn disk() -> Check {
    let check = |state, detail| Check::new("disk", state, detail);
    let location = match Location::from_environment() {
        Ok(location) => location,
        Err(error) => {
            return check(State::Missing, error.to_string()).mend(how_to_keep_elsewhere());
        }
    };
    let folder = existing_ancestor(&location.recordings);
    let shown = location.recordings.display();
    if !folder.is_dir() {
        let detail = format!("{shown} cannot be made: {} is not a folder", folder.display());
        return check(State::Missing, detail).mend(how_to_keep_elsewhere());
    }
    if let Err(error) = access(&folder, Access::WRITE_OK | Access::EXEC_OK) {
        return check(State::Missing, format!("{shown} cannot be written: {error}"))
            .mend(how_to_keep_elsewhere());
    }
    let free = match statvfs(&folder) {
        Ok(system) => system.f_bavail.saturating_mul(system.f_frsize),
        Err(error) => {
            return check(State::Limited, format!("{shown}: free space unknown: {error}"));
        }
    };
    let detail = format!("{} free for {shown}", text::bytes(free));
    match free {
        0..NO_SPACE_BYTES => {
            check(State::Missing, detail).mend("retake rm RECORDING, or RETAKE_DIR on another disk")
        }
        NO_SPACE_BYTES..LITTLE_SPACE_BYTES => check(State::Limited, detail),
        _ => check(State::Ok, detail),
    }
}

/// The folder itself, or its nearest ancestor that exists, which may be a file.
fn existing_ancestor(folder: &Path) -> PathBuf {
    let there = folder.ancestors().find(|ancestor| ancestor.exists());
    there.unwrap_or(Path::new("/")).to_path_buf()
}

fn debugger() -> Check {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("gdb"))
        .find(|candidate| candidate.is_file());
    let trouble = match found {
        Some(path) => match gdb::trouble(&path) {
            None => return Check::new("gdb", State::Ok, path.display().to_string()),
            Some(trouble) => trouble,
        },
        None => "not found".to_owned(),
    };
    Check::new("gdb", State::Limited, format!("{trouble}; only debugging needs it"))
        .mend("sudo apt-get install gdb, or your system's way to install it")
}

/// Checks what only `retake trace --method ebpf` needs.
fn tracing_in_kernel() -> Check {
    let name = "tracing in the kernel";
    let error = match retake_trace::ebpf::check() {
        Ok(()) => return Check::new(name, State::Ok, "eBPF programs can be loaded"),
        Err(error) => error.to_string(),
    };
    let mut lines = error.lines();
    let reason = lines.next().unwrap_or_default().to_owned();
    let check =
        Check::new(name, State::Limited, format!("{reason}; only trace --method ebpf needs it"));
    match lines.find_map(|line| line.trim().strip_prefix("try")) {
        Some(way) => check.mend(way.trim()),
        None => check,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kernels() {
        let cases = [
            ("6.18.5-arch1", Some((6, 18))),
            ("5.4.0", Some((5, 4))),
            ("6.7", Some((6, 7))),
            ("6", None),
            ("", None),
        ];
        for (release, version) in cases {
            assert_eq!(version_of(release), version, "{release}");
        }
        assert!((10, 0) >= GOOD_KERNEL && (6, 6) < GOOD_KERNEL);
    }

    #[test]
    fn a_folder_that_is_not_there_has_one_above_it() {
        assert_eq!(existing_ancestor(Path::new("/no/such/folder")), Path::new("/"));
        assert_eq!(existing_ancestor(Path::new("/dev/null/folder")), Path::new("/dev/null"));
    }
}
