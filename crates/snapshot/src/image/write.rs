//! Writes an image from a copy of the process, which stays unchanged.

use super::description::{ADDRESS_END, Description, SavedMapping, ScratchFile, Shown};
use super::filters::Filters;
use super::pages::own_pages;
use super::pieces::{kind, put_json};
use super::shared::{SharedMemory, at};
use super::spool::Spool;
use super::{ImageError, Result};
use crate::pagemap::PAGE_BYTES;
use crate::runtime::in_runtime;
use crate::slots::address_of_shared_domain;
use crate::snapshot::Snapshot;
use crate::threads::Threads;
use retake_kernel::maps::{self, Mapping, Nature};
use retake_kernel::shared::{Header, OPTION_ALONE, RUNTIME_END, WINDOWS};
use retake_kernel::{context, memory, resource};
use retake_recording::{CheckpointWriter, ContentId, MAX_PIECE_BYTES, PieceName};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// The largest mapping of a file that is saved as a whole if the recording has not stored the file.
const MOST_UNSTORED_BYTES: u64 = 64 << 20;
const PAGE: usize = PAGE_BYTES as usize;
const ZEROS: [u8; PAGE] = [0; PAGE];

/// An image that can be written.
pub struct Image {
    description: Description,
    memory: PrivateMemory,
    /// The pages with contents of their own.
    pages: Vec<OwnPages>,
    scratch: Scratch,
}

/// Where the contents of private memory are.
enum PrivateMemory {
    /// In a process that does not run.
    Process(i32),
    Spool(Spool),
}

/// Where the contents of the files are that the process changes.
#[derive(Debug)]
enum Scratch {
    Folder(PathBuf),
    Memory(SharedMemory),
    /// In the image of another process.
    Elsewhere,
}

/// A range of a mapping.
struct OwnPages {
    range: Range<u64>,
    /// Whether zeros would be there without these pages.
    over_zeros: bool,
}

/// How to identify the files that a process has mapped.
pub(super) enum Files<'a> {
    /// In a replay, by their names: content hashes, and copies in this folder.
    Replayed(&'a Path),
    /// While recording.
    Recorded(&'a Known<'a>),
}

/// What is known while recording.
pub struct Known<'a> {
    /// Returns the content that a mapping shows, if the recording has it.
    pub content: &'a dyn Fn(&Mapping) -> Option<ContentId>,
    /// The memory that the process shares.
    pub shared: &'a SharedMemory,
    /// Whether the process goes on, and is not a copy.
    pub goes_on: bool,
}

fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(ImageError::Refused(why.into()))
}

impl Image {
    /// Makes an image of a copy of the process. `announced` is the signal that the runtime
    /// announced at this place, and `scratch` the folder for copies of shared files.
    ///
    /// # Errors
    /// `Refused` if the process has something that another session could not make again.
    pub fn of(
        snapshot: &Snapshot,
        announced: Option<i32>,
        header: &Header,
        scratch: &Path,
    ) -> Result<Self> {
        let (pid, threads) = (snapshot.pid, &snapshot.threads);
        check_domains(pid, threads.contexts(), header)?;
        let mut image = Self::with(pid, threads, header, &Files::Replayed(scratch))?;
        image.description.announced = announced;
        Ok(image)
    }

    pub(super) fn with(
        pid: i32,
        threads: &Threads,
        header: &Header,
        files: &Files<'_>,
    ) -> Result<Self> {
        let (mappings, scratch_files) = mappings_of(pid, files)?;
        let mut pages = Vec::new();
        for (mapping, is_whole) in mappings.iter().filter(|(mapping, _)| mapping.is_private()) {
            let over_zeros = matches!(mapping.shows, Shown::Nothing { .. });
            let own =
                if *is_whole { vec![mapping.range()] } else { own_pages(pid, mapping.range())? };
            pages.extend(own.into_iter().map(|range| OwnPages { range, over_zeros }));
        }
        let mappings = mappings.into_iter().map(|(mapping, _)| mapping).collect();
        let stack_limit = resource::stack_limit(pid);
        let (filters, numbers) = Filters::of(header, &threads.filters());
        let threads = threads.clone().with_filters(&numbers);
        let description = Description {
            threads,
            filters,
            announced: None,
            stack_limit,
            mappings,
            scratch: scratch_files,
            scratch_is_elsewhere: false,
            is_as_recorded: false,
        };
        let scratch = match files {
            Files::Replayed(folder) => Scratch::Folder(folder.to_path_buf()),
            Files::Recorded(known) => Scratch::Memory(known.shared.clone()),
        };
        Ok(Self { description, memory: PrivateMemory::Process(pid), pages, scratch })
    }

    /// Reads the memory, so that the process may go on. `changes`: what replay is to find in place
    /// of what is there. The runtime's own memory is still as in a recorded process.
    pub(super) fn spool(mut self, changes: &[(u64, Vec<u8>)]) -> Result<Self> {
        let PrivateMemory::Process(pid) = self.memory else { return Ok(self) };
        let mut spool = Spool::read(pid, self.pages.iter().map(|own| &own.range))?;
        if !changes.iter().all(|(address, bytes)| spool.change(*address, bytes)) {
            return refused("a thread's context is not where it was");
        }
        self.memory = PrivateMemory::Spool(spool);
        self.description.is_as_recorded = true;
        Ok(self)
    }

    /// Leaves out what it shares: the image of another process has that.
    pub fn leave_out_shared(&mut self) {
        self.scratch = Scratch::Elsewhere;
        self.description.scratch_is_elsewhere = true;
    }

    /// The bytes of memory that are written.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().map(|own| own.range.end - own.range.start).sum()
    }

    /// Writes the whole image.
    ///
    /// # Errors
    /// There is no space, or the copy is gone.
    pub fn write(&self, writer: &mut CheckpointWriter) -> Result<()> {
        put_json(writer, kind::DESCRIPTION, &self.description)?;
        for (number, file) in self.description.scratch.iter().enumerate() {
            match &self.scratch {
                Scratch::Folder(folder) => {
                    let mut file = File::open(folder.join(&file.name))?.take(file.bytes);
                    put_file(writer, number, 0, &mut file)?;
                }
                Scratch::Memory(shared) => {
                    for (offset, bytes) in shared.parts(number) {
                        put_file(writer, number, *offset, &mut bytes.as_slice())?;
                    }
                }
                Scratch::Elsewhere => {}
            }
        }
        match &self.memory {
            PrivateMemory::Spool(spool) => {
                self.write_memory(writer, &|start, bytes| spool.copy(start, bytes))
            }
            PrivateMemory::Process(pid) => {
                let memory = memory::of_process(*pid)?;
                self.write_memory(writer, &|start, bytes| {
                    memory.read_exact_at(bytes, start).is_ok()
                })
            }
        }
    }

    fn write_memory(&self, writer: &mut CheckpointWriter, memory: &Reading<'_>) -> Result<()> {
        let mut buffer = vec![0; MAX_PIECE_BYTES];
        for OwnPages { range, over_zeros } in &self.pages {
            for start in range.clone().step_by(MAX_PIECE_BYTES) {
                let bytes = MAX_PIECE_BYTES.min((range.end - start) as usize);
                put_pages(writer, memory, start, &mut buffer[..bytes], *over_zeros)?;
            }
        }
        Ok(())
    }
}

/// Reads memory at an address. Returns false if some of it cannot be read.
type Reading<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

/// Refuses a process that takes turns with other processes, since it needs them.
fn check_domains(pid: i32, contexts: impl Iterator<Item = u64>, header: &Header) -> Result<()> {
    let is_alone = header.options.load(Relaxed) & OPTION_ALONE != 0;
    for context in contexts {
        let mut domain = [0; 8];
        memory::peek(pid, context + context::DOMAIN, &mut domain)?;
        if u64::from_le_bytes(domain) == address_of_shared_domain() && !is_alone {
            return refused(
                "the process takes turns with others: it shares memory with them, or did before",
            );
        }
    }
    Ok(())
}

/// A mapping that another session must make, and whether the image holds all of its contents.
type Saved = (SavedMapping, bool);

/// Returns the mappings of a process, and the session's own files that they show.
fn mappings_of(pid: i32, files: &Files<'_>) -> Result<(Vec<Saved>, Vec<ScratchFile>)> {
    let natures = maps::natures(pid)?;
    let mut mappings = Vec::new();
    let mut scratch = match files {
        Files::Replayed(_) => Vec::new(),
        Files::Recorded(known) => known.shared.files(),
    };
    for mapping in maps::of_process(pid)?.iter().filter(|mapping| mapping.end <= ADDRESS_END) {
        // Every session has the runtime's text and the segments attached by number. The windows are
        // read from the recording again.
        let is_window = (WINDOWS..RUNTIME_END).contains(&mapping.start);
        if is_window || in_runtime(mapping.start) && (mapping.shared || mapping.inode != 0) {
            continue;
        }
        let nature = natures.get(&mapping.start).copied().unwrap_or_default();
        mappings.extend(saved(mapping, nature, files, &mut scratch)?);
    }
    Ok((mappings, scratch))
}

/// Describes a mapping; `None` if replayed processes do not have it.
fn saved(
    mapping: &Mapping,
    nature: Nature,
    files: &Files<'_>,
    scratch: &mut Vec<ScratchFile>,
) -> Result<Option<Saved>> {
    if nature.has_key {
        return refused(format!("{} is protected by a key", at(mapping)));
    }
    let is_copy = !matches!(files, Files::Recorded(Known { goes_on: true, .. }));
    if nature.wiped_in_copies && is_copy {
        return refused(format!("{} is wiped in copies of the process", at(mapping)));
    }
    let nothing = Shown::Nothing { grows_down: nature.grows_down };
    let (shows, is_whole) = if mapping.inode == 0 && !mapping.shared {
        if matches!(mapping.name.as_str(), "[vvar]" | "[vvar_vclock]") {
            return Ok(None);
        }
        // The kernel's own pages come from no file.
        (nothing, mapping.name == "[vdso]")
    } else {
        match files {
            Files::Replayed(folder) => (shown_in_replay(mapping, folder, scratch)?, false),
            Files::Recorded(known) => match shown_while_recording(mapping, known)? {
                Some(shows) => (shows, false),
                None => (nothing, true),
            },
        }
    };
    let saved = SavedMapping {
        start: mapping.start,
        end: mapping.end,
        protection: mapping.protection(),
        is_sealed: nature.sealed,
        shows,
    };
    Ok(Some((saved, is_whole)))
}

fn shown_in_replay(
    mapping: &Mapping,
    folder: &Path,
    scratch: &mut Vec<ScratchFile>,
) -> Result<Shown> {
    let name = mapping.name.rsplit('/').next().unwrap_or_default();
    if name.parse::<ContentId>().is_ok() && !(mapping.shared && mapping.writable) {
        return Ok(Shown::Content {
            content: name.to_owned(),
            offset: mapping.offset,
            is_shared: mapping.shared,
        });
    }
    let is_scratch = (ScratchFile { name: name.to_owned(), bytes: 0 }).identity().is_some();
    if !mapping.shared && is_scratch {
        let file = scratch_file(folder, name, scratch)?;
        return Ok(Shown::Scratch { file, offset: mapping.offset, is_shared: false });
    }
    refused_file(mapping)
}

fn refused_file<T>(mapping: &Mapping) -> Result<T> {
    if mapping.shared && mapping.writable {
        return refused(format!("{} is shared, and other processes can change it", at(mapping)));
    }
    refused(format!("{} is a file that is not the recording's: {}", at(mapping), mapping.name))
}

/// Returns what a mapping of a recorded process shows. Stored contents never change, so each
/// process may map them privately. `None` if the recording has not stored the file but only what
/// the program read of it.
fn shown_while_recording(mapping: &Mapping, known: &Known<'_>) -> Result<Option<Shown>> {
    if let Some(shows) = known.shared.shown(mapping) {
        return Ok(Some(shows));
    }
    if mapping.shared && mapping.writable {
        return refused_file(mapping);
    }
    let content = (known.content)(mapping);
    if content.is_none() && (mapping.shared || mapping.end - mapping.start > MOST_UNSTORED_BYTES) {
        return refused_file(mapping);
    }
    Ok(content.map(|content| Shown::Content {
        content: content.to_string(),
        offset: mapping.offset,
        is_shared: false,
    }))
}

fn scratch_file(scratch: &Path, name: &str, files: &mut Vec<ScratchFile>) -> Result<usize> {
    if let Some(known) = files.iter().position(|file| file.name == name) {
        return Ok(known);
    }
    let bytes = std::fs::metadata(scratch.join(name))?.len();
    files.push(ScratchFile { name: name.to_owned(), bytes });
    Ok(files.len() - 1)
}

/// Writes what a file has from an offset on.
fn put_file(
    writer: &mut CheckpointWriter,
    number: usize,
    offset: u64,
    file: &mut dyn Read,
) -> Result<()> {
    let mut value = offset;
    loop {
        let mut piece = Vec::new();
        file.take(MAX_PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if piece.is_empty() {
            return Ok(());
        }
        if piece.iter().any(|byte| *byte != 0) {
            let name = PieceName { kind: kind::SCRATCH, which: number as u32, value };
            writer.put(name, &piece)?;
        }
        value += piece.len() as u64;
    }
}

/// Writes the pages from `start` on, except for zeros that would be there anyway.
fn put_pages(
    writer: &mut CheckpointWriter,
    memory: &Reading<'_>,
    start: u64,
    buffer: &mut [u8],
    over_zeros: bool,
) -> Result<()> {
    if !memory(start, buffer) {
        return put_single_pages(writer, memory, start, buffer);
    }
    let is_zero = |page: &[u8]| over_zeros && page == &ZEROS[..page.len()];
    let pages: Vec<&[u8]> = buffer.chunks(PAGE).collect();
    let mut at = 0;
    for run in pages.chunk_by(|one, other| is_zero(one) == is_zero(other)) {
        let bytes: usize = run.iter().map(|page| page.len()).sum();
        if !is_zero(run[0]) {
            writer.put(
                PieceName { kind: kind::MEMORY, which: 0, value: start + at as u64 },
                &buffer[at..at + bytes],
            )?;
        }
        at += bytes;
    }
    Ok(())
}

/// Writes pages one by one where some cannot be read: those are guard pages.
fn put_single_pages(
    writer: &mut CheckpointWriter,
    memory: &Reading<'_>,
    start: u64,
    buffer: &mut [u8],
) -> Result<()> {
    for (page, bytes) in (start..).step_by(PAGE).zip(buffer.chunks_mut(PAGE)) {
        if memory(page, bytes) {
            writer.put(PieceName { kind: kind::MEMORY, which: 0, value: page }, bytes)?;
        } else {
            writer.put(
                PieceName { kind: kind::GUARD, which: 0, value: page },
                &(page + PAGE as u64).to_le_bytes(),
            )?;
        }
    }
    Ok(())
}
