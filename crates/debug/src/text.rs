//! The text of a process as its user sees it: the files as they were, without our patches and
//! stubs.

use object::LittleEndian;
use object::elf::{FileHeader64, PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use retake_kernel::maps::{self, Mapping};
use retake_patch::{Image, Options, Placement, Site, SiteKind, build_image};
use retake_recording::ContentId;
use retake_snapshot::{Process, Ranges, in_runtime};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The number of mappings around an address that are searched for the file's name. Anonymous memory
/// may have replaced the mapping of the file's data, but other mappings of the file are near.
const NEAR_MAPPINGS: usize = 3;
/// The range of addresses in which programs map memory.
const LOWEST_MAPPED: u64 = 0x10000;
const HIGHEST_MAPPED: u64 = 0x7fff_ffff_f000;
/// The mask of an offset in a page.
const PAGE: u64 = 0xfff;

/// A file, and its patched image in the recording.
#[derive(Debug)]
struct PatchedFile {
    bytes: Vec<u8>,
    image: Image,
}

/// A mapped file with patches.
#[derive(Debug, Clone)]
struct Patched {
    file: Rc<PatchedFile>,
    bias: u64,
}

impl Patched {
    fn image(&self) -> &Image {
        &self.file.image
    }

    /// Whether an address is in the file's mapping.
    fn has(&self, address: u64) -> bool {
        let (low, high) = (self.image().low, self.image().high);
        (low..high).contains(&address.wrapping_sub(self.bias))
    }
}

/// The text of a process. Refresh it when mappings may have changed.
#[derive(Debug, Default, Clone)]
pub(crate) struct Text {
    /// The patched files, by stored file; `None` if the file is used unpatched.
    known: HashMap<PathBuf, Option<Rc<PatchedFile>>>,
    mappings: Vec<Mapping>,
    /// All addresses that have been seen mapped so far, except for our own stubs.
    taken: Ranges,
    patched: Vec<Patched>,
    /// The addresses of jumps in padding, and the patched places that lead there.
    pads: HashMap<u64, u64>,
}

impl Text {
    /// Reads the mappings again.
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

    /// The addresses where the program is known to map something at any time.
    pub fn taken(&self) -> &Ranges {
        &self.taken
    }

    /// The stored file that is mapped at an address, or a little below it. For a patched file, this
    /// is the original.
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

    /// The offset in the file that the user sees at the beginning of a mapping.
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

    /// The mapping that contains an address.
    pub fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// Whether nothing is mapped at an address, but the program may map something there.
    pub fn may_be_mapped(&self, address: u64) -> bool {
        (LOWEST_MAPPED..HIGHEST_MAPPED).contains(&address)
            && !in_runtime(address)
            && self.mapping(address).is_none()
    }

    /// Whether an address has code of a file that the program has no way to write to, so that a
    /// trap there stays.
    pub fn is_lasting_code(&self, address: u64) -> bool {
        let is_files = |mapping: &Mapping| {
            mapping.executable && !mapping.writable && !mapping.name.is_empty() && !mapping.shared
        };
        self.mapping(address).is_some_and(is_files)
            || self.patched.iter().any(|patched| patched.has(address))
    }

    /// Whether the program can write to the code at an address, through this mapping or another
    /// one.
    pub fn is_writable_code(&self, address: u64) -> bool {
        let mapping = self.mapping(address).filter(|mapping| mapping.executable);
        mapping.is_some_and(|mapping| mapping.writable || mapping.shared)
            && !self.is_lasting_code(address)
    }

    /// Whether an address is in one of our stubs.
    pub fn is_stub(&self, address: u64) -> bool {
        self.pads.contains_key(&address)
            || self.patched.iter().any(|patched| {
                let start = patched.image().stub_address.wrapping_add(patched.bias);
                (start..start + patched.image().stubs.len() as u64).contains(&address)
            })
    }

    /// The program counter that the user sees for a thread at `address`.
    pub fn shown(&self, address: u64) -> u64 {
        let found = self.patched.iter().find_map(|patched| {
            let text = patched.image().text_address(address.wrapping_sub(patched.bias))?;
            Some(text.wrapping_add(patched.bias))
        });
        found.or_else(|| self.pads.get(&address).copied()).unwrap_or(address)
    }

    /// Whether a step between two addresses is none for the user: it goes through a stub, or out of
    /// it, and the same instruction comes next.
    pub fn is_same_instruction(&self, from: u64, to: u64) -> bool {
        (self.is_stub(from) || self.is_stub(to)) && self.shown(from) == self.shown(to)
    }

    /// The addresses where a thread must be stopped so that the user sees it at `address`. There
    /// are none if nothing can be executed there. (A function that was called from the debugger and
    /// never returned leaves the debugger a breakpoint on the stack. On the time line there is
    /// data, which a trap would change.)
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

    /// Whether a trap for `shown` stops a thread that is at `real`.
    pub fn stops_at(&self, shown: u64, real: u64) -> bool {
        in_runtime(real) || self.places(shown).contains(&real)
    }

    /// Reads the memory of a process with this text as the program would see it without us. Returns
    /// how many bytes could be read.
    pub fn read(&self, process: &Process, address: u64, bytes: &mut [u8]) -> usize {
        if in_runtime(address) || self.is_stub(address) || process.memory.is_probe_page(address) {
            return 0;
        }
        let count = process.memory.read(address, bytes);
        self.unpatch(address, &mut bytes[..count]);
        count
    }

    /// Replaces patched bytes that were read at `address` by the original ones.
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

/// Returns where in a site's stub a thread must be stopped so that the user sees it at a link-time
/// address, and whether the code at that address itself is never executed. At the beginning of a
/// section, the thread is stopped inside the section: a step over that does not wait for other
/// threads.
fn place_in(site: &Site, wanted: u64) -> (Option<u32>, bool) {
    let behind = wanted.checked_sub(site.patch_address);
    let is_in_patch = behind.is_some_and(|bytes| bytes < u64::from(site.patch_length));
    let mut points = site.stub.points.iter().filter(|point| point.text_address == wanted);
    let point = match site.kind {
        SiteKind::SectionBegin => points.next_back(),
        // The jump to the stub is just as good a place.
        _ if behind == Some(0) => None,
        _ => points.next(),
    };
    let is_covered = is_in_patch && (behind != Some(0) || point.is_some());
    (point.map(|point| point.offset), is_covered)
}

/// Whether a mapping looks like those for the stubs of probes.
fn is_stub_page(mapping: &Mapping) -> bool {
    mapping.shared
        && mapping.writable
        && mapping.executable
        && mapping.name.starts_with("/dev/zero")
}

/// Returns one mapping of each stored file that is mapped.
fn first_of_each_file(mappings: &[Mapping]) -> Vec<&Mapping> {
    let mut seen = HashSet::new();
    mappings
        .iter()
        .filter(|mapping| content_of(&mapping.name).is_some() && seen.insert(&mapping.name))
        .collect()
}

/// The load bias of an ELF file, from one of its mappings; `None` for other files.
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

/// The addresses of an ELF file in memory, with whole pages.
fn extent_of(bytes: &[u8]) -> Option<(u64, u64)> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let segments = header.program_headers(LittleEndian, bytes).ok()?;
    let loaded = || segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_LOAD);
    let low = loaded().map(|segment| segment.p_vaddr(LittleEndian)).min()?;
    let end = |segment: &ProgramHeader64<LittleEndian>| {
        segment.p_vaddr(LittleEndian).checked_add(segment.p_memsz(LittleEndian))
    };
    let high = loaded().filter_map(end).max()?;
    Some((low & !PAGE, high.checked_next_multiple_of(PAGE + 1)?))
}

/// Where the stubs of a file may be, if it has some: something else that the recording holds is
/// mapped there. To find out whether it is the file's stubs takes a thousand times as long.
fn possible_placements(
    (low, high): (u64, u64),
    bias: u64,
    mappings: &[Mapping],
) -> impl Iterator<Item = Placement> {
    let is_stored = |mapping: &&Mapping| mapping.executable && content_of(&mapping.name).is_some();
    let (mut behind, mut before) =
        (mappings.iter().filter(is_stored), mappings.iter().filter(is_stored));
    let after = behind.any(|mapping| mapping.start == high.wrapping_add(bias));
    let before = before.any(|mapping| mapping.end == low.wrapping_add(bias));
    let possible = [(after, Placement::After), (before, Placement::Before)];
    possible.into_iter().filter_map(|(is_possible, placement)| is_possible.then_some(placement))
}

/// Finds the image of a file that the process has mapped, if it has one. Only its contents tell
/// which image it is.
fn find_image(path: &Path, first: &Mapping, mappings: &[Mapping]) -> Option<PatchedFile> {
    let bytes = std::fs::read(path).ok()?;
    let bias = bias_of(&bytes, first)?;
    for placement in possible_placements(extent_of(&bytes)?, bias, mappings) {
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

/// Whether a process has this very image mapped. The contents of the stubs tell, since they depend
/// on everything that was rewritten; of the text, only some pages cover the file.
fn is_mapped(image: &Image, bias: u64, mappings: &[Mapping]) -> bool {
    let start = image.stub_address.wrapping_add(bias);
    let found = mappings.iter().find(|mapping| mapping.start == start);
    found
        .and_then(|mapping| content_of(&mapping.name))
        .is_some_and(|content| content == ContentId::of(&image.stubs))
}

/// The content that the name of a stored file stands for.
fn content_of(name: &str) -> Option<ContentId> {
    name.rsplit('/').next()?.parse().ok()
}
