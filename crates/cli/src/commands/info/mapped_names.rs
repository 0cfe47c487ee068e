//! Finds the names of mapped files. A recording identifies a mapped file by its content. The name
//! is in an earlier call that opened it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use retake_model::table::number::{
    CHDIR, DUP, DUP2, DUP3, EXECVE, EXECVEAT, MMAP, OPEN, OPENAT, OPENAT2,
};
use retake_model::{CallRef, ContentId, Event, ItemDirection, errno};
use retake_recording::{EventReader, Recording, StreamId, StreamInfo};

use crate::failure::Result;

/// In place of a descriptor, means the process's working directory.
const AT_FDCWD: u32 = (-100_i32) as u32;

/// The files that an exec mapped.
#[derive(Debug)]
pub struct Executed {
    /// The file that the kernel executed.
    pub program: PathBuf,
    /// The program and its dynamic linker.
    pub contents: Vec<ContentId>,
}

/// The names of file contents.
#[derive(Debug, Default)]
pub struct MappedNames {
    names: BTreeMap<ContentId, Option<PathBuf>>,
    /// The files that execs mapped. Their names need a look into the files.
    pub executed: Vec<Executed>,
    /// What each new thread inherits from its parent.
    inherited: HashMap<StreamId, View>,
}

/// A thread's working directory, and the paths of its descriptors.
#[derive(Debug, Default, Clone)]
struct View {
    folder: PathBuf,
    descriptors: HashMap<u32, PathBuf>,
}

/// A program that is being executed, with the number of its arguments.
struct Called {
    path: PathBuf,
    arguments: usize,
}

impl MappedNames {
    /// The contents of all mapped files.
    pub fn contents(&self) -> impl Iterator<Item = ContentId> + '_ {
        self.names.keys().copied()
    }

    /// The name of a content, if known.
    pub fn of(&self, content: ContentId) -> Option<&Path> {
        self.names.get(&content)?.as_deref()
    }

    /// Sets the name of a content that has none yet.
    pub fn note(&mut self, content: ContentId, path: PathBuf) {
        self.names.entry(content).or_default().get_or_insert(path);
    }

    /// Reads the events of a thread, up to the first damage. Parents must be read before their
    /// children.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn read(&mut self, recording: &Recording, info: &StreamInfo) -> Result<()> {
        let metadata = recording.metadata();
        let folder = PathBuf::from(metadata.working_directory.to_string_lossy());
        let first = View { folder, descriptors: HashMap::new() };
        let mut view = self.inherited.remove(&info.id).unwrap_or(first);
        let mut called = info.parent.is_none().then(|| Called {
            path: view.folder.join(metadata.command.to_string_lossy()),
            arguments: metadata.arguments.len(),
        });
        let mut reader = EventReader::new(recording, info.id)?;
        while let Ok(Some(numbered)) = reader.next() {
            let Ok(event) = numbered.event else { continue };
            match event.decode() {
                Event::Call(call) if matches!(call.number(), EXECVE | EXECVEAT) => {
                    called = called_by(&call, &view);
                }
                Event::Call(call) => self.pass(&call, &mut view),
                Event::Exec(exec) => {
                    let mut contents: Vec<ContentId> = exec
                        .mappings()
                        .map(|one| one.content)
                        .filter(|one| !one.is_none())
                        .collect();
                    contents.dedup();
                    for content in &contents {
                        self.names.entry(*content).or_default();
                    }
                    if let Some(called) = called.take() {
                        // The kernel calls a script's interpreter with more arguments: the script's
                        // path is one of them.
                        let (count, name) = arguments_on_stack(&exec);
                        let program = match name {
                            Some(name) if count > called.arguments => view.folder.join(name),
                            _ => called.path,
                        };
                        self.executed.push(Executed { program, contents });
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn pass(&mut self, call: &CallRef<'_>, view: &mut View) {
        if let Some(child) = call.child() {
            self.inherited.insert(child, view.clone());
        }
        if errno::of_result(call.result()).is_some() {
            return;
        }
        let argument = |index| call.argument(index).unwrap_or(0) as u32;
        let made = match call.number() {
            OPEN => path_of(call, 0).map(|path| view.absolute(AT_FDCWD, path)),
            OPENAT | OPENAT2 => path_of(call, 1).map(|path| view.absolute(argument(0), path)),
            DUP | DUP2 | DUP3 => view.descriptors.get(&argument(0)).cloned(),
            CHDIR => {
                if let Some(path) = path_of(call, 0) {
                    view.folder = view.folder.join(path);
                }
                return;
            }
            MMAP => {
                let path = view.descriptors.get(&argument(4));
                for mapping in call.items().filter_map(|item| item.mapping()) {
                    let name = self.names.entry(mapping.content).or_default();
                    *name = name.take().or_else(|| path.cloned());
                }
                return;
            }
            _ => return,
        };
        let descriptor = call.result() as u32;
        match made {
            Some(path) => view.descriptors.insert(descriptor, path),
            None => view.descriptors.remove(&descriptor),
        };
    }
}

impl View {
    fn absolute(&self, descriptor: u32, path: PathBuf) -> PathBuf {
        let folder = match descriptor {
            AT_FDCWD => Some(&self.folder),
            number => self.descriptors.get(&number),
        };
        let path = folder.map_or(path.clone(), |folder| folder.join(&path));
        path.components().collect()
    }
}

fn called_by(call: &CallRef<'_>, view: &View) -> Option<Called> {
    let first = if call.number() == EXECVEAT { 1 } else { 0 };
    let folder = if first == 1 { call.argument(0).unwrap_or(0) as u32 } else { AT_FDCWD };
    let list = call.argument(first + 1);
    // The items contain the array of pointers as well as the strings.
    let arguments = call
        .items_of(first + 1, ItemDirection::Input)
        .filter(|item| Some(item.address()) != list)
        .count();
    Some(Called { path: view.absolute(folder, path_of(call, first)?), arguments })
}

fn path_of(call: &CallRef<'_>, argument: usize) -> Option<PathBuf> {
    let address = call.argument(argument)?;
    let item =
        call.items_of(argument, ItemDirection::Input).find(|item| item.address() == address)?;
    let bytes = item.inline_bytes().split(|byte| *byte == 0).next()?;
    (!bytes.is_empty()).then(|| PathBuf::from(String::from_utf8_lossy(bytes).into_owned()))
}

/// The number of arguments that the kernel gave to a program, and the first argument.
fn arguments_on_stack(exec: &retake_model::exec::ExecRef<'_>) -> (usize, Option<String>) {
    let bytes_at = |address: u64| {
        exec.areas().find_map(|area| {
            let offset = usize::try_from(address.checked_sub(area.address)?).ok()?;
            area.bytes.get(offset..)
        })
    };
    let word = |address| {
        let bytes = bytes_at(address)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let stack = exec.stack_pointer();
    let count = word(stack).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let first = word(stack.wrapping_add(8))
        .and_then(bytes_at)
        .and_then(|bytes| bytes.split(|byte| *byte == 0).next())
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (count, first)
}
