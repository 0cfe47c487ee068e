//! The process, and what its files export of languages.

use crate::diversion::Changes;
use crate::inferior::Inferior;
use crate::program::Program;
use object::LittleEndian;
use object::elf::{FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, Sym};
use retake_interpreters::{Symbol, java};
use retake_python::Memory;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What the names begin with that say something about a language.
const TELLING: [&str; 6] = [
    "_PyRuntime",
    "Py",
    "gHotSpotVM",
    "v8dbg_",
    "_ZN2v88internal7Isolate2",
    "_ZN2v88internal11interpreter9Bytecodes14",
];

/// What a file exports, by names. Addresses are those in the file.
pub(super) type Exported = Rc<HashMap<String, Symbol>>;

/// What is known of the program.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// What its files export, by their stored paths.
    files: RefCell<HashMap<PathBuf, Exported>>,
    /// The layouts of virtual machines of Java, by where they lie.
    pub(super) machines: RefCell<HashMap<u64, Rc<java::Layout>>>,
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
    /// The files that the process has loaded: what each exports, and the distance of its addresses
    /// from those in the file.
    pub(super) fn exporting(&self) -> Vec<(Exported, u64)> {
        let loaded = self.program.loaded(self.inferior);
        let files = loaded.iter().filter_map(|library| {
            let file = self.inferior.text.original_at(library.dynamic)?;
            Some((self.known.exported(&file), library.bias))
        });
        files.filter(|(exported, _)| !exported.is_empty()).collect()
    }
}

impl Known {
    fn exported(&self, file: &Path) -> Exported {
        let mut files = self.files.borrow_mut();
        if let Some(known) = files.get(file) {
            return Rc::clone(known);
        }
        let found = std::fs::read(file).ok().and_then(|elf| exported(&elf));
        let found = Rc::new(found.unwrap_or_default());
        files.insert(file.to_owned(), Rc::clone(&found));
        found
    }
}

/// What a file exports of languages.
fn exported(elf: &[u8]) -> Option<HashMap<String, Symbol>> {
    let sections = FileHeader64::<LittleEndian>::parse(elf).ok()?;
    let sections = sections.sections(LittleEndian, elf).ok()?;
    let table = sections.symbols(LittleEndian, elf, SHT_DYNSYM).ok()?;
    let defined = table.iter().filter(|symbol| symbol.st_value(LittleEndian) != 0);
    let telling = defined.filter_map(|one| {
        let name = str::from_utf8(one.name(LittleEndian, table.strings()).ok()?).ok()?;
        let is_telling = TELLING.iter().any(|begin| name.starts_with(begin));
        let (at, bytes) = (one.st_value(LittleEndian), one.st_size(LittleEndian));
        is_telling.then(|| (name.to_owned(), Symbol { at, bytes }))
    });
    Some(telling.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_elf_file_exports_nothing() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 64]] {
            assert_eq!(exported(bytes), None);
        }
    }

    #[test]
    fn a_program_without_languages_exports_nothing_of_them() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(exported(&own), Some(HashMap::new()));
    }
}
