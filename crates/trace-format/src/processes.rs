//! The state of each process while a trace is written: its ids, its working directory, and what its
//! descriptors refer to.
//!
//! The state comes from the calls themselves. With it every record can name its parent process and
//! the absolute path it is about. Nothing depends on it: unknown values are null. To bound memory,
//! the state of all processes is dropped when it gets too large.

use std::collections::HashMap;

use retake_model::table::{self, ArgumentKind, CallRow, DescriptorEffect, Shape, ValueType};

use crate::{BufferDirection, ProcessStart, StartKind, TracedCall};

/// The most memory for states: bytes of paths, and 64 bytes for each entry.
const REMEMBERED_BYTES: usize = 32 << 20;
/// The size that an entry counts besides its path.
const ENTRY_BYTES: usize = 64;
const AT_FDCWD: i32 = -100;
const CLONE_FILES: u64 = 0x400;
const CLONE_THREAD: u64 = 0x1_0000;

/// One process.
#[derive(Debug, Clone, Default)]
pub struct Process {
    pub parent: Option<u32>,
    pub session: Option<u32>,
    pub group: Option<u32>,
    pub uid: Option<u32>,
    working_directory: Option<Vec<u8>>,
    paths: HashMap<i32, Vec<u8>>,
}

/// All processes of a trace.
#[derive(Debug, Default)]
pub struct Processes {
    processes: HashMap<u32, Process>,
    bytes: usize,
}

impl Processes {
    /// Returns the state of a process, if it is known.
    pub fn get(&self, process: u32) -> Option<&Process> {
        self.processes.get(&process)
    }

    /// Takes the state of a process from its start.
    pub fn start(&mut self, start: &ProcessStart) {
        let known = |id: u32| Some(id).filter(|id| *id != 0);
        let mut process = Process {
            parent: Some(start.parent),
            session: known(start.session),
            group: known(start.process_group),
            uid: Some(start.credentials.uid),
            working_directory: Some(start.working_directory.clone()),
            paths: HashMap::new(),
        };
        if start.how == StartKind::Exec
            && let Some(before) = self.processes.get(&start.process)
        {
            process.session = process.session.or(before.session);
            process.group = process.group.or(before.group);
        }
        let files = start.descriptors.iter().filter(|descriptor| descriptor.path.starts_with(b"/"));
        process.paths =
            files.map(|descriptor| (descriptor.number as i32, descriptor.path.clone())).collect();
        self.insert(start.process, process);
    }

    fn insert(&mut self, id: u32, process: Process) {
        let bytes = process.paths.values().map(|path| path.len() + ENTRY_BYTES).sum::<usize>()
            + ENTRY_BYTES;
        self.remember(bytes);
        self.processes.insert(id, process);
    }

    /// Accounts for memory. Drops the states of all processes when they take too much.
    fn remember(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes > REMEMBERED_BYTES {
            self.processes.clear();
            self.bytes = bytes;
        }
    }

    /// Notes what a call changed.
    pub fn update(&mut self, call: &TracedCall) {
        if call.failed() {
            return;
        }
        let Some(row) = u16::try_from(call.number).ok().and_then(table::call) else { return };
        match row.name {
            "fork" | "vfork" => self.fork(call, 0),
            "clone" => self.fork(call, call.arguments[0]),
            "clone3" => self.fork(call, clone3_flags(call)),
            "exit_group" => {
                self.processes.remove(&call.process);
            }
            "chdir" => {
                let path = self.full_path(call, None, 0);
                self.change(call.process, |process| process.working_directory = path);
            }
            "fchdir" => {
                let path = self
                    .descriptor_path(call.process, call.arguments[0] as i32)
                    .map(<[u8]>::to_vec);
                self.change(call.process, |process| process.working_directory = path);
            }
            "chroot" | "pivot_root" | "setns" => self.change(call.process, |process| {
                process.working_directory = None;
                process.paths.clear();
            }),
            "setsid" => {
                let id = call.result as u32;
                self.change(call.process, |process| {
                    (process.session, process.group) = (Some(id), Some(id))
                });
            }
            "setpgid" => self.set_group(call),
            "setuid" | "setreuid" | "setresuid" => {
                self.change(call.process, |process| process.uid = None)
            }
            _ => self.update_descriptors(call, row),
        }
    }

    fn change(&mut self, id: u32, change: impl FnOnce(&mut Process)) {
        if let Some(process) = self.processes.get_mut(&id) {
            change(process);
        }
    }

    fn set_group(&mut self, call: &TracedCall) {
        let process = Some(call.arguments[0] as u32).filter(|id| *id != 0).unwrap_or(call.process);
        let group = Some(call.arguments[1] as u32).filter(|id| *id != 0).unwrap_or(process);
        self.change(process, |process| process.group = Some(group));
    }

    fn fork(&mut self, call: &TracedCall, flags: u64) {
        let Ok(child) = u32::try_from(call.result) else { return };
        if child == 0 || flags & CLONE_THREAD != 0 {
            return;
        }
        let Some(parent) = self.processes.get(&call.process) else { return };
        let mut process = parent.clone();
        process.parent = Some(call.process);
        // With shared descriptors the paths of the child start empty and stay so: later changes by
        // its parent would be missing.
        if flags & CLONE_FILES != 0 {
            process.paths.clear();
        }
        self.insert(child, process);
    }

    fn update_descriptors(&mut self, call: &TracedCall, row: &'static CallRow) {
        let (row, _) = row.resolve(&call.arguments);
        let first = call.arguments[0] as i32;
        match row.descriptors {
            DescriptorEffect::Makes => {
                let path = opened_path(row)
                    .and_then(|(directory, path)| self.full_path(call, directory, path));
                self.set_path(call.process, call.result as i32, path);
            }
            DescriptorEffect::Dups => {
                let path = self.descriptor_path(call.process, first).map(<[u8]>::to_vec);
                self.set_path(call.process, call.result as i32, path);
            }
            DescriptorEffect::DupsOnto => {
                let path = self.descriptor_path(call.process, first).map(<[u8]>::to_vec);
                self.set_path(call.process, call.arguments[1] as i32, path);
            }
            DescriptorEffect::Closes => self.set_path(call.process, first, None),
            DescriptorEffect::ClosesRange => {
                let range = call.arguments[0] as u32..=call.arguments[1] as u32;
                self.change(call.process, |process| {
                    process.paths.retain(|number, _| !range.contains(&(*number as u32)))
                });
            }
            DescriptorEffect::MakesPair
            | DescriptorEffect::Receives
            | DescriptorEffect::Unchanged => {}
        }
    }

    fn set_path(&mut self, id: u32, descriptor: i32, path: Option<Vec<u8>>) {
        let bytes = path.as_ref().map_or(0, |path| path.len() + ENTRY_BYTES);
        self.remember(bytes);
        let Some(process) = self.processes.get_mut(&id) else { return };
        let old = match path {
            Some(path) => process.paths.insert(descriptor, path),
            None => process.paths.remove(&descriptor),
        };
        let freed = old.map_or(0, |path| path.len() + ENTRY_BYTES);
        self.bytes = self.bytes.saturating_sub(freed);
    }

    fn descriptor_path(&self, id: u32, descriptor: i32) -> Option<&[u8]> {
        self.get(id)?.paths.get(&descriptor).map(Vec::as_slice)
    }

    /// Returns the absolute path that a string argument of a call means. `directory` is the
    /// argument with the descriptor of the directory that the path is relative to.
    pub fn full_path(&self, call: &TracedCall, directory: Option<u8>, path: u8) -> Option<Vec<u8>> {
        let given = call
            .buffers_of(path, BufferDirection::Input)
            .find(|buffer| buffer.data.len() as u64 == buffer.total_bytes)?;
        let given = given.data.as_slice();
        if given.is_empty() {
            return None;
        }
        if given.first() == Some(&b'/') {
            return Some(given.to_vec());
        }
        let process = self.get(call.process)?;
        let descriptor =
            directory.map_or(AT_FDCWD, |argument| call.arguments[usize::from(argument)] as i32);
        let base = match descriptor {
            AT_FDCWD => process.working_directory.as_ref()?,
            descriptor => process.paths.get(&descriptor)?,
        };
        Some(join(base, given))
    }
}

/// Joins `base` and `given` with one slash. A leading `./` of `given` is dropped.
fn join(base: &[u8], given: &[u8]) -> Vec<u8> {
    let mut given = given;
    while let Some(rest) = given.strip_prefix(b"./") {
        given = rest;
    }
    let mut path = base.to_vec();
    if given.is_empty() || given == b"." {
        return path;
    }
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(given);
    path
}

/// Returns two arguments of a call that opens a path: the directory, and the path.
fn opened_path(row: &table::Row) -> Option<(Option<u8>, u8)> {
    let is_path = |argument: &table::Argument| {
        matches!(&argument.kind,
        ArgumentKind::Pointer(pointer) if pointer.shape == Shape::String &&
        pointer.element == "path")
    };
    let path = row.arguments.iter().position(is_path)?;
    let before = path.checked_sub(1);
    let directory = before.filter(|index| {
        matches!(row.arguments[*index].kind, ArgumentKind::Value(ValueType::DirectoryDescriptor))
    });
    Some((directory.map(|index| index as u8), path as u8))
}

fn clone3_flags(call: &TracedCall) -> u64 {
    let buffer = call.buffers_of(0, BufferDirection::Input).next();
    buffer
        .and_then(|buffer| buffer.data.first_chunk())
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn paths_are_joined_but_not_resolved() {
        for (base, given, expected) in [
            ("/a", "b", "/a/b"),
            ("/", "b", "/b"),
            ("/a", "./b", "/a/b"),
            ("/a", ".", "/a"),
            ("/a", "./", "/a"),
            ("/a", "../b", "/a/../b"),
        ] {
            assert_eq!(
                join(base.as_bytes(), given.as_bytes()),
                expected.as_bytes(),
                "{base} {given}"
            );
        }
    }
}
