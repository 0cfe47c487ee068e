//! The writable memory that a process maps shared, at the moment of an image. The process goes on
//! and changes it, so it is read while all threads stand still.

use super::description::{ScratchFile, Shown};
use super::{ImageError, Result};
use crate::runtime::in_runtime;
use retake_kernel::maps::{self, Mapping};
use retake_kernel::memory;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::ops::Range;

/// The most that is read: the program stands still meanwhile.
const MOST_BYTES: u64 = 64 << 20;
/// The name of memory that was mapped without a file.
const ANONYMOUS: &str = "/dev/zero (deleted)";
/// The number that the runtime multiplies with the time when a file was made
/// (runtime/mode/shared_file.c).
const OF_BIRTH: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a process has mapped shared and can write to.
#[derive(Debug, Clone, Default)]
pub struct SharedMemory(Vec<SharedFile>);

#[derive(Debug, Clone)]
struct SharedFile {
    /// As the kernel's list of mappings has them.
    device: u64,
    inode: u64,
    saved: ScratchFile,
    parts: Vec<(u64, Vec<u8>)>,
}

impl SharedMemory {
    /// Reads it.
    ///
    /// # Errors
    /// `Refused` if a replay could not make it again. The process is gone.
    pub fn of(pid: i32) -> Result<Self> {
        let all = maps::of_process(pid)?;
        let shared: Vec<&Mapping> =
            all.iter().filter(|one| one.shared && !in_runtime(one.start)).collect();
        let mut files = Self::default();
        for mapping in shared.iter().filter(|one| one.writable) {
            if files.find(mapping).is_none() {
                files.0.push(file_of(pid, mapping, &shared)?);
            }
        }
        Ok(files)
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

fn file_of(pid: i32, mapping: &Mapping, shared: &[&Mapping]) -> Result<SharedFile> {
    let views = shared
        .iter()
        .filter(|one| one.device == mapping.device && one.inode == mapping.inode)
        .map(|one| (one.offset..one.offset + (one.end - one.start), one.start));
    let mut views: Vec<(Range<u64>, u64)> = views.collect();
    views.sort_unstable_by_key(|(range, _)| (range.start, range.end));
    let end = views.iter().map(|(range, _)| range.end).max().unwrap_or(0);
    let (identity, bytes) = identify(mapping, end)?;
    let mut parts = Vec::new();
    let mut known = 0;
    for (range, start) in views {
        if range.start > known {
            return refused(mapping, "only a part of a shared file");
        }
        let (from, to) = (known.max(range.start), range.end.min(bytes));
        if from < to {
            if to > MOST_BYTES {
                return refused(mapping, "shared, and too large to be read in passing");
            }
            let address = start + (from - range.start);
            parts.push((from, memory::peek_vec(pid, address, (to - from) as usize)?));
        }
        known = known.max(range.end);
    }
    if known < bytes {
        return refused(mapping, "only a part of a shared file");
    }
    let saved = ScratchFile::named(identity, bytes);
    Ok(SharedFile { device: mapping.device, inode: mapping.inode, saved, parts })
}

/// Returns the numbers that the runtime gives the file, and its size.
fn identify(mapping: &Mapping, end: u64) -> Result<((u64, u64), u64)> {
    if mapping.name == ANONYMOUS {
        return Ok(((mapping.device, mapping.inode), end));
    }
    let flags = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE | StatxFlags::BTIME;
    let Some(status) = statx(CWD, &mapping.name, AtFlags::SYMLINK_NOFOLLOW, flags).ok() else {
        return refused(mapping, "a shared file without a name");
    };
    let is_regular = u32::from(status.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    // On overlayfs, the list of mappings has the device below.
    if !is_regular || status.stx_ino != mapping.inode {
        return refused(mapping, "a shared file without a name");
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
    Ok(((device | birth, mapping.inode), status.stx_size))
}

fn refused<T>(mapping: &Mapping, how: &str) -> Result<T> {
    Err(ImageError::Refused(format!("{} is {how}: {}", at(mapping), mapping.name)))
}

/// How messages name a mapping.
pub(super) fn at(mapping: &Mapping) -> String {
    format!("what the process has mapped at {:#x}", mapping.start)
}
