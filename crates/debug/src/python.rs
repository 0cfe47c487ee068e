//! The frames of a Python program's threads, wherever the process stands.
//!
//! The file that contains the interpreter is found by a symbol that every build exports, and so is
//! its version. The rest is read from memory: see `retake_python`.

use crate::diversion::Changes;
use crate::inferior::Inferior;
use crate::program::Program;
use object::LittleEndian;
use object::elf::{FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, Sym};
use retake_python::{Interpreter, Memory, PythonError, Stack, Version};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The interpreter's state.
const RUNTIME: &[u8] = b"_PyRuntime";
/// The version as a number, in the interpreters that have it.
const VERSION: &[u8] = b"Py_Version";
/// Functions for extensions, and the version that added them, the newest first.
const ADDED: [(&[u8], Version); 3] = [
    (b"PyModule_AddObjectRef", Version(10)),
    (b"PyFrame_GetCode", Version(9)),
    (b"PyCode_NewWithPosOnlyArgs", Version(8)),
];
/// The version of an interpreter that has none of these functions.
const OLDER: Version = Version(7);

/// What is known of files of the program, by their stored paths.
#[derive(Debug, Default)]
pub(crate) struct Known(RefCell<HashMap<PathBuf, Option<Symbols>>>);

/// Where a file has an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Symbols {
    runtime: u64,
    version: Told,
}

/// How a file tells the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    At(u64),
    Is(Version),
}

/// The process, and the user's view of it.
pub(crate) struct Scripts<'a> {
    pub known: &'a Known,
    pub program: &'a Program,
    pub inferior: &'a Inferior,
    pub changes: &'a Changes,
}

impl Memory for Scripts<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.changes.read(self.inferior, address, bytes) == bytes.len()
    }
}

impl Scripts<'_> {
    /// What a thread does in Python; nothing if it does not run it.
    ///
    /// # Errors
    /// The interpreter is one whose frames are not known.
    pub fn stack(&self, thread: u32) -> Result<Stack, PythonError> {
        let Ok((registers, _)) = self.changes.registers(self.inferior, thread) else {
            return Ok(Stack::default());
        };
        let Some((runtime, version)) = self.interpreter() else { return Ok(Stack::default()) };
        Ok(Interpreter::new(self, runtime, version)?.stack(registers.fs_base))
    }

    /// The address of the interpreter's state, and its version.
    fn interpreter(&self) -> Option<(u64, Version)> {
        let loaded = self.program.loaded(self.inferior);
        loaded.iter().find_map(|library| {
            let file = self.inferior.text.original_at(library.dynamic)?;
            let Symbols { runtime, version } = self.known.symbols(&file)?;
            let version = match version {
                Told::Is(version) => version,
                Told::At(at) => self.version_at(library.bias.wrapping_add(at))?,
            };
            Some((library.bias.wrapping_add(runtime), version))
        })
    }

    fn version_at(&self, address: u64) -> Option<Version> {
        let mut bytes = [0; 4];
        let [_, _, minor, 3] = (self.read(address, &mut bytes)).then_some(bytes)? else {
            return None;
        };
        Some(Version(minor))
    }
}

impl Known {
    fn symbols(&self, file: &Path) -> Option<Symbols> {
        let mut known = self.0.borrow_mut();
        if let Some(known) = known.get(file) {
            return *known;
        }
        let found = std::fs::read(file).ok().and_then(|elf| symbols(&elf));
        known.insert(file.to_owned(), found);
        found
    }
}

/// What a file exports of an interpreter.
fn symbols(elf: &[u8]) -> Option<Symbols> {
    let sections = FileHeader64::<LittleEndian>::parse(elf).ok()?;
    let sections = sections.sections(LittleEndian, elf).ok()?;
    let table = sections.symbols(LittleEndian, elf, SHT_DYNSYM).ok()?;
    let exported = table.iter().filter(|symbol| symbol.st_value(LittleEndian) != 0);
    let names: HashMap<&[u8], u64> = exported
        .filter_map(|one| {
            let name = one.name(LittleEndian, table.strings()).ok()?;
            Some((name, one.st_value(LittleEndian)))
        })
        .collect();
    let added = ADDED.iter().find(|(name, _)| names.contains_key(name));
    let by_added = Told::Is(added.map_or(OLDER, |(_, version)| *version));
    let version = names.get(VERSION).map_or(by_added, |at| Told::At(*at));
    Some(Symbols { runtime: *names.get(RUNTIME)?, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_elf_file_has_no_interpreter() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 64]] {
            assert_eq!(symbols(bytes), None);
        }
    }

    #[test]
    fn a_program_without_python_has_no_interpreter() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(symbols(&own), None);
    }
}
