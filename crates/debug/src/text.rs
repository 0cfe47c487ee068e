//! What a process's text looks like to its user: the files as they were, without our patches and
//! stubs.

use object::LittleEndian;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use retake_kernel::maps::{self, Mapping};
use retake_patch::{Image, Options, Placement, Site, SiteKind, build_image};
use retake_recording::ContentId;
use retake_snapshot::{Process, Ranges, in_runtime};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A file's data may have lost its name to anonymous memory; mappings of the file that have it are
/// not far.
const NEAR_MAPPINGS: usize = 3;
/// What a program maps lies between these addresses.
const LOWEST_MAPPED: u64 = 0x10000;
const HIGHEST_MAPPED: u64 = 0x7fff_ffff_f000;
/// Within a page.
const PAGE: u64 = 0xfff;

/// A file, and the patched image that the recording has of it.
#[derive(Debug)]
struct PatchedFile {
    bytes: Vec<u8>,
    image: Image,
}

/// One patched file as it is mapped.
#[derive(Debug, Clone)]
struct Patched {
    file: Rc<PatchedFile>,
    bias: u64,
}

impl Patched {
    fn image(&self) -> &Image {
        &self.file.image
    }

    /// Whether an address is in it.
    fn has(&self, address: u64) -> bool {
        let (low, high) = (self.image().low, self.image().high);
        (low..high).contains(&address.wrapping_sub(self.bias))
    }
}

/// The text of a process. To be refreshed when mappings may have changed.
#[derive(Debug, Default, Clone)]
pub(crate) struct Text {
    /// By stored file; `None` where its own text is used.
    known: HashMap<PathBuf, Option<Rc<PatchedFile>>>,
    mappings: Vec<Mapping>,
    /// Where anything was mapped whenever the mappings were looked at, but for our own stubs.
    taken: Ranges,
    patched: Vec<Patched>,
    /// Where in padding a jump is, and the patched place that leads there.
    pads: HashMap<u64, u64>,
}

impl Text {
    /// Looks at the mappings again.
    pub fn refresh(&mut self, pid: i32) {
        let Ok(mappings) = maps::of_process(pid) else { return };
        if mappings == self.mappings {
            return;
        }
        self.patched.clear();
        self.pads.clear();
        for first in first_of_each_file(&mappings) {
            let path = Path::new(&first.name);
            let file = match self.known.get(path) {
                Some(known) => known.clone(),
                None => find_image(path, first, &mappings).map(Rc::new),
            };
            self.known.insert(path.to_owned(), file.clone());
            if let Some(file) = file
                && let Some(bias) = bias_of(&file.bytes, first)
            {
                let pads = file
                    .image
                    .sites
                    .iter()
                    .filter_map(|site| Some((site.pad_address?, site.patch_address)));
                self.pads.extend(
                    pads.map(|(pad, site)| (pad.wrapping_add(bias), site.wrapping_add(bias))),
                );
                self.patched.push(Patched { file, bias });
            }
        }
        mappings
            .iter()
            .filter(|mapping| !is_stub_page(mapping))
            .for_each(|mapping| self.taken.insert(mapping.start, mapping.end));
        self.mappings = mappings;
    }

    /// Where the program has or had something, or will have, as far as that was seen.
    pub fn taken(&self) -> &Ranges {
        &self.taken
    }

    /// The stored file that shows at an address, or near it the one that was patched for what shows
    /// there.
    pub fn original_at(&self, address: u64) -> Option<PathBuf> {
        if let Some(patched) = self.patched.iter().find(|patched| patched.has(address)) {
            let known = self.known.iter().find(|(_, file)| {
                file.as_ref().is_some_and(|file| Rc::ptr_eq(file, &patched.file))
            });
            return known.map(|(path, _)| path.clone());
        }
        let at = self.mappings.partition_point(|mapping| mapping.start <= address);
        let below = self.mappings[..at].iter().rev();
        below
            .take(NEAR_MAPPINGS)
            .find(|mapping| content_of(&mapping.name).is_some())
            .map(|mapping| PathBuf::from(&mapping.name))
    }

    /// Which part of its file the user sees at the beginning of a mapping.
    pub fn file_offset(&self, mapping: &Mapping) -> u64 {
        let found = self.patched.iter().find_map(|patched| {
            let address = mapping.start.wrapping_sub(patched.bias);
            let segment = patched.image().segments.iter().find(|one| {
                (one.address..one.address + one.bytes.len() as u64).contains(&address)
            })?;
            Some(segment.file_offset + (address - segment.address))
        });
        found.unwrap_or(mapping.offset)
    }

    /// All mappings.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The mapping that has an address.
    pub fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// Whether nothing is there, but the program may map something.
    pub fn may_be_mapped(&self, address: u64) -> bool {
        (LOWEST_MAPPED..HIGHEST_MAPPED).contains(&address)
            && !in_runtime(address)
            && self.mapping(address).is_none()
    }

    /// Whether there is code of a file that the program can write to in no way: a trap in it stays.
    pub fn is_lasting_code(&self, address: u64) -> bool {
        let is_files = |mapping: &Mapping| {
            mapping.executable && !mapping.writable && !mapping.name.is_empty() && !mapping.shared
        };
        self.mapping(address).is_some_and(is_files)
            || self.patched.iter().any(|patched| patched.has(address))
    }

    /// Whether the program can write code there, by this mapping or another one.
    pub fn is_writable_code(&self, address: u64) -> bool {
        let mapping = self.mapping(address).filter(|mapping| mapping.executable);
        mapping.is_some_and(|mapping| mapping.writable || mapping.shared)
            && !self.is_lasting_code(address)
    }

    /// Whether a thread there is in one of our stubs.
    pub fn is_stub(&self, address: u64) -> bool {
        self.pads.contains_key(&address)
            || self.patched.iter().any(|patched| {
                let start = patched.image().stub_address.wrapping_add(patched.bias);
                (start..start + patched.image().stubs.len() as u64).contains(&address)
            })
    }

    /// Where the user sees a thread whose program counter is `address`.
    pub fn shown(&self, address: u64) -> u64 {
        let found = self.patched.iter().find_map(|patched| {
            let text = patched.image().text_address(address.wrapping_sub(patched.bias))?;
            Some(text.wrapping_add(patched.bias))
        });
        found.or_else(|| self.pads.get(&address).copied()).unwrap_or(address)
    }

    /// Whether a step between two addresses is none to the user: within a stub, or out of it, with
    /// the same instruction to come.
    pub fn is_same_instruction(&self, from: u64, to: u64) -> bool {
        (self.is_stub(from) || self.is_stub(to)) && self.shown(from) == self.shown(to)
    }

    /// Where a thread must be stopped so that the user sees it at `address`: nowhere, where nothing
    /// can be executed. (A function that was called from the debugger and never returned leaves it
    /// a breakpoint on the stack; on the time line there is data, and a trap in it would change
    /// that.)
    pub fn places(&self, address: u64) -> Vec<u64> {
        let mut places = Vec::new();
        if self.mapping(address).is_some_and(|mapping| !mapping.executable) {
            return places;
        }
        let mut is_covered = false;
        for patched in &self.patched {
            let (image, wanted) = (patched.image(), address.wrapping_sub(patched.bias));
            let near = image.sites.partition_point(|site| site.patch_address + 64 < wanted);
            for site in image.sites[near..].iter().take_while(|site| site.patch_address <= wanted) {
                let (place, covers) = place_in(site, wanted);
                is_covered |= covers;
                let stub = patched
                    .bias
                    .wrapping_add(image.stub_address)
                    .wrapping_add(u64::from(site.stub.offset));
                places.extend(place.map(|offset| stub.wrapping_add(u64::from(offset))));
            }
        }
        if !is_covered {
            places.push(address);
        }
        places
    }

    /// Whether a thread that the user sees at `shown` is where a trap would stop it for that.
    pub fn stops_at(&self, shown: u64, real: u64) -> bool {
        in_runtime(real) || self.places(shown).contains(&real)
    }

    /// Reads memory of a process with this text as the program would see it without us; returns how
    /// many bytes are there.
    pub fn read(&self, process: &Process, address: u64, bytes: &mut [u8]) -> usize {
        if in_runtime(address) || self.is_stub(address) || process.memory.is_probe_page(address) {
            return 0;
        }
        let count = process.memory.read(address, bytes);
        self.unpatch(address, &mut bytes[..count]);
        count
    }

    /// Replaces what was read at `address` by what the user is to see of it.
    fn unpatch(&self, address: u64, bytes: &mut [u8]) {
        for patched in &self.patched {
            for segment in &patched.image().segments {
                let start = segment.address.wrapping_add(patched.bias);
                let end = start + segment.bytes.len() as u64;
                let (from, to) = (address.max(start), (address + bytes.len() as u64).min(end));
                if from >= to || self.mapping(start).is_none_or(|m| m.writable) {
                    continue;
                }
                for (place, count) in patched.image().rewritten() {
                    self.restore(
                        patched,
                        segment.address,
                        segment.file_offset,
                        place,
                        count,
                        address,
                        bytes,
                    );
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "all of them are places in three address spaces")]
    fn restore(
        &self,
        patched: &Patched,
        segment: u64,
        file_offset: u64,
        place: u64,
        count: u64,
        address: u64,
        bytes: &mut [u8],
    ) {
        for at in place..place + count {
            let target = at.wrapping_add(patched.bias).wrapping_sub(address);
            let source = at.wrapping_sub(segment).wrapping_add(file_offset);
            let original =
                usize::try_from(source).ok().and_then(|source| patched.file.bytes.get(source));
            if let (Some(byte), Some(original)) =
                (usize::try_from(target).ok().and_then(|target| bytes.get_mut(target)), original)
            {
                *byte = *original;
            }
        }
    }
}

/// Where in the stub of a site a thread must be stopped so that the user sees it at a link-time
/// address, and whether nobody executes what is at that address itself. Where a section begins, a
/// thread is stopped once it is in it: a step over that does not wait for other threads.
fn place_in(site: &Site, wanted: u64) -> (Option<u32>, bool) {
    let behind = wanted.checked_sub(site.patch_address);
    let is_in_patch = behind.is_some_and(|bytes| bytes < u64::from(site.patch_length));
    let mut points = site.stub.points.iter().filter(|point| point.text_address == wanted);
    let point = match site.kind {
        SiteKind::SectionBegin => points.next_back(),
        // The jump to the stub is a place as good.
        _ if behind == Some(0) => None,
        _ => points.next(),
    };
    let is_covered = is_in_patch && (behind != Some(0) || point.is_some());
    (point.map(|point| point.offset), is_covered)
}

/// Whether it is as the pages that probes' stubs are in.
fn is_stub_page(mapping: &Mapping) -> bool {
    mapping.shared
        && mapping.writable
        && mapping.executable
        && mapping.name.starts_with("/dev/zero")
}

/// For each stored file that is mapped, one of its mappings.
fn first_of_each_file(mappings: &[Mapping]) -> Vec<&Mapping> {
    let mut seen = HashSet::new();
    mappings
        .iter()
        .filter(|mapping| content_of(&mapping.name).is_some() && seen.insert(&mapping.name))
        .collect()
}

/// Where an ELF file is loaded, seen from one of its mappings; `None` for other files.
fn bias_of(bytes: &[u8], mapping: &Mapping) -> Option<u64> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let segments = header.program_headers(LittleEndian, bytes).ok()?;
    let loaded = segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_LOAD);
    let mut starts = loaded.map(|segment| {
        (segment.p_offset(LittleEndian) & !PAGE, segment.p_vaddr(LittleEndian) & !PAGE)
    });
    starts
        .find(|(offset, _)| *offset == mapping.offset)
        .map(|(_, address)| mapping.start.wrapping_sub(address))
}

/// The image of a file that the process has mapped, if it has one. Which one it is, only the
/// contents say.
fn find_image(path: &Path, first: &Mapping, mappings: &[Mapping]) -> Option<PatchedFile> {
    let bytes = std::fs::read(path).ok()?;
    let bias = bias_of(&bytes, first)?;
    for placement in [Placement::After, Placement::Before] {
        for options in [
            Options::default(),
            Options { sections: true, ..Options::default() },
            Options { trap_cpuid: true, ..Options::default() },
            Options { trap_cpuid: true, sections: true, ..Options::default() },
            Options::untrappable(),
            Options::never_trapping(),
        ] {
            let image = build_image(&bytes, placement, &options).ok().flatten();
            if let Some(image) = image.filter(|image| is_mapped(image, bias, mappings)) {
                return Some(PatchedFile { bytes, image });
            }
        }
    }
    None
}

/// Whether a process has this very image mapped: its stubs, by content. They say all that was
/// rewritten; of the text only pages lie over the file.
fn is_mapped(image: &Image, bias: u64, mappings: &[Mapping]) -> bool {
    let start = image.stub_address.wrapping_add(bias);
    let found = mappings.iter().find(|mapping| mapping.start == start);
    found
        .and_then(|mapping| content_of(&mapping.name))
        .is_some_and(|content| content == ContentId::of(&image.stubs))
}

/// The content that a stored file's name stands for.
fn content_of(name: &str) -> Option<ContentId> {
    name.rsplit('/').next()?.parse().ok()
}
