//! Files that programs read and write through mappings.
//!
//! Loads and stores cannot be seen. The page tables of a process show which pages of a mapping it
//! uses, and what they hold. At the points where others could notice its stores (it unmaps, syncs
//! or ends, or any process uses the file by a call) their hashes are compared with the last ones.
//! Pages that are new or differ count as written if the mapping is writable, and as read otherwise.
//!
//! A process that is looked at only after the call that took its pages away cannot show them. Then
//! the file tells what was stored, and of a read-only mapping all pages in the page cache count as
//! read. The files of a killed process are looked at in the same way.
//!
//! So what counts as written is exact in its effect. But pages that were only read may count as
//! written, with the bytes they had, and pages that the kernel mapped unasked count as read.

#[cfg(feature = "ebpf")]
mod lost;

use super::{Sink, pages_event};
use retake_kernel::{maps, memory, pagemap, process};
use retake_record::Moment;
use retake_trace_format::MappedPages;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const PAGE: u64 = 4096;
/// The most pages of one record.
const RECORD_PAGES: u64 = 256;
/// The most pages, of all files, whose hashes are kept. They take 512 MiB of memory. Further pages
/// always count as new.
const MOST_PAGES: usize = 1 << 24;

/// Device and inode number, as in `stat`.
type Identity = (u64, u64);

/// A part of a file in the memory of a process.
#[derive(Debug, Clone)]
struct Region {
    range: Range<u64>,
    offset: u64,
    file: Identity,
    path: String,
    /// Whether the process can change the file through it.
    writes: bool,
    /// The file, open, if the process can change it. So it is found under whatever name.
    kept: Option<Arc<File>>,
}

impl Region {
    /// Returns the file and its current name. `None` if it has no name any more.
    fn open(&self) -> Option<(Arc<File>, String)> {
        if let Some(file) = &self.kept {
            let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
                .ok()?
                .into_os_string()
                .into_string()
                .ok()?;
            return has_name(&path).then(|| (Arc::clone(file), path));
        }
        let file =
            File::open(&self.path).ok().filter(|file| identity_of(file) == Some(self.file))?;
        Some((Arc::new(file), self.path.clone()))
    }
}

/// The mapped files of all processes.
#[derive(Debug, Default)]
pub(super) struct MappedFiles {
    processes: HashMap<i32, Vec<Region>>,
    /// The last hash of each page, by the number of the page in the file.
    pages: HashMap<(Identity, u64), u64>,
}

/// The source of pages, and the process and time that are recorded with them.
struct Reader<'a> {
    source: Source<'a>,
    pid: i32,
    time_ns: u64,
}

enum Source<'a> {
    Process,
    File(&'a File),
}

impl MappedFiles {
    /// Notes the current mappings of a process.
    pub fn note(&mut self, pid: i32) {
        match regions_of(pid) {
            Ok(regions) if !regions.is_empty() => drop(self.processes.insert(pid, regions)),
            // A process that was just killed has none left, but its earlier ones still matter.
            Ok(_) if !is_dead(pid) => drop(self.processes.remove(&pid)),
            _ => {}
        }
    }

    /// Gives a new process the mappings of its parent.
    pub fn inherit(&mut self, parent: i32, child: i32) {
        if let Some(regions) = self.processes.get(&parent).cloned() {
            self.processes.entry(child).or_insert(regions);
        }
    }

    pub fn knows(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Returns whether a process has mapped files that matter in a range, widened to whole pages.
    pub fn overlaps(&self, pid: i32, range: Range<u64>) -> bool {
        let end = range.end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let overlaps = |region: &Region| region.range.start < end && range.start < region.range.end;
        self.processes.get(&pid).is_some_and(|regions| regions.iter().any(overlaps))
    }

    /// Returns whether a descriptor leads to a file that is mapped for writing.
    pub fn has(&self, pid: i32, descriptor: i32) -> bool {
        let written = || self.processes.values().flatten().filter(|region| region.writes);
        let identity = || {
            let metadata = fs::metadata(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        // Most programs have none. Then the kernel is not asked.
        let file = written().next().and_then(|_| identity());
        file.is_some_and(|file| written().any(|region| region.file == file))
    }

    /// Takes what a stopped process has read and written.
    pub fn collect(&mut self, pid: i32, moment: &Moment, sink: Sink<'_>) -> io::Result<()> {
        self.note(pid);
        let regions = self.processes.get(&pid).cloned().unwrap_or_default();
        self.collect_regions(pid, &regions, moment.time_ns, sink)
    }

    /// Takes what all processes have written.
    pub fn collect_written(&mut self, moment: &Moment, sink: Sink<'_>) -> io::Result<()> {
        let writers: Vec<i32> = self
            .processes
            .iter()
            .filter(|(_, regions)| regions.iter().any(|region| region.writes))
            .map(|(pid, _)| *pid)
            .collect();
        for pid in writers {
            self.note(pid);
            if is_dead(pid) {
                self.bury(pid, moment.time_ns, sink)?;
                continue;
            }
            let regions: Vec<Region> = self
                .processes
                .get(&pid)
                .into_iter()
                .flatten()
                .filter(|region| region.writes)
                .cloned()
                .collect();
            self.collect_regions(pid, &regions, moment.time_ns, sink)?;
        }
        Ok(())
    }

    fn collect_regions(
        &mut self,
        pid: i32,
        regions: &[Region],
        time_ns: u64,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let mut reader = Reader { source: Source::Process, pid, time_ns };
        for region in regions {
            // If the page tables cannot be read, all pages count as present.
            let present = pagemap::present_file_pages(pid, region.range.clone())
                .unwrap_or_else(|_| vec![region.range.clone()]);
            for part in present {
                self.collect_part(region, part, &mut reader, sink)?;
            }
        }
        Ok(())
    }

    /// Forgets a process that has ended. Its last stores are taken from the files.
    pub fn bury(&mut self, pid: i32, time_ns: u64, sink: Sink<'_>) -> io::Result<()> {
        for region in self
            .processes
            .remove(&pid)
            .unwrap_or_default()
            .into_iter()
            .filter(|region| region.writes)
        {
            self.collect_from_file(&region, &region.range, pid, time_ns, sink)?;
        }
        Ok(())
    }

    /// Takes what the file holds of a part of a region.
    fn collect_from_file(
        &mut self,
        region: &Region,
        part: &Range<u64>,
        pid: i32,
        time_ns: u64,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let Some((file, path)) = region.open() else { return Ok(()) };
        let region = Region { path, ..region.clone() };
        let offset_of = |address: u64| region.offset + (address - region.range.start);
        let address_of = |offset: u64| region.range.start + (offset - region.offset);
        let mut reader = Reader { source: Source::File(&file), pid, time_ns };
        let range = offset_of(part.start)..offset_of(part.end);
        for data in if region.writes { data_of(&file, range) } else { resident_of(&file, range) } {
            self.collect_part(
                &region,
                address_of(data.start)..address_of(data.end),
                &mut reader,
                sink,
            )?;
        }
        Ok(())
    }

    /// Takes the changed pages of a part of a region.
    fn collect_part(
        &mut self,
        region: &Region,
        part: Range<u64>,
        reader: &mut Reader<'_>,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let size = fs::metadata(&region.path).map_or(0, |metadata| metadata.len());
        let mut start = part.start;
        while start < part.end {
            let end = part.end.min(start + RECORD_PAGES * PAGE);
            let offset = region.offset + (start - region.range.start);
            let bytes = size.saturating_sub(offset).min(end - start);
            if let Ok(data) = reader.read(region, start, offset, bytes as usize) {
                self.put_changed(region, start, offset, &data, reader, sink)?;
            }
            start = end;
        }
        Ok(())
    }

    /// Puts runs of changed pages into the stream.
    fn put_changed(
        &mut self,
        region: &Region,
        address: u64,
        offset: u64,
        data: &[u8],
        reader: &Reader<'_>,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let mut changed: Option<Range<usize>> = None;
        for (index, page) in data.chunks(PAGE as usize).enumerate() {
            let at = index * PAGE as usize;
            if !self.is_new(region.file, offset / PAGE + index as u64, page) {
                continue;
            }
            changed = match changed {
                Some(run) if run.end == at => Some(run.start..at + page.len()),
                run => {
                    run.map_or(Ok(()), |run| {
                        put(region, address, offset, data, run, reader, sink)
                    })?;
                    Some(at..at + page.len())
                }
            };
        }
        changed.map_or(Ok(()), |run| put(region, address, offset, data, run, reader, sink))
    }

    fn is_new(&mut self, file: Identity, page: u64, bytes: &[u8]) -> bool {
        let hash = xxh3_64(bytes);
        if let Some(known) = self.pages.get_mut(&(file, page)) {
            return std::mem::replace(known, hash) != hash;
        }
        if self.pages.len() < MOST_PAGES {
            self.pages.insert((file, page), hash);
        }
        true
    }
}

fn is_dead(pid: i32) -> bool {
    matches!(process::state(pid), None | Some('Z' | 'X'))
}

impl Reader<'_> {
    fn read(
        &self,
        region: &Region,
        address: u64,
        offset: u64,
        count: usize,
    ) -> io::Result<Vec<u8>> {
        match self.source {
            // Memory that the process may only write to cannot be read here either. The file has
            // the same contents.
            Source::Process => memory::read_vec(self.pid, address, count)
                .or_else(|_| read_file(&File::open(&region.path)?, offset, count)),
            Source::File(file) => read_file(file, offset, count),
        }
    }
}

fn put(
    region: &Region,
    address: u64,
    offset: u64,
    data: &[u8],
    run: Range<usize>,
    reader: &Reader<'_>,
    sink: Sink<'_>,
) -> io::Result<()> {
    let pid = reader.pid as u32;
    sink(&pages_event(&MappedPages {
        id: 0,
        time_ns: reader.time_ns,
        process: pid,
        thread: pid,
        write: region.writes,
        path: path_in(reader.pid, &region.path),
        file_offset: offset + run.start as u64,
        address: address + run.start as u64,
        data: data[run].to_vec(),
    }))
}

/// Returns the name of the file as the process itself sees it.
fn path_in(pid: i32, path: &str) -> Vec<u8> {
    let root = fs::read_link(format!("/proc/{pid}/root")).unwrap_or_default();
    let inside = path
        .as_bytes()
        .strip_prefix(root.as_os_str().as_bytes())
        .filter(|inside| inside.starts_with(b"/"));
    inside.unwrap_or(path.as_bytes()).to_vec()
}

fn read_file(file: &File, offset: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn identity_of(file: &File) -> Option<Identity> {
    file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns the mappings that matter: those of named files that hold data, not programs.
fn regions_of(pid: i32) -> io::Result<Vec<Region>> {
    let mappings = maps::of_process(pid)?;
    let region = |mapping: &maps::Mapping| {
        let writes = mapping.shared && mapping.writable;
        if mapping.inode == 0
            || !has_name(&mapping.name)
            || !(writes || mapping.readable && !is_program(&mapping.name))
        {
            return None;
        }
        let metadata = fs::metadata(&mapping.name).ok().filter(fs::Metadata::is_file)?;
        Some(Region {
            range: mapping.start..mapping.end,
            offset: mapping.offset,
            file: (metadata.dev(), metadata.ino()),
            path: mapping.name.clone(),
            writes,
            kept: if writes { File::open(&mapping.name).ok().map(Arc::new) } else { None },
        })
    };
    Ok(mappings.iter().filter_map(region).collect())
}

/// Returns whether a file is a program or library, by its first bytes. Execute permission of a
/// mapping does not tell, because patched text covers some.
fn is_program(path: &str) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0)).is_ok()
        && magic == *b"\x7fELF"
}

/// Returns whether a descriptor of a process leads to a program or library.
pub(super) fn leads_to_program(pid: i32, descriptor: i32) -> bool {
    let path = format!("/proc/{pid}/fd/{descriptor}");
    // Opening anything but a regular file could block.
    fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) && is_program(&path)
}

/// Returns whether a path names a file that matters.
pub(crate) fn has_name(name: &str) -> bool {
    let elsewhere = ["/proc/", "/sys/", "/dev/", "/SYSV", "/memfd:"];
    let is_elsewhere =
        elsewhere.iter().any(|place| name.starts_with(place)) && !name.starts_with("/dev/shm/");
    name.starts_with('/') && !name.ends_with(" (deleted)") && !is_elsewhere
}

/// Returns the pages of a range of a file that are in memory. Pages read a moment ago are among
/// them. On file systems that do not tell, returns all pages that are not holes.
fn resident_of(file: &File, range: Range<u64>) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    for at in range.clone().step_by(PAGE as usize) {
        let mut byte = [0];
        let mut pieces = [io::IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(file, &mut pieces, at, rustix::io::ReadWriteFlags::NOWAIT) {
            Ok(0) => break,
            Ok(_) => match found.last_mut() {
                Some(last) if last.end == at => last.end = at + PAGE,
                _ => found.push(at..at + PAGE),
            },
            Err(rustix::io::Errno::OPNOTSUPP) => return data_of(file, range),
            Err(_) => {}
        }
    }
    found
}

/// Returns the parts of a range of a file that are not holes, in whole pages.
fn data_of(file: &File, range: Range<u64>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let Ok(start) = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) else { break };
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start)).unwrap_or(range.end);
        let start = (start - start % PAGE).max(range.start);
        if start >= range.end || end <= start {
            break;
        }
        found.push(start..end.next_multiple_of(PAGE).min(range.end));
        at = end.next_multiple_of(PAGE);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_memory_are_found() {
        let folder = std::env::temp_dir().join(format!("retake-resident-{}", std::process::id()));
        fs::write(&folder, [1; 5000]).unwrap();
        let file = File::open(&folder).unwrap();
        assert_eq!(resident_of(&file, 0..4 * PAGE), std::slice::from_ref(&(0..2 * PAGE)));
        fs::remove_file(folder).unwrap();
    }
}
