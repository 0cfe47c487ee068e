//! The threads of an interpreter, their frames, and the variables of a frame.

use crate::layout::{
    FrameFields, IS_ENTRY, Layout, Newest, OWNED_BY_C, PythonError, Raised, Version,
};
use crate::lines;
use crate::memory::{Memory, Reader};
use crate::object::{Kind, Objects};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

const MOST_INTERPRETERS: usize = 4;
const MOST_THREADS: usize = 4096;
const MOST_FRAMES: usize = 2048;
/// The most frames whose variables are shown. Values take most of the time.
const MOST_WITH_VALUES: usize = 256;
const MOST_VARIABLES: u64 = 128;
/// The most variables of a module that are shown.
const MOST_OF_MODULE: usize = 48;
/// What a module's variables refer to, mostly: nobody wants to see these as values.
const PARTS: [&str; 5] = ["module", "function", "builtin_function_or_method", "type", "_Feature"];

/// The state of Python in a process.
pub struct Interpreter<'a> {
    reader: Reader<'a>,
    runtime: u64,
    layout: Layout,
}

/// What a thread does in Python.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Its entries to the interpreter, the innermost first.
    pub entries: Vec<Entry>,
    /// The exception that is on its way, until it is caught.
    pub raised: Option<Exception>,
}

/// An exception.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exception {
    /// Its type, and what it was made with: `KeyError('name')`.
    pub text: String,
    /// Whether no frame has a part in its traceback yet.
    pub is_new: bool,
}

/// The frames that one native call evaluates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// An address in the native frame of that call, if the version has one there.
    pub stack: Option<u64>,
    /// The frames, the innermost first.
    pub frames: Vec<Frame>,
}

/// A call of a function, or a module or class body that is executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The function's name. Since 3.11 it has the names of classes before it.
    pub function: String,
    /// The path of the script, as Python knows it.
    pub file: String,
    /// The line, if the instruction belongs to one.
    pub line: Option<u32>,
    /// The arguments.
    pub arguments: Vec<Variable>,
    /// The other variables.
    pub locals: Vec<Variable>,
    /// Where the frame keeps its place in the function. This changes with every instruction.
    pub place: u64,
    /// The size of that, in bytes.
    pub place_bytes: u64,
}

/// A variable and its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value as Python shows it, cut where it is long.
    pub value: String,
}

impl<'a> Interpreter<'a> {
    /// The interpreter of a version whose symbol `_PyRuntime` has this address.
    ///
    /// # Errors
    /// The layout of this interpreter is not known.
    pub fn new(
        memory: &'a dyn Memory,
        runtime: u64,
        version: Version,
    ) -> Result<Self, PythonError> {
        let reader = Reader(memory);
        Ok(Self { reader, runtime, layout: Layout::of(reader, runtime, version)? })
    }

    fn objects(&self) -> Objects<'_> {
        Objects { reader: self.reader, layout: &self.layout }
    }

    /// What the thread with this thread pointer does. The entries to several interpreters follow
    /// each other, the newest interpreter first.
    pub fn stack(&self, pointer: u64) -> Stack {
        let is_its =
            |state: &u64| self.reader.word(*state, self.layout.thread_pointer) == Some(pointer);
        let states = self.threads().into_iter().filter(is_its);
        let states: Vec<u64> = states.take(MOST_INTERPRETERS).collect();
        Stack {
            entries: states.iter().flat_map(|state| self.entries_of(*state)).collect(),
            raised: states.iter().find_map(|state| self.raised(*state)),
        }
    }

    /// The exception that is on its way in a thread.
    fn raised(&self, thread: u64) -> Option<Exception> {
        let (reader, objects) = (self.reader, self.objects());
        match self.layout.raised {
            Raised::Object(at) => {
                const TRACEBACK: u64 = 40;
                let exception = reader.pointer(thread, at)?;
                let is_new = reader.word(exception, TRACEBACK)? == 0;
                Some(Exception { text: objects.shown(exception), is_new })
            }
            Raised::Parts(at) => {
                let its_type = objects.name_of_type(reader.pointer(thread, at)?)?;
                let is_new = reader.word(thread, at + 16)? == 0;
                let value = reader.pointer(thread, at + 8);
                let text = objects.raised(&its_type, value);
                Some(Exception { text, is_new })
            }
        }
    }

    /// The states of all threads.
    fn threads(&self) -> Vec<u64> {
        let (reader, layout) = (self.reader, &self.layout);
        let first = reader.pointer(self.runtime, layout.interpreters);
        let interpreters = self.chain(first, layout.next_interpreter, MOST_INTERPRETERS);
        let threads = interpreters.into_iter().flat_map(|interpreter| {
            let first = reader.pointer(interpreter, layout.threads);
            self.chain(first, layout.next_thread, MOST_THREADS)
        });
        threads.take(MOST_THREADS).collect()
    }

    /// The addresses in a list, until it ends or comes back to one of them.
    fn chain(&self, first: Option<u64>, next: u64, most: usize) -> Vec<u64> {
        let (mut found, mut known) = (Vec::new(), HashSet::new());
        let mut here = first;
        while let Some(at) = here.filter(|at| found.len() < most && known.insert(*at)) {
            found.push(at);
            here = self.reader.pointer(at, next);
        }
        found
    }

    fn entries_of(&self, thread: u64) -> Vec<Entry> {
        let reader = self.reader;
        let (newest, stacks) = match self.layout.newest {
            Newest::Object { at, entries } => {
                let stacks = entries.map_or_else(Vec::new, |(first, next)| {
                    self.stacks(reader.pointer(thread, first), next)
                });
                (reader.pointer(thread, at), stacks)
            }
            Newest::Entry { at, frame, next } => {
                let entry = reader.pointer(thread, at);
                (entry.and_then(|entry| reader.pointer(entry, frame)), self.stacks(entry, next))
            }
            Newest::Shims { at, frame } => {
                let entry = reader.pointer(thread, at);
                (entry.and_then(|entry| reader.pointer(entry, frame)), Vec::new())
            }
            Newest::Frame { at } => (reader.pointer(thread, at), Vec::new()),
        };
        let mut entries = self.by_entries(newest);
        // At the beginning of a call there may be one more than there are frames.
        for (entry, stack) in entries.iter_mut().rev().zip(stacks.iter().rev()) {
            entry.stack = Some(*stack);
        }
        entries.retain(|entry| !entry.frames.is_empty());
        entries
    }

    /// The addresses in a list of entries. The last one belongs to the thread, not to a call.
    fn stacks(&self, first: Option<u64>, next: u64) -> Vec<u64> {
        let mut found = self.chain(first, next, MOST_FRAMES);
        found.pop();
        found
    }

    /// The frames from the newest one, by entries.
    fn by_entries(&self, newest: Option<u64>) -> Vec<Entry> {
        let FrameFields { owner, previous, .. } = self.layout.frame;
        let (mut entries, mut entry) = (Vec::new(), Entry::default());
        let frames = self.chain(newest, previous, MOST_FRAMES);
        for (count, at) in frames.into_iter().enumerate() {
            let is_shim =
                self.layout.version.0 >= 12 && self.reader.byte(at, owner) == Some(OWNED_BY_C);
            let is_last = match self.layout.version.0 {
                ..=10 => true,
                11 => self.reader.byte(at, IS_ENTRY).is_none_or(|is_entry| is_entry != 0),
                _ => is_shim,
            };
            if is_shim {
                entry.stack = Some(at);
            } else {
                entry.frames.extend(self.frame(at, count < MOST_WITH_VALUES));
            }
            if is_last {
                entries.push(std::mem::take(&mut entry));
            }
        }
        entries.push(entry);
        if entries.last().is_some_and(|entry| entry.frames.is_empty()) {
            entries.pop();
        }
        entries
    }

    fn frame(&self, frame: u64, with_values: bool) -> Option<Frame> {
        let (fields, code_fields) = (self.layout.frame, self.layout.code);
        let code = self.reader.pointer(frame, fields.code)?;
        let name = |at| self.objects().name(self.reader.pointer(code, at)?);
        let mut described = Frame {
            function: name(code_fields.name)?,
            file: name(code_fields.file)?,
            line: self.line(frame, code),
            place: frame.wrapping_add(fields.instruction),
            place_bytes: if self.layout.version.0 <= 10 { 4 } else { 8 },
            ..Frame::default()
        };
        if with_values {
            self.add_variables(frame, code, &mut described);
        }
        Some(described)
    }

    fn line(&self, frame: u64, code: u64) -> Option<u32> {
        let (version, fields) = (self.layout.version, self.layout.code);
        let at = self.layout.frame.instruction;
        let offset = match version.0 {
            ..=10 => {
                let index = i64::from(self.reader.half(frame, at)? as i32);
                if version.0 == 10 { index * 2 } else { index }
            }
            _ => {
                let first = code.checked_add(fields.instructions)?;
                self.reader.word(frame, at)?.wrapping_sub(first) as i64
            }
        };
        let first = self.reader.half(code, fields.first_line)? as i32;
        let table = self.objects().bytes(self.reader.pointer(code, fields.lines)?, 1 << 20)?;
        lines::line(version, &table.items, first, offset)?.try_into().ok()
    }

    fn add_variables(&self, frame: u64, code: u64, described: &mut Frame) {
        const HAS_SLOTS: u32 = 1;
        let flags = self.reader.half(code, self.layout.code.flags).unwrap_or_default();
        if flags & HAS_SLOTS == 0 {
            described.locals = self.module_variables(frame).unwrap_or_default();
            return;
        }
        let arguments = self.count_of_arguments(code, flags).unwrap_or_default();
        let names = self.names(code);
        let start = frame.wrapping_add(self.layout.frame.variables);
        let slots = self.reader.words(start, names.len() as u64).unwrap_or_default();
        for (index, (name, slot)) in names.iter().zip(slots).enumerate() {
            let value = self.value(slot);
            let Some((name, value)) = name.clone().zip(value) else { continue };
            let variable = Variable { name, value: self.objects().shown(value) };
            let is_argument = (index as u64) < arguments;
            let list = if is_argument { &mut described.arguments } else { &mut described.locals };
            list.push(variable);
        }
    }

    /// How many of a function's variables are arguments.
    fn count_of_arguments(&self, code: u64, flags: u32) -> Option<u64> {
        const HAS_MORE: u32 = 4;
        const HAS_MORE_BY_NAME: u32 = 8;
        let fields = self.layout.code;
        let by_place = u64::from(self.reader.half(code, fields.arguments)?);
        let by_name = u64::from(self.reader.half(code, fields.keyword_arguments)?);
        let more = u64::from(flags & HAS_MORE != 0) + u64::from(flags & HAS_MORE_BY_NAME != 0);
        Some(by_place + by_name + more)
    }

    /// The names of the variables of a function, in the order of their slots.
    fn names(&self, code: u64) -> Vec<Option<String>> {
        let tuples = self.layout.code.names.into_iter().filter(|at| *at != 0);
        let names = tuples.filter_map(|at| {
            let tuple = self.reader.pointer(code, at)?;
            Some(self.objects().tuple(tuple, MOST_VARIABLES)?.items)
        });
        names.flatten().map(|name| self.objects().name(name)).collect()
    }

    /// What a variable has. Variables that functions share have a cell with the value.
    fn value(&self, slot: u64) -> Option<u64> {
        const VALUE: u64 = 16;
        if slot == 0 {
            return None;
        }
        match self.objects().kind(slot) {
            Some((Kind::Other, name)) if name == "cell" => self.reader.pointer(slot, VALUE),
            _ => Some(slot),
        }
    }

    /// The variables of a module or of a class body, without what is imported and defined.
    fn module_variables(&self, frame: u64) -> Option<Vec<Variable>> {
        let objects = self.objects();
        let names = self.reader.pointer(frame, self.layout.frame.names)?;
        let entries = objects.dictionary(names, usize::MAX)?.items.into_iter();
        let variables = entries.filter_map(|(name, value)| {
            let name = objects.name(name).filter(|name| !name.starts_with("__"))?;
            let (kind, of) = objects.kind(value)?;
            let is_part = kind == Kind::Type || PARTS.contains(&of.as_str());
            (!is_part).then(|| Variable { name, value: objects.shown(value) })
        });
        Some(variables.take(MOST_OF_MODULE).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NEWEST, OLDEST};
    use proptest::prelude::*;

    const START: u64 = 0x10000;

    /// Memory that repeats a few words everywhere.
    struct Repeated(Vec<u64>);

    impl Memory for Repeated {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            retake_testing::repeated::read(&self.0, address, bytes)
        }
    }

    fn look(memory: &Repeated, version: Version) {
        if let Ok(interpreter) = Interpreter::new(memory, START, version) {
            for pointer in &memory.0 {
                interpreter.stack(*pointer);
            }
        }
    }

    #[test]
    fn circles_end() {
        for version in OLDEST.0..=NEWEST.0 {
            look(&Repeated(vec![START]), Version(version));
            look(&Repeated(vec![START, START + 8, START + 24]), Version(version));
        }
    }

    #[test]
    fn other_versions_are_refused() {
        let memory = Repeated(vec![0]);
        let refused = |version| Interpreter::new(&memory, START, Version(version)).err();
        assert_eq!(refused(OLDEST.0 - 1), Some(PythonError::Unknown(OLDEST.0 - 1)));
        assert_eq!(refused(NEWEST.0 + 1), Some(PythonError::Unknown(NEWEST.0 + 1)));
        assert_eq!(refused(13), Some(PythonError::NotDescribed(START)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_memory_ends(
            version in OLDEST.0..=NEWEST.0,
            words in prop::collection::vec(
                prop_oneof![Just(0), 0..64_u64, START..START + 512, any::<u64>()], 1..40),
        ) {
            look(&Repeated(words), Version(version));
        }
    }
}
