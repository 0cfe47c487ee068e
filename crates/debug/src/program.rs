//! What a debugger asks about the program: its file, its libraries by name, and its auxiliary
//! vector.

use crate::auxiliary;
use crate::inferior::Inferior;
use object::LittleEndian;
use object::elf::{DT_DEBUG, FileHeader64, PT_DYNAMIC, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use retake_kernel::maps::Mapping;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

const AT_PHDR: u64 = 3;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_SYSINFO_EHDR: u64 = 33;
/// The limit for tags. No program's dynamic section has that many.
const MOST_TAGS: usize = 1 << 20;
const LONGEST_NAME: usize = 4096;
const MOST_LIBRARIES: usize = 4096;

/// The program, as it was executed.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The absolute path in the recording, as far as it is known.
    pub path: String,
    /// The auxiliary vector, as bytes.
    pub auxv: Vec<u8>,
    entries: HashMap<u64, u64>,
    /// The first stack pointer.
    stack: u64,
    /// The bytes of the program's file, read on first use. gdb asks for each library by name.
    main: OnceCell<Vec<u8>>,
}

impl Program {
    /// Describes a process that has executed nothing of the program yet, or was forked from one
    /// that has.
    pub fn of_new(inferior: &Inferior, path: &str) -> Self {
        let (vector, stack) = auxiliary::vector(inferior);
        let words = vector.iter().flat_map(|(key, value)| [*key, *value]);
        Self {
            path: path.to_owned(),
            auxv: words.flat_map(u64::to_le_bytes).collect(),
            entries: vector.into_iter().collect(),
            stack,
            main: OnceCell::new(),
        }
    }

    /// The stored file that the program knew by this name.
    pub fn stored(&self, inferior: &Inferior, name: &str) -> Option<PathBuf> {
        if name == self.path {
            return self.main_file(inferior);
        }
        let main = self.main_bytes(inferior)?;
        if interpreter(main).is_some_and(|interpreter| interpreter == name) {
            return inferior.text.original_at(self.entry(AT_BASE)?);
        }
        let libraries = self.libraries(inferior, main);
        let library = libraries
            .iter()
            .find(|library| library.name == name)
            .or_else(|| same_file_name(&libraries, name))?;
        inferior.text.original_at(library.dynamic)
    }

    /// The stored files that the program has loaded, with the program's names for them.
    pub fn names(&self, inferior: &Inferior) -> HashMap<PathBuf, String> {
        let Some(main) = self.main_file(inferior) else { return HashMap::new() };
        let bytes = self.main_bytes(inferior).unwrap_or_default();
        let libraries = self.libraries(inferior, bytes);
        let named = libraries.into_iter().filter(|library| library.name.starts_with('/'));
        let mut names: HashMap<_, _> = named
            .filter_map(|one| Some((inferior.text.original_at(one.dynamic)?, one.name)))
            .collect();
        let linker = self.entry(AT_BASE).and_then(|base| inferior.text.original_at(base));
        names.extend(linker.zip(interpreter(bytes)));
        names.insert(main, self.path.clone());
        names
    }

    /// The stored file of the program itself.
    pub fn main_file(&self, inferior: &Inferior) -> Option<PathBuf> {
        inferior.text.original_at(self.entry(AT_ENTRY)?)
    }

    fn main_bytes(&self, inferior: &Inferior) -> Option<&[u8]> {
        if self.main.get().is_none() {
            let bytes = head_of(&self.main_file(inferior)?).ok()?;
            self.main.get_or_init(|| bytes);
        }
        self.main.get().map(Vec::as_slice)
    }

    /// The files that the dynamic linker has loaded, the program itself first.
    pub fn loaded(&self, inferior: &Inferior) -> Vec<Library> {
        let main = self.main_bytes(inferior);
        main.map_or_else(Vec::new, |main| self.libraries(inferior, main))
    }

    /// Where the dynamic linker stops for debuggers, and the address of the state that it writes
    /// before. `None` if there is no linker yet, or it has several such places.
    pub fn linker_stop(&self, inferior: &Inferior) -> Option<(u64, u64)> {
        const STOP: u64 = 16;
        const ONE_LIST: u64 = 1;
        let state = self.linker_state(inferior, self.main_bytes(inferior)?)?;
        let has_one_list = inferior.process.memory.word(state)? & u64::from(u32::MAX) == ONE_LIST;
        has_one_list
            .then(|| inferior.process.memory.word(state + STOP))
            .flatten()
            .map(|stop| (stop, state))
    }

    /// Where the dynamic linker keeps its data for debuggers.
    fn linker_state(&self, inferior: &Inferior, main: &[u8]) -> Option<u64> {
        let mut dynamic = dynamic_section(main, self.entry(AT_PHDR)?)?;
        for _ in 0..MOST_TAGS {
            match inferior.process.memory.word(dynamic)? {
                0 => break,
                tag if tag == DT_DEBUG as u64 => {
                    return inferior.process.memory.word(dynamic + 8).filter(|state| *state != 0);
                }
                _ => dynamic += 16,
            }
        }
        None
    }

    /// The kernel's name for the purpose of a mapping without a file.
    pub fn role(&self, mapping: &Mapping) -> Option<&'static str> {
        let has = |address: u64| (mapping.start..mapping.end).contains(&address);
        match self.entry(AT_SYSINFO_EHDR) {
            _ if has(self.stack) => Some("[stack]"),
            Some(vdso) if has(vdso) => Some("[vdso]"),
            _ => None,
        }
    }

    fn entry(&self, key: u64) -> Option<u64> {
        self.entries.get(&key).copied().filter(|value| *value != 0)
    }

    /// The files in the dynamic linker's own list.
    fn libraries(&self, inferior: &Inferior, main: &[u8]) -> Vec<Library> {
        let process = &inferior.process;
        let mut libraries = Vec::new();
        let mut next =
            self.linker_state(inferior, main).and_then(|state| process.memory.word(state + 8));
        while let Some(at) = next.filter(|at| *at != 0) {
            let (Some(name), Some(dynamic)) =
                (process.memory.word(at + 8), process.memory.word(at + 16))
            else {
                break;
            };
            let bias = process.memory.word(at).unwrap_or(0);
            libraries.push(Library { name: text(inferior, name), dynamic, link_map: at, bias });
            next = process.memory.word(at + 24);
            if libraries.len() >= MOST_LIBRARIES {
                break;
            }
        }
        libraries
    }
}

/// The part of an ELF file that has its program headers. Files may be large.
fn head_of(path: &Path) -> io::Result<Vec<u8>> {
    const HEAD_BYTES: u64 = 64 << 10;
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// A loaded file in the dynamic linker's list.
#[derive(Debug)]
pub(crate) struct Library {
    name: String,
    /// The address of its dynamic section, which is in memory that shows the file.
    pub dynamic: u64,
    /// The address of its entry in the list.
    pub link_map: u64,
    /// The distance from the addresses in the file.
    pub bias: u64,
}

/// Finds a library by the last part of its path: debuggers look for libraries in several folders.
fn same_file_name<'a>(libraries: &'a [Library], name: &str) -> Option<&'a Library> {
    let wanted = Path::new(name).file_name()?;
    libraries.iter().find(|library| Path::new(&library.name).file_name() == Some(wanted))
}

fn text(inferior: &Inferior, address: u64) -> String {
    let mut bytes = vec![0; LONGEST_NAME];
    let count = inferior.process.memory.read(address, &mut bytes);
    let end = bytes[..count].iter().position(|byte| *byte == 0).unwrap_or(count);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn interpreter(elf: &[u8]) -> Option<String> {
    let header = FileHeader64::<LittleEndian>::parse(elf).ok()?;
    let segments = header.program_headers(LittleEndian, elf).ok()?;
    let segment = segments.iter().find(|segment| segment.p_type(LittleEndian) == PT_INTERP)?;
    let name = segment.data(LittleEndian, elf).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned())
}

/// The address of the dynamic section of the program whose program headers are at `headers`.
fn dynamic_section(elf: &[u8], headers: u64) -> Option<u64> {
    let header = FileHeader64::<LittleEndian>::parse(elf).ok()?;
    let segments = header.program_headers(LittleEndian, elf).ok()?;
    let first = segments.iter().find(|segment| {
        segment.p_type(LittleEndian) == PT_LOAD && segment.p_offset(LittleEndian) == 0
    })?;
    let bias = headers
        .wrapping_sub(header.e_phoff.get(LittleEndian))
        .wrapping_sub(first.p_vaddr(LittleEndian));
    let dynamic = segments.iter().find(|segment| segment.p_type(LittleEndian) == PT_DYNAMIC)?;
    Some(dynamic.p_vaddr(LittleEndian).wrapping_add(bias))
}
