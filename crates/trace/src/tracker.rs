//! Tracks the state of each process: descriptors and what they refer to, working directory, umask.
//! It comes from the process's start and its calls.

use crate::descriptors::{self, Descriptor, O_CLOEXEC, Table};
use crate::observation::Observation;
use retake_model::table::number;
use retake_model::table::{self, ArgumentKind, DescriptorEffect, Row, Shape, ValueType};
use retake_trace_format::{
    BufferDirection, DescriptorKind, ProcessStart, StartDescriptor, StartKind, TraceRecord,
    TracedCall,
};
use std::collections::HashMap;

const AT_FDCWD: i32 = -100;
const O_DIRECTORY: u32 = 0o200_000;
/// Includes the bit of `O_DIRECTORY`.
const O_TMPFILE: u32 = 0o20_200_000;

const CHDIR: u32 = number::CHDIR as u32;
const FCHDIR: u32 = number::FCHDIR as u32;
const UMASK: u32 = number::UMASK as u32;
const CHROOT: u32 = number::CHROOT as u32;

/// One process.
#[derive(Debug, Clone)]
struct Process {
    /// The state at the start, updated by later calls.
    start: ProcessStart,
    descriptors: Table<StartDescriptor>,
}

/// Tracks all processes of a trace.
#[derive(Debug, Default)]
pub struct Tracker {
    processes: HashMap<u32, Process>,
}

impl Tracker {
    /// Follows an observation. Fills in the state that a new process has from its parent.
    pub fn follow(&mut self, observation: &mut Observation) {
        match observation {
            Observation::Record(TraceRecord::ProcessStart(start)) => self.begin(start),
            Observation::Record(TraceRecord::Call(call))
                if !call.failed() && call.returned_ns != 0 =>
            {
                self.call(call)
            }
            _ => {}
        }
    }

    /// Returns a tracker of only one process, for looking ahead.
    pub(crate) fn of_process(&self, process: u32) -> Self {
        let known = self.processes.get(&process).map(|known| (process, known.clone()));
        Self { processes: known.into_iter().collect() }
    }

    /// Returns the name of what a descriptor of a process refers to.
    pub fn descriptor_path(&self, process: u32, descriptor: i32) -> Option<&[u8]> {
        let process = self.processes.get(&process)?;
        if descriptor == AT_FDCWD {
            return Some(&process.start.working_directory);
        }
        let number = u32::try_from(descriptor).ok()?;
        process.descriptors.get(&number).map(|descriptor| descriptor.path.as_slice())
    }

    /// Returns the name by which a descriptor of a process was opened, if it was opened by name.
    pub(crate) fn opened_path(&self, process: u32, descriptor: i32) -> Option<&[u8]> {
        let descriptors = &self.processes.get(&process)?.descriptors;
        let descriptor = descriptors.get(&u32::try_from(descriptor).ok()?)?;
        (descriptor.flags & O_TMPFILE != O_TMPFILE).then_some(descriptor.path.as_slice())
    }

    /// Returns the absolute forms of the paths that a call names.
    pub(crate) fn named_paths(&self, call: &TracedCall) -> Vec<Vec<u8>> {
        let Some(row) = row_of(call) else { return Vec::new() };
        (0..row.arguments.len()).filter_map(|index| self.path(call, row, index)).collect()
    }

    /// Returns the absolute forms of the paths that a call names, and the paths of its descriptors.
    pub fn paths_of(&self, call: &TracedCall) -> Vec<Vec<u8>> {
        let Some(row) = row_of(call) else { return Vec::new() };
        let mut paths = Vec::new();
        for (index, argument) in row.arguments.iter().enumerate() {
            match &argument.kind {
                ArgumentKind::Value(ValueType::Descriptor | ValueType::DirectoryDescriptor) => {
                    paths.extend(
                        self.descriptor_path(call.process, call.arguments[index] as i32)
                            .map(<[u8]>::to_vec),
                    );
                }
                ArgumentKind::Pointer(pointer) if pointer.shape == Shape::String => {
                    paths.extend(self.path(call, row, index))
                }
                _ => {}
            }
        }
        paths
    }

    /// Returns the kinds of the descriptors that a call gets or makes, as far as they are known.
    pub fn descriptor_kinds_of(&self, call: &TracedCall) -> Vec<DescriptorKind> {
        let (Some(row), Some(process)) = (row_of(call), self.processes.get(&call.process)) else {
            return Vec::new();
        };
        let mut kinds = Vec::new();
        for (index, argument) in row.arguments.iter().enumerate() {
            if matches!(
                argument.kind,
                ArgumentKind::Value(ValueType::Descriptor | ValueType::DirectoryDescriptor)
            ) {
                let descriptor = u32::try_from(call.arguments[index] as i32)
                    .ok()
                    .and_then(|number| process.descriptors.get(&number));
                kinds.extend(descriptor.map(kind_of));
            }
        }
        if matches!(row.descriptors, DescriptorEffect::Makes | DescriptorEffect::MakesPair)
            && !call.failed()
        {
            let path = self.first_path(call, row);
            kinds.push(kind_of(&made(call, row, path.as_deref())));
        }
        kinds
    }

    fn begin(&mut self, start: &mut ProcessStart) {
        if start.how == StartKind::Fork
            && start.working_directory.is_empty()
            && let Some(parent) = self.processes.get(&start.parent)
        {
            let parent_start = parent.start.clone();
            let descriptors = parent.descriptors.values().cloned().collect();
            let ProcessStart { id, time_ns, process, thread, parent, how, .. } = *start;
            *start = ProcessStart {
                id,
                time_ns,
                process,
                thread,
                parent,
                how,
                descriptors,
                ..parent_start
            };
        }
        if start.how == StartKind::Exec
            && start.working_directory.is_empty()
            && let Some(before) = self.processes.get(&start.process)
        {
            let stays = |descriptor: &&StartDescriptor| !descriptor.closes_on_exec();
            let descriptors = before.descriptors.values().filter(stays).cloned().collect();
            let ProcessStart { id, time_ns, process, thread, how, .. } = *start;
            let (executable, arguments) =
                (std::mem::take(&mut start.executable), std::mem::take(&mut start.arguments));
            *start = ProcessStart {
                id,
                time_ns,
                process,
                thread,
                how,
                descriptors,
                executable,
                arguments,
                ..before.start.clone()
            };
        }
        let descriptors = start
            .descriptors
            .iter()
            .map(|descriptor| (descriptor.number, descriptor.clone()))
            .collect();
        self.processes.insert(start.process, Process { start: start.clone(), descriptors });
    }

    fn call(&mut self, call: &TracedCall) {
        let Some(row) = row_of(call) else { return };
        let path = self.first_path(call, row);
        let to_descriptor =
            || self.descriptor_path(call.process, call.arguments[0] as i32).map(<[u8]>::to_vec);
        let directory = if call.number == FCHDIR { to_descriptor() } else { path.clone() };
        let Some(process) = self.processes.get_mut(&call.process) else { return };
        match call.number {
            CHDIR | FCHDIR => process.start.working_directory = directory.unwrap_or_default(),
            CHROOT => process.start.root = directory.unwrap_or_default(),
            UMASK => process.start.umask = call.arguments[0] as u32 & 0o777,
            _ => {}
        }
        descriptors::change(&mut process.descriptors, call, row, |_| {
            Some(made(call, row, path.as_deref()))
        });
    }

    fn first_path(&self, call: &TracedCall, row: &Row) -> Option<Vec<u8>> {
        row.arguments.iter().position(is_path).and_then(|index| self.path(call, row, index))
    }

    /// Returns the absolute form of a path argument. It is relative to the descriptor before it, or
    /// to the working directory.
    fn path(&self, call: &TracedCall, row: &Row, index: usize) -> Option<Vec<u8>> {
        if !is_path(row.arguments.get(index)?) {
            return None;
        }
        let buffer = call.buffers_of(index as u8, BufferDirection::Input).next()?;
        let path = buffer.data.strip_suffix(&[0]).unwrap_or(&buffer.data);
        let before = index.checked_sub(1).map(|before| &row.arguments[before].kind);
        let directory = match before {
            Some(ArgumentKind::Value(ValueType::DirectoryDescriptor)) => {
                call.arguments[index - 1] as i32
            }
            _ => AT_FDCWD,
        };
        Some(absolute(self.descriptor_path(call.process, directory).unwrap_or_default(), path))
    }
}

impl Descriptor for StartDescriptor {
    fn closes_on_exec(&self) -> bool {
        self.flags & O_CLOEXEC != 0
    }

    fn set_closes_on_exec(&mut self, closes: bool) {
        self.flags = self.flags & !O_CLOEXEC | if closes { O_CLOEXEC } else { 0 };
    }

    fn renumber(&mut self, number: u32) {
        self.number = number;
    }
}

/// Returns the descriptor that a call has made.
fn made(call: &TracedCall, row: &Row, path: Option<&[u8]>) -> StartDescriptor {
    let name = u16::try_from(call.number).ok().and_then(table::call).map_or("", |row| row.name);
    let (path, kind) = match (path, name) {
        (Some(path), _) if name.starts_with("open") || name == "creat" => {
            (path.to_vec(), DescriptorKind::Unknown)
        }
        (_, "pipe" | "pipe2") => (b"pipe".to_vec(), DescriptorKind::Pipe),
        (_, "socket" | "socketpair" | "accept" | "accept4") => {
            (b"socket".to_vec(), DescriptorKind::Socket)
        }
        (_, name) => {
            let what = name
                .trim_end_matches(|last: char| last.is_ascii_digit())
                .trim_end_matches("_create")
                .trim_end_matches("_init");
            (format!("anon_inode:[{what}]").into_bytes(), DescriptorKind::Anonymous)
        }
    };
    StartDescriptor { number: 0, path, kind, offset: 0, flags: descriptors::open_flags(call, row) }
}

/// Returns the kind of a descriptor. For files opened by name it is guessed from the name and the
/// flags.
fn kind_of(descriptor: &StartDescriptor) -> DescriptorKind {
    match descriptor.kind {
        DescriptorKind::Unknown if descriptor.flags & O_DIRECTORY != 0 => DescriptorKind::Directory,
        DescriptorKind::Unknown
            if descriptor.path.starts_with(b"/dev/")
                && !descriptor.path.starts_with(b"/dev/shm/") =>
        {
            DescriptorKind::CharacterDevice
        }
        DescriptorKind::Unknown => DescriptorKind::File,
        known => known,
    }
}

fn is_path(argument: &table::Argument) -> bool {
    matches!(&argument.kind, ArgumentKind::Pointer(pointer) if pointer.shape == Shape::String &&
        pointer.element == "path")
}

fn row_of(call: &TracedCall) -> Option<&'static Row> {
    let row = table::call(u16::try_from(call.number).ok()?)?;
    Some(row.resolve(&call.arguments).0)
}

/// Joins `path` to `directory` unless it begins with a slash. Removes `.`, `..` and empty parts.
pub(crate) fn absolute(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let from = if path.first() == Some(&b'/') { &[][..] } else { directory };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in from.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut whole = Vec::new();
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    if whole.is_empty() { b"/".to_vec() } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_trace_format::TracedBuffer;

    fn follow(
        tracker: &mut Tracker,
        name: &str,
        arguments: &[u64],
        result: i64,
        buffers: Vec<TracedBuffer>,
    ) {
        let number = u32::from(table::call_by_name(name).unwrap().number);
        let mut call = TracedCall {
            process: 1,
            number,
            result,
            returned_ns: 1,
            buffers,
            ..TracedCall::default()
        };
        call.arguments[..arguments.len()].copy_from_slice(arguments);
        tracker.follow(&mut Observation::Record(TraceRecord::Call(call)));
    }

    fn text(argument: u8, text: &[u8]) -> Vec<TracedBuffer> {
        vec![TracedBuffer {
            argument,
            direction: BufferDirection::Input,
            address: 9,
            total_bytes: text.len() as u64,
            data: text.into(),
        }]
    }

    #[test]
    fn descriptors_are_followed() {
        let mut tracker = Tracker::default();
        let mut start =
            crate::state::of_process(std::process::id() as i32, StartKind::Exec).unwrap();
        (start.process, start.working_directory) = (1, b"/home".to_vec());
        tracker.follow(&mut Observation::Record(TraceRecord::ProcessStart(Box::new(start))));
        let at = AT_FDCWD as u32 as u64;
        follow(&mut tracker, "openat", &[at, 9, 0, 0], 50, text(1, b"x/../data"));
        assert_eq!(tracker.descriptor_path(1, 50), Some(&b"/home/data"[..]));
        follow(&mut tracker, "dup2", &[50, 51], 51, Vec::new());
        follow(&mut tracker, "close", &[50], 0, Vec::new());
        assert_eq!(
            (tracker.descriptor_path(1, 50), tracker.descriptor_path(1, 51)),
            (None, Some(&b"/home/data"[..]))
        );
        follow(&mut tracker, "chdir", &[9], 0, text(0, b"/tmp/"));
        assert_eq!(tracker.descriptor_path(1, AT_FDCWD), Some(&b"/tmp"[..]));
        follow(&mut tracker, "openat", &[at, 9, 0, 0], -2, text(1, b"none"));
        assert_eq!(tracker.descriptor_path(1, -2), None);
    }

    #[test]
    fn paths_are_made_absolute() {
        let cases = [
            ("/a", "b", "/a/b"),
            ("/a", "/c/./d//e", "/c/d/e"),
            ("/a/b", "../../..", "/"),
            ("", "x", "/x"),
        ];
        for (directory, path, whole) in cases {
            assert_eq!(absolute(directory.as_bytes(), path.as_bytes()), whole.as_bytes());
        }
    }
}
