//! `retake info --build-ids`: lists the ELF files that programs mapped. A build id identifies the
//! debug information of exactly that file.

use std::collections::BTreeMap;
use std::fs::File;

use object::read::ReadCache;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{LittleEndian, Object};
use retake_model::ContentId;
use retake_recording::{Recording, StreamKind};
use serde::Serialize;

use super::mapped_names::{Executed, MappedNames};
use crate::failure::{Failure, Result};
use crate::output::{Output, Table};
use crate::scratch::Scratch;
use crate::text;

/// A mapped file with machine code.
#[derive(Debug, Serialize)]
pub struct Built {
    /// Its name while recording; absent if the thread that mapped it had not opened it.
    path: Option<String>,
    /// The build id as hexadecimal text; absent if the file has none.
    build_id: Option<String>,
    /// The hash that identifies the file in the recording.
    content: String,
}

/// The ELF files of a recording, sorted by path. Reads all events.
///
/// # Errors
/// A file cannot be read.
pub fn of(recording: &Recording) -> Result<Vec<Built>> {
    let scratch = Scratch::create()?;
    let mut names = MappedNames::default();
    for stream in recording.streams().filter(|one| one.info.kind != StreamKind::Supervisor) {
        names.read(recording, &stream.info)?;
    }
    let mut files = BTreeMap::new();
    // Missing files are left out; `retake info --verify` reports them.
    for content in names.contents().filter(|content| recording.has_content(*content)) {
        let path = recording.content_path(content, scratch.path())?;
        let file =
            File::open(&path).map_err(|error| Failure::system("open", path.display(), &error))?;
        if let Some(elf) = Elf::of(file) {
            files.insert(content, elf);
        }
    }
    for executed in std::mem::take(&mut names.executed) {
        name_executed(executed, &files, &mut names);
    }
    let mut built: Vec<Built> = files
        .into_iter()
        .map(|(content, elf)| Built {
            path: names.of(content).map(|path| path.to_string_lossy().into_owned()),
            build_id: elf.build_id,
            content: content.to_string(),
        })
        .collect();
    built.sort_by(|one, other| (&one.path, &one.content).cmp(&(&other.path, &other.content)));
    Ok(built)
}

/// Prints the files as a table.
pub fn print(built: &[Built], output: &mut Output) -> Result<()> {
    let mut table = Table::new(&["BUILD ID", "FILE"], &[]);
    for one in built {
        table.row([
            one.build_id.clone().unwrap_or_else(|| "-".to_owned()),
            text::harmless(one.path.as_deref().unwrap_or("?")),
        ]);
    }
    table.print(output)
}

/// Names the files that an exec mapped. The program is the one that names an interpreter, or the
/// only one.
fn name_executed(executed: Executed, files: &BTreeMap<ContentId, Elf>, names: &mut MappedNames) {
    let interpreter = |content: &ContentId| files.get(content)?.interpreter.clone();
    let main = executed.contents.iter().find(|content| interpreter(content).is_some());
    let Some(&main) = main.or(executed.contents.first()) else { return };
    names.note(main, executed.program);
    let others = executed.contents.iter().filter(|content| **content != main);
    if let Some(linker) = interpreter(&main) {
        others.for_each(|content| names.note(*content, linker.clone().into()));
    }
}

/// What an ELF file says about itself.
#[derive(Debug)]
struct Elf {
    build_id: Option<String>,
    /// Its dynamic linker, which the kernel maps with it.
    interpreter: Option<String>,
}

impl Elf {
    /// Returns `None` if the file is no ELF file.
    fn of(file: File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf: ElfFile64<'_, LittleEndian, _> = ElfFile64::parse(&cache).ok()?;
        let id = elf.build_id().ok().flatten();
        let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let interpreter = elf.elf_program_headers().iter().find_map(|header| {
            let bytes = header.interpreter(LittleEndian, elf.data()).ok().flatten()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        });
        Some(Self { build_id: id.map(hexadecimal), interpreter })
    }
}
