//! The threads of Python.
//!
//! The file that contains the interpreter is found by a symbol that every build exports, and so is
//! its version. The rest is read from memory: see `retake_python`.

use super::process::Scripts;
use retake_interpreters::Symbol;
use retake_python::{Interpreter, Memory, PythonError, Stack, Version};
use std::collections::HashMap;

/// The interpreter's state.
const RUNTIME: &str = "_PyRuntime";
/// The version as a number, in the interpreters that have it.
const VERSION: &str = "Py_Version";
/// Functions for extensions, and the version that added them, the newest first.
const ADDED: [(&str, Version); 3] = [
    ("PyModule_AddObjectRef", Version(10)),
    ("PyFrame_GetCode", Version(9)),
    ("PyCode_NewWithPosOnlyArgs", Version(8)),
];
/// The version of an interpreter that has none of these functions.
const OLDER: Version = Version(7);

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
        self.exporting().into_iter().find_map(|(exported, bias)| {
            let runtime = exported.get(RUNTIME)?;
            let version = match exported.get(VERSION) {
                Some(version) => self.version_at(bias.wrapping_add(version.at))?,
                None => version_by_added(&exported),
            };
            Some((bias.wrapping_add(runtime.at), version))
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

fn version_by_added(exported: &HashMap<String, Symbol>) -> Version {
    let added = ADDED.iter().find(|(name, _)| exported.contains_key(*name));
    added.map_or(OLDER, |(_, version)| *version)
}
