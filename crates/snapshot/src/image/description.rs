//! The parts of an image other than the contents of memory.

use super::filters::Filters;
use crate::pagemap::PAGE_BYTES;
use crate::threads::Threads;
use retake_kernel::shared::{HEADER_ADDRESS, REGIONS, RUNTIME_DATA, RUNTIME_END, RUNTIME_TEXT};
use retake_recording::ContentId;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The end of user memory.
pub(super) const ADDRESS_END: u64 = 0x7fff_ffff_f000;

/// All parts of an image but the contents of memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Description {
    /// The threads. Their filters are numbers in the list of filters.
    pub threads: Threads,
    pub filters: Filters,
    /// The signal that the runtime announced at this place.
    pub announced: Option<i32>,
    /// The limit of the stack's size.
    pub stack_limit: u64,
    pub mappings: Vec<SavedMapping>,
    pub scratch: Vec<ScratchFile>,
    /// Whether the contents of these files are in the image of another process.
    #[serde(default)]
    pub scratch_is_elsewhere: bool,
    /// Whether the runtime's memory is that of a recorded process, and not yet of a replayed one.
    #[serde(default)]
    pub is_as_recorded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedMapping {
    pub start: u64,
    pub end: u64,
    /// The `PROT_*` bits.
    pub protection: u32,
    /// Whether the mapping is sealed, so that the program cannot change it any more.
    pub is_sealed: bool,
    pub shows: Shown,
}

/// What a mapping shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Shown {
    Nothing {
        grows_down: bool,
    },
    /// A file of the recording, by its content.
    Content {
        content: String,
        offset: u64,
        is_shared: bool,
    },
    /// A file that the program changes, by its number in the list.
    Scratch {
        file: usize,
        offset: u64,
        /// Whether all processes that map it see the same. Under a debugger, the processes that
        /// share memory with nobody map it privately.
        #[serde(default)]
        is_shared: bool,
    },
}

/// A file that the program changed while it was mapped. It lies in the folder for the session's own
/// files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScratchFile {
    /// Device and inode in the recording, 8 bytes each, as hexadecimal digits.
    pub name: String,
    pub bytes: u64,
}

impl ScratchFile {
    /// `identity`: the device and the inode, as the runtime gives them. `bytes`: its size.
    pub fn named(identity: (u64, u64), bytes: u64) -> Self {
        let name = format!("{:016x}{:016x}", identity.0.swap_bytes(), identity.1.swap_bytes());
        Self { name, bytes }
    }

    /// The device and the inode; `None` if the name does not have that form.
    pub fn identity(&self) -> Option<(u64, u64)> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if self.name.len() != 32 || !self.name.bytes().all(is_digit) {
            return None;
        }
        let word = |digits: &str| u64::from_str_radix(digits, 16).ok().map(u64::swap_bytes);
        Some((word(&self.name[..16])?, word(&self.name[16..])?))
    }
}

impl SavedMapping {
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Whether pages of the mapping may have contents of their own.
    pub fn is_private(&self) -> bool {
        !matches!(
            self.shows,
            Shown::Content { is_shared: true, .. } | Shown::Scratch { is_shared: true, .. }
        )
    }

    /// Whether the mapping belongs to the program and not to the runtime.
    fn is_programs(&self) -> bool {
        (self.start >= PAGE_BYTES && self.end <= RUNTIME_TEXT)
            || (self.start >= RUNTIME_END && self.end <= ADDRESS_END)
    }

    fn is_of_runtime(&self) -> bool {
        let is_there = (self.start >= RUNTIME_DATA && self.end <= HEADER_ADDRESS)
            || (self.start >= REGIONS && self.end <= RUNTIME_END);
        is_there && self.shows == (Shown::Nothing { grows_down: false }) && !self.is_sealed
    }

    fn is_sound(&self) -> bool {
        let is_whole = |address: u64| address.is_multiple_of(PAGE_BYTES);
        let offset = match &self.shows {
            Shown::Nothing { .. } => 0,
            Shown::Content { offset, .. } | Shown::Scratch { offset, .. } => *offset,
        };
        self.start < self.end
            && [self.start, self.end, offset].into_iter().all(is_whole)
            && self.protection <= 7
    }
}

impl Description {
    /// Returns what is wrong with the description, if anything is.
    pub fn fault(&self) -> Option<&'static str> {
        if let Some(fault) =
            self.threads.fault().or_else(|| self.filters.fault(&self.threads.filters()))
        {
            return Some(fault);
        }
        let is_placed =
            |one: &SavedMapping| one.is_sound() && (one.is_programs() || one.is_of_runtime());
        if !self.mappings.iter().all(is_placed)
            || self.mappings.windows(2).any(|pair| pair[0].end > pair[1].start)
        {
            return Some("its mappings do not fit each other");
        }
        let is_known = |one: &SavedMapping| match &one.shows {
            Shown::Nothing { .. } => true,
            Shown::Content { content, .. } => content.parse::<ContentId>().is_ok(),
            Shown::Scratch { file, .. } => *file < self.scratch.len(),
        };
        if !self.mappings.iter().all(is_known)
            || self.scratch.iter().any(|file| file.identity().is_none())
        {
            return Some("it maps a file that does not exist");
        }
        None
    }

    /// The private mapping that contains a range.
    pub fn private_around(&self, range: &Range<u64>) -> Option<&SavedMapping> {
        let after = self.mappings.partition_point(|mapping| mapping.end <= range.start);
        self.mappings.get(after).filter(|mapping| {
            mapping.start <= range.start && range.end <= mapping.end && mapping.is_private()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(start: u64, end: u64) -> SavedMapping {
        SavedMapping {
            start,
            end,
            protection: 3,
            is_sealed: false,
            shows: Shown::Nothing { grows_down: false },
        }
    }

    #[test]
    fn mappings_lie_where_they_may() {
        for (start, end) in [
            (0x1000, 0x2000),
            (RUNTIME_END, RUNTIME_END + 0x1000),
            (REGIONS, REGIONS + 0x1000),
            (RUNTIME_DATA, RUNTIME_DATA + 0x1000),
        ] {
            let one = nothing(start, end);
            assert!(one.is_sound() && (one.is_programs() || one.is_of_runtime()), "{one:x?}");
        }
        for (start, end) in [
            (0, 0x1000),
            (0x2000, 0x2000),
            (0x2000, 0x1000),
            (0x1001, 0x3000),
            (RUNTIME_TEXT - 0x1000, RUNTIME_TEXT + 0x1000),
            (RUNTIME_TEXT, RUNTIME_TEXT + 0x1000),
            (HEADER_ADDRESS, HEADER_ADDRESS + 0x1000),
            (HEADER_ADDRESS - 0x1000, HEADER_ADDRESS + 0x1000),
            (ADDRESS_END, ADDRESS_END + 0x1000),
        ] {
            let one = nothing(start, end);
            assert!(!(one.is_sound() && (one.is_programs() || one.is_of_runtime())), "{one:x?}");
        }
        let grows = SavedMapping {
            shows: Shown::Nothing { grows_down: true },
            ..nothing(REGIONS, REGIONS + 0x1000)
        };
        assert!(!grows.is_of_runtime());
    }

    #[test]
    fn scratch_files_have_the_names_that_the_runtime_gives_them() {
        let named = |name: &str| ScratchFile { name: name.to_owned(), bytes: 0 }.identity();
        assert_eq!(named("0108000000000000ff00000000000000"), Some((0x801, 0xff)));
        assert_eq!(ScratchFile::named((0x801, 0xff), 0).name, "0108000000000000ff00000000000000");
        for name in [
            "",
            "../../../../../../../../etc/passwd",
            "0108000000000000ff0000000000000g",
            "+108000000000000ff00000000000000",
        ] {
            assert_eq!(named(name), None, "{name}");
        }
    }
}
