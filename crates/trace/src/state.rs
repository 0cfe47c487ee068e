//! The state that a process starts with, read from `/proc` while the process is stopped.

use retake_kernel::clock;
use retake_model::EventKind;
use retake_recording::ByteText;
use retake_trace_format::{
    Credentials, DescriptorKind, ProcessStart, ResourceLimit, StartDescriptor, StartKind,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The kinds of STATE events, in their `number`.
pub(crate) mod kind {
    /// The state that a process starts with.
    pub const START: u16 = 0;
    /// Pages that were read through a mapping.
    pub const PAGES_READ: u16 = 1;
    /// Pages that were written through a mapping.
    pub const PAGES_WRITTEN: u16 = 2;
    /// Data that the next call moves.
    pub const MOVED: u16 = 3;
}

/// The number of resource limits of x86-64 Linux.
const LIMITS: u32 = 16;

/// Reads the state of a process.
///
/// # Errors
/// The process is gone, or we may not look at it.
pub(crate) fn of_process(pid: i32, how: StartKind) -> io::Result<ProcessStart> {
    let folder = format!("/proc/{pid}");
    let status = fs::read_to_string(format!("{folder}/status"))?;
    let numbers = |name: &str| numbers(&status, name, 10);
    let uids = numbers("Uid:");
    let gids = numbers("Gid:");
    let id = |ids: &[u32], index: usize| ids.get(index).copied().unwrap_or(0);
    let stat = retake_kernel::process::stat_fields(pid);
    let field = |index: usize| {
        stat.get(index).and_then(|field| field.parse::<i64>().ok()).unwrap_or(0) as u32
    };
    Ok(ProcessStart {
        id: 0,
        time_ns: clock::real_time_ns()?,
        process: id(&numbers("Tgid:"), 0),
        thread: pid as u32,
        parent: field(1),
        session: field(3),
        process_group: field(2),
        how,
        working_directory: link(&format!("{folder}/cwd")),
        root: link(&format!("{folder}/root")),
        umask: self::numbers(&status, "Umask:", 8).first().copied().unwrap_or(0),
        descriptors: descriptors(&folder),
        limits: limits(pid),
        credentials: Credentials {
            uid: id(&uids, 0),
            effective_uid: id(&uids, 1),
            saved_uid: id(&uids, 2),
            filesystem_uid: id(&uids, 3),
            gid: id(&gids, 0),
            effective_gid: id(&gids, 1),
            saved_gid: id(&gids, 2),
            filesystem_gid: id(&gids, 3),
            groups: numbers("Groups:"),
        },
        executable: link(&format!("{folder}/exe")),
        arguments: arguments(&folder),
    })
}

fn numbers(status: &str, name: &str, radix: u32) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_ascii_whitespace()
        .filter_map(|number| u32::from_str_radix(number, radix).ok())
        .collect()
}

fn link(path: &str) -> Vec<u8> {
    fs::read_link(path).map(|target| target.into_os_string().into_vec()).unwrap_or_default()
}

fn arguments(folder: &str) -> Vec<Vec<u8>> {
    let mut text = fs::read(format!("{folder}/cmdline")).unwrap_or_default();
    if text.pop().is_none() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

fn limits(pid: i32) -> Vec<ResourceLimit> {
    let of = |resource| {
        retake_kernel::resource::limit(pid, resource).map(|(soft, hard)| ResourceLimit {
            resource,
            soft,
            hard,
        })
    };
    (0..LIMITS).filter_map(of).collect()
}

fn descriptors(folder: &str) -> Vec<StartDescriptor> {
    let entries = fs::read_dir(format!("{folder}/fd")).into_iter().flatten().flatten();
    let numbers: BTreeSet<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.into_iter().map(|number| descriptor(folder, number)).collect()
}

fn descriptor(folder: &str, number: u32) -> StartDescriptor {
    let path = format!("{folder}/fd/{number}");
    let info = fs::read_to_string(format!("{folder}/fdinfo/{number}")).unwrap_or_default();
    let target = link(&path);
    let kind = kind_of(&path, &target);
    let (offset, flags) =
        (field(&info, "pos:", 10).unwrap_or(0), field(&info, "flags:", 8).unwrap_or(0));
    StartDescriptor { number, path: target, kind, offset, flags: flags as u32 }
}

/// Reads a number of `/proc/PID/fdinfo`.
fn field(info: &str, name: &str, radix: u32) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(line.trim(), radix).ok()
}

/// Returns the position in an open file of a process.
pub(crate) fn position(pid: i32, descriptor: i32) -> Option<u64> {
    field(&fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?, "pos:", 10)
}

/// Returns the kind of a descriptor. `target` is the target of its link.
fn kind_of(path: &str, target: &[u8]) -> DescriptorKind {
    if target.starts_with(b"anon_inode:") {
        return DescriptorKind::Anonymous;
    }
    let Ok(metadata) = fs::metadata(Path::new(path)) else { return DescriptorKind::Unknown };
    let file_type = metadata.file_type();
    match () {
        () if file_type.is_file() => DescriptorKind::File,
        () if file_type.is_dir() => DescriptorKind::Directory,
        () if file_type.is_char_device() => DescriptorKind::CharacterDevice,
        () if file_type.is_block_device() => DescriptorKind::BlockDevice,
        () if file_type.is_fifo() => DescriptorKind::Pipe,
        () if file_type.is_socket() => DescriptorKind::Socket,
        () if file_type.is_symlink() => DescriptorKind::SymbolicLink,
        () => DescriptorKind::Unknown,
    }
}

// ---- as the text of a STATE event ----

#[derive(Serialize, Deserialize)]
struct Text {
    /// Whether the process was already running when tracing began.
    #[serde(default)]
    attached: bool,
    time_ns: u64,
    process: u32,
    parent: u32,
    session: u32,
    process_group: u32,
    working_directory: ByteText,
    root: ByteText,
    umask: u32,
    descriptors: Vec<(u32, ByteText, u8, u64, u32)>,
    limits: Vec<(u32, u64, u64)>,
    users: [u32; 4],
    groups: [u32; 4],
    more_groups: Vec<u32>,
    executable: ByteText,
    arguments: Vec<ByteText>,
}

const KINDS: [DescriptorKind; 9] = [
    DescriptorKind::Unknown,
    DescriptorKind::File,
    DescriptorKind::Directory,
    DescriptorKind::CharacterDevice,
    DescriptorKind::BlockDevice,
    DescriptorKind::Pipe,
    DescriptorKind::Socket,
    DescriptorKind::SymbolicLink,
    DescriptorKind::Anonymous,
];

/// Makes the STATE event of a start.
pub(crate) fn to_event(start: &ProcessStart) -> Vec<u8> {
    let kind =
        |kind: DescriptorKind| KINDS.iter().position(|other| *other == kind).unwrap_or(0) as u8;
    let credentials = &start.credentials;
    let text = Text {
        attached: start.how == StartKind::Attach,
        time_ns: start.time_ns,
        process: start.process,
        parent: start.parent,
        session: start.session,
        process_group: start.process_group,
        working_directory: ByteText(start.working_directory.clone()),
        root: ByteText(start.root.clone()),
        umask: start.umask,
        descriptors: start
            .descriptors
            .iter()
            .map(|d| (d.number, ByteText(d.path.clone()), kind(d.kind), d.offset, d.flags))
            .collect(),
        limits: start.limits.iter().map(|limit| (limit.resource, limit.soft, limit.hard)).collect(),
        users: [
            credentials.uid,
            credentials.effective_uid,
            credentials.saved_uid,
            credentials.filesystem_uid,
        ],
        groups: [
            credentials.gid,
            credentials.effective_gid,
            credentials.saved_gid,
            credentials.filesystem_gid,
        ],
        more_groups: credentials.groups.clone(),
        executable: ByteText(start.executable.clone()),
        arguments: start.arguments.iter().cloned().map(ByteText).collect(),
    };
    event(kind::START, &serde_json::to_vec(&text).expect("keys are strings"))
}

/// Makes a STATE event.
pub(crate) fn event(number: u16, body: &[u8]) -> Vec<u8> {
    let size = 16 + body.len().next_multiple_of(8);
    let mut bytes = Vec::with_capacity(size);
    bytes.extend((size as u32).to_le_bytes());
    bytes.extend([EventKind::State as u8, 0]);
    bytes.extend(number.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes.resize(size, 0);
    bytes
}

/// Reads the body of a STATE event. `None` if [`to_event`] did not write it.
pub(crate) fn from_event(body: &[u8]) -> Option<ProcessStart> {
    let end = body.iter().rposition(|byte| *byte != 0)? + 1;
    let text: Text = serde_json::from_slice(&body[..end]).ok()?;
    let [uid, effective_uid, saved_uid, filesystem_uid] = text.users;
    let [gid, effective_gid, saved_gid, filesystem_gid] = text.groups;
    let groups = text.more_groups;
    let descriptor =
        |(number, path, kind, offset, flags): (u32, ByteText, u8, u64, u32)| StartDescriptor {
            number,
            path: path.0,
            kind: KINDS.get(usize::from(kind)).copied().unwrap_or(DescriptorKind::Unknown),
            offset,
            flags,
        };
    Some(ProcessStart {
        id: 0,
        time_ns: text.time_ns,
        process: text.process,
        thread: text.process,
        parent: text.parent,
        session: text.session,
        process_group: text.process_group,
        how: if text.attached { StartKind::Attach } else { StartKind::Exec },
        working_directory: text.working_directory.0,
        root: text.root.0,
        umask: text.umask,
        descriptors: text.descriptors.into_iter().map(descriptor).collect(),
        limits: text
            .limits
            .into_iter()
            .map(|(resource, soft, hard)| ResourceLimit { resource, soft, hard })
            .collect(),
        credentials: Credentials {
            uid,
            effective_uid,
            saved_uid,
            filesystem_uid,
            gid,
            effective_gid,
            saved_gid,
            filesystem_gid,
            groups,
        },
        executable: text.executable.0,
        arguments: text.arguments.into_iter().map(|argument| argument.0).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::{Event, parse_event};

    #[test]
    fn our_own_state_survives_the_way_there_and_back() {
        let own = std::process::id() as i32;
        for how in [StartKind::Exec, StartKind::Attach] {
            there_and_back(of_process(own, how).unwrap());
        }
        assert!(from_event(b"nonsense").is_none());
    }

    #[test]
    fn descriptors_are_in_order() {
        let folder = std::env::temp_dir().join(format!("retake-state-{}", std::process::id()));
        fs::create_dir_all(folder.join("fd")).unwrap();
        for number in [7, 1, 30, 0, 12, 5, 19, 4] {
            std::os::unix::fs::symlink("/", folder.join(format!("fd/{number}"))).unwrap();
        }
        let found = descriptors(folder.to_str().unwrap());
        fs::remove_dir_all(&folder).unwrap();
        let numbers: Vec<u32> = found.iter().map(|found| found.number).collect();
        assert_eq!(numbers, [0, 1, 4, 5, 7, 12, 19, 30]);
    }

    fn there_and_back(start: ProcessStart) {
        assert_eq!(start.process, std::process::id());
        assert!(
            start.descriptors.len() >= 3
                && start.limits.len() == 16
                && !start.working_directory.is_empty()
        );
        let bytes = to_event(&start);
        let (event, _) = parse_event(&bytes).unwrap();
        let Event::State { text } = event.decode() else { panic!("a STATE event") };
        assert_eq!(from_event(text).unwrap(), start);
    }
}
