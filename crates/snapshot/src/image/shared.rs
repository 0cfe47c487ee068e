//! The writable memory that processes map shared, at the moment of an image. They go on and change
//! it, so it is read while all threads stand still.

use super::description::{ScratchFile, Shown};
use super::{ImageError, Result};
use crate::runtime::in_runtime;
use retake_kernel::maps::{self, Mapping};
use retake_kernel::memory;
use retake_kernel::shared::Header;
use retake_supervisor::parallel;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// The most that is read: the program stands still meanwhile.
const MOST_BYTES: u64 = 256 << 20;
const PIECE_BYTES: usize = 4 << 20;
const PART_BYTES: usize = 64 << 10;
/// The name of memory that was mapped without a file.
const ANONYMOUS: &str = "/dev/zero (deleted)";
/// The beginning of the name of System V segments, whose inode is their ID.
const SEGMENT_NAME: &str = "/SYSV";
/// The device that the runtime gives them (runtime/calls/shm.c).
const SEGMENT_DEVICE: u64 = 0x5359_5356;
/// The number that the runtime multiplies with the time when a file was made
/// (runtime/mode/shared_file.c).
const OF_BIRTH: u64 = 0x9e37_79b9_7f4a_7c15;

/// What processes have mapped shared and can write to.
#[derive(Debug, Clone, Default)]
pub struct SharedMemory(Vec<SharedFile>);

#[derive(Debug, Clone)]
struct SharedFile {
    /// As the kernel's list of mappings has them.
    device: u64,
    inode: u64,
    saved: ScratchFile,
    /// Without what is zero.
    parts: Vec<(u64, Vec<u8>)>,
    /// How many bytes were read.
    read: u64,
}

/// A part of memory of a process that shows a shared file.
struct View {
    pid: i32,
    mapping: Mapping,
}

impl SharedMemory {
    /// Reads what these processes share. All their threads stand still. `changed`: files that were
    /// changed through mappings, by their numbers and paths. They may be mapped again, so what is
    /// there is read, too, unless it is too much.
    ///
    /// # Errors
    /// `Refused` if a replay could not make it again. A process is gone.
    pub fn of(
        processes: &[i32],
        header: &Header,
        changed: &[((u64, u64), PathBuf)],
    ) -> Result<Self> {
        let mut shared = Vec::new();
        for &pid in processes {
            let all = maps::of_process(pid)?.into_iter();
            let is_shared = |one: &Mapping| one.shared && !in_runtime(one.start);
            shared.extend(all.filter(is_shared).map(|mapping| View { pid, mapping }));
        }
        let mut files = Self::default();
        for view in shared.iter().filter(|one| one.mapping.writable) {
            if files.find(&view.mapping).is_none() {
                let room = MOST_BYTES - files.bytes();
                files.0.push(file_of(&view.mapping, &shared, header, room)?);
            }
        }
        for (identity, path) in changed {
            let is_known = files.0.iter().any(|file| file.saved.identity() == Some(*identity));
            let room = MOST_BYTES - files.bytes();
            if !is_known && let Some(file) = unmapped_file(*identity, path, room) {
                files.0.push(file);
            }
        }
        Ok(files)
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|file| file.read).sum()
    }

    fn find(&self, mapping: &Mapping) -> Option<usize> {
        let is_it = |one: &SharedFile| one.device == mapping.device && one.inode == mapping.inode;
        self.0.iter().position(is_it).filter(|_| mapping.shared)
    }

    /// What a mapping of it shows.
    pub(super) fn shown(&self, mapping: &Mapping) -> Option<Shown> {
        let file = self.find(mapping)?;
        Some(Shown::Scratch { file, offset: mapping.offset, is_shared: true })
    }

    pub(super) fn files(&self) -> Vec<ScratchFile> {
        self.0.iter().map(|one| one.saved.clone()).collect()
    }

    /// The contents of one of the files, with their offsets.
    pub(super) fn parts(&self, file: usize) -> &[(u64, Vec<u8>)] {
        &self.0[file].parts
    }
}

/// `room`: how many bytes may be read.
fn file_of(mapping: &Mapping, shared: &[View], header: &Header, room: u64) -> Result<SharedFile> {
    let mut views: Vec<(Range<u64>, &View)> = shared
        .iter()
        .filter(|one| is_same_file(&one.mapping, mapping))
        .map(|one| (offsets(&one.mapping), one))
        .collect();
    views.sort_unstable_by_key(|(range, _)| (range.start, range.end));
    let end = views.iter().map(|(range, _)| range.end).max().unwrap_or(0);
    let (identity, bytes) = identify(mapping, shared, header, end)?;
    let mut pieces = Vec::new();
    let mut known = 0;
    for (range, view) in views {
        if range.start > known {
            return refused(mapping, "only a part of a shared file");
        }
        let (from, to) = (known.max(range.start), range.end.min(bytes));
        if from < to {
            if to > room {
                return refused(mapping, "shared, and too large to be read in passing");
            }
            let shift = view.mapping.start.wrapping_sub(range.start);
            pieces.extend(pieces_of(from..to).map(|offsets| (view.pid, shift, offsets)));
        }
        known = known.max(range.end);
    }
    if known < bytes {
        return refused(mapping, "only a part of a shared file");
    }
    let read = |(pid, shift, offsets): (i32, u64, Range<u64>)| {
        read_parts(&memory::of_process(pid)?, shift, offsets)
    };
    let parts = parallel::map(pieces, read).into_iter().collect::<io::Result<Vec<_>>>()?;
    let parts = parts.into_iter().flatten().collect();
    let saved = ScratchFile::named(identity, bytes);
    let (device, inode) = (mapping.device, mapping.inode);
    Ok(SharedFile { device, inode, saved, parts, read: known.min(bytes) })
}

/// A file that nobody has mapped; `None` if it is gone or too large.
fn unmapped_file(identity: (u64, u64), path: &Path, room: u64) -> Option<SharedFile> {
    let (found, bytes) = identify_path(identity.1, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if found != identity || bytes > room {
        return None;
    }
    let parts = read_parts(&File::open(path).ok()?, 0, 0..bytes).ok()?;
    let saved = ScratchFile::named(identity, bytes);
    // No mapping shows it.
    let (device, inode) = (u64::MAX, u64::MAX);
    Some(SharedFile { device, inode, saved, parts, read: bytes })
}

fn is_same_file(one: &Mapping, other: &Mapping) -> bool {
    one.device == other.device && one.inode == other.inode
}

/// The offsets in its file that a mapping shows.
fn offsets(mapping: &Mapping) -> Range<u64> {
    mapping.offset..mapping.offset + (mapping.end - mapping.start)
}

/// The pieces in which offsets are read.
fn pieces_of(offsets: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    offsets
        .clone()
        .step_by(PIECE_BYTES)
        .map(move |start| start..offsets.end.min(start + PIECE_BYTES as u64))
}

/// Reads what is at these offsets, except for zeros. `shift` is added to them.
fn read_parts(from: &File, shift: u64, offsets: Range<u64>) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let (mut parts, mut buffer) = (Vec::new(), vec![0; PART_BYTES]);
    for offset in offsets.clone().step_by(PART_BYTES) {
        let part = &mut buffer[..PART_BYTES.min((offsets.end - offset) as usize)];
        from.read_exact_at(part, offset.wrapping_add(shift))?;
        if part.iter().any(|byte| *byte != 0) {
            parts.push((offset, part.to_vec()));
        }
    }
    Ok(parts)
}

/// The numbers that the runtime gives a file, and the file's size.
type Identified = ((u64, u64), u64);

/// `end`: the end of what is mapped of the file.
fn identify(mapping: &Mapping, views: &[View], header: &Header, end: u64) -> Result<Identified> {
    if mapping.name == ANONYMOUS {
        return Ok(((mapping.device, mapping.inode), end));
    }
    if mapping.name.starts_with(SEGMENT_NAME) {
        return Ok(((SEGMENT_DEVICE, mapping.inode), end));
    }
    let path = Path::new(&mapping.name);
    let by_name = || identify_path(mapping.inode, path, AtFlags::SYMLINK_NOFOLLOW);
    let found = by_name().or_else(|| by_descriptor(mapping, views));
    let noted = || Some((noted(mapping, header)?, end));
    found.or_else(noted).map_or_else(|| refused(mapping, "a shared file without a name"), Ok)
}

/// The numbers of a file that has neither a name nor a descriptor any more, as the runtime noted
/// them when it was mapped. Nobody can map more of it.
fn noted(mapping: &Mapping, header: &Header) -> Option<(u64, u64)> {
    const DEVICE: u64 = 0xffff_ffff;
    let all = header.shared_files()?.iter();
    let mut found = all
        .map(|file| (file.device.load(Relaxed), file.inode.load(Relaxed)))
        .filter(|(device, inode)| (device & DEVICE, *inode) == (mapping.device, mapping.inode));
    // Two of them had the same inode one after the other.
    found.next().filter(|_| found.next().is_none())
}

/// A file without a name, as memfd_create makes it, can be known by a descriptor.
fn by_descriptor(mapping: &Mapping, views: &[View]) -> Option<Identified> {
    let processes: BTreeSet<i32> = views.iter().map(|view| view.pid).collect();
    let entries =
        processes.into_iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
    let mut links = entries.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
    let leads_there = |link: &PathBuf| {
        fs::read_link(link).is_ok_and(|file| file.as_os_str() == mapping.name.as_str())
    };
    links.find_map(|link| {
        let link = Some(link).filter(leads_there)?;
        identify_path(mapping.inode, &link, AtFlags::empty())
    })
}

/// `None` if another file is there.
fn identify_path(inode: u64, path: &Path, flags: AtFlags) -> Option<Identified> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE | StatxFlags::BTIME;
    let status = statx(CWD, path, flags, wanted).ok()?;
    let is_regular = u32::from(status.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    // On overlayfs, the list of mappings has the device below.
    if !is_regular || status.stx_ino != inode {
        return None;
    }
    let device = libc::makedev(status.stx_dev_major, status.stx_dev_minor);
    let made = status.stx_btime;
    let has_birth = status.stx_mask & StatxFlags::BTIME.bits() != 0 && made.tv_sec > 0;
    let birth = if has_birth {
        let nanoseconds = made.tv_sec as u64 * 1_000_000_000 + u64::from(made.tv_nsec);
        nanoseconds.wrapping_mul(OF_BIRTH) & 0xffff_ffff_0000_0000
    } else {
        0
    };
    Some(((device | birth, inode), status.stx_size))
}

fn refused<T>(mapping: &Mapping, how: &str) -> Result<T> {
    Err(ImageError::Refused(format!("{} is {how}: {}", at(mapping), mapping.name)))
}

/// How messages name a mapping.
pub(super) fn at(mapping: &Mapping) -> String {
    format!("what the process has mapped at {:#x}", mapping.start)
}
