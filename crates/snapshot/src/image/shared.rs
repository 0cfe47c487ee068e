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
use std::sync::Arc;
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
pub struct SharedMemory(Arc<[SharedFile]>);

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

impl SharedFile {
    fn is_shown_by(&self, mapping: &Mapping) -> bool {
        self.device == mapping.device && self.inode == mapping.inode
    }
}

/// A piece of a shared file in the memory of a process.
struct Piece {
    pid: i32,
    /// What is added to an offset in the file to get its address.
    shift: u64,
    offsets: Range<u64>,
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
        let (mut files, mut pieces) = (Vec::new(), Vec::new());
        for (index, (file, places)) in mapped_files(processes, header)?.into_iter().enumerate() {
            files.push(file);
            pieces.extend(places.into_iter().map(|piece| (index, piece)));
        }
        let read = |(index, piece): (usize, Piece)| Ok((index, piece.read()?));
        for part in parallel::map(pieces, read) {
            let (index, parts) = part.map_err(ImageError::System)?;
            files[index].parts.extend(parts);
        }
        for (identity, path) in changed {
            let is_known = files.iter().any(|file| file.saved.identity() == Some(*identity));
            let room = MOST_BYTES - bytes_of(&files);
            if !is_known && let Some(file) = unmapped_file(*identity, path, room) {
                files.push(file);
            }
        }
        Ok(Self(files.into()))
    }

    /// Checks whether it can be read.
    ///
    /// # Errors
    /// As of [`SharedMemory::of`].
    pub fn check(processes: &[i32], header: &Header) -> Result<()> {
        mapped_files(processes, header).map(drop)
    }

    fn find(&self, mapping: &Mapping) -> Option<usize> {
        self.0.iter().position(|file| file.is_shown_by(mapping)).filter(|_| mapping.shared)
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

/// The files that these processes have mapped shared and can write to, without their contents, and
/// where those are.
fn mapped_files(processes: &[i32], header: &Header) -> Result<Vec<(SharedFile, Vec<Piece>)>> {
    let mut views = Vec::new();
    for &pid in processes {
        let all = maps::of_process(pid)?.into_iter();
        let is_shared = |one: &Mapping| one.shared && !in_runtime(one.start);
        views.extend(all.filter(is_shared).map(|mapping| View { pid, mapping }));
    }
    let mut files: Vec<(SharedFile, Vec<Piece>)> = Vec::new();
    for view in views.iter().filter(|one| one.mapping.writable) {
        if !files.iter().any(|(file, _)| file.is_shown_by(&view.mapping)) {
            let room = MOST_BYTES - files.iter().map(|(file, _)| file.read).sum::<u64>();
            files.push(file_of(&view.mapping, &views, header, room)?);
        }
    }
    Ok(files)
}

fn bytes_of(files: &[SharedFile]) -> u64 {
    files.iter().map(|file| file.read).sum()
}

/// `room`: how many bytes may be read.
fn file_of(
    mapping: &Mapping,
    shared: &[View],
    header: &Header,
    room: u64,
) -> Result<(SharedFile, Vec<Piece>)> {
    let mut views: Vec<(Range<u64>, &View)> = shared
        .iter()
        .filter(|one| is_same_file(&one.mapping, mapping))
        .map(|one| (offsets(&one.mapping), one))
        .collect();
    views.sort_unstable_by_key(|(range, _)| (range.start, range.end));
    let end = views.iter().map(|(range, _)| range.end).max().unwrap_or(0);
    let (identity, bytes) = identify(mapping, shared, header, end);
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
            pieces.extend(pieces_of(view.pid, shift, from..to));
        }
        known = known.max(range.end);
    }
    if known < bytes {
        return refused(mapping, "only a part of a shared file");
    }
    let file = SharedFile {
        device: mapping.device,
        inode: mapping.inode,
        saved: ScratchFile::named(identity, bytes),
        parts: Vec::new(),
        read: known.min(bytes),
    };
    Ok((file, pieces))
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

/// The pieces in which a process's view of a file is read.
fn pieces_of(pid: i32, shift: u64, offsets: Range<u64>) -> impl Iterator<Item = Piece> {
    offsets.clone().step_by(PIECE_BYTES).map(move |start| {
        let end = offsets.end.min(start + PIECE_BYTES as u64);
        Piece { pid, shift, offsets: start..end }
    })
}

impl Piece {
    fn read(&self) -> io::Result<Vec<(u64, Vec<u8>)>> {
        read_parts(&memory::of_process(self.pid)?, self.shift, self.offsets.clone())
    }
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
fn identify(mapping: &Mapping, views: &[View], header: &Header, end: u64) -> Identified {
    if mapping.name == ANONYMOUS {
        return ((mapping.device, mapping.inode), end);
    }
    if mapping.name.starts_with(SEGMENT_NAME) {
        return ((SEGMENT_DEVICE, mapping.inode), end);
    }
    let path = Path::new(&mapping.name);
    let by_name = || identify_path(mapping.inode, path, AtFlags::SYMLINK_NOFOLLOW);
    let found = by_name().or_else(|| by_descriptor(mapping, views));
    found.unwrap_or_else(|| (noted(mapping, header), end))
}

/// The numbers of a file that has neither a name nor a descriptor any more, as the runtime noted
/// them when it was mapped. If it did not, no process can map it again.
fn noted(mapping: &Mapping, header: &Header) -> (u64, u64) {
    const DEVICE: u64 = 0xffff_ffff;
    let here = (mapping.device, mapping.inode);
    let mut found = header
        .shared_files()
        .unwrap_or_default()
        .iter()
        .map(|file| (file.device.load(Relaxed), file.inode.load(Relaxed)));
    // The one that was noted last: inodes are used again.
    found.rfind(|(device, inode)| (device & DEVICE, *inode) == here).unwrap_or(here)
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
