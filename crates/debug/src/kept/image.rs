//! What a kept checkpoint holds: a process as it was at one moment, so that another session can
//! make the same of a process of its own.

use super::filters::Filters;
use crate::checkpoint::count_of;
use crate::inferior::Fate;
use crate::place::Mark;

use retake_kernel::shared::{HEADER_ADDRESS, REGIONS, RUNTIME_DATA, RUNTIME_END, RUNTIME_TEXT};
use retake_recording::{CheckpointReader, ContentId};
pub(super) use retake_snapshot::PAGE_BYTES;
use retake_snapshot::Threads;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// User memory ends there.
pub(super) const ADDRESS_END: u64 = 0x7fff_ffff_f000;
/// More text than any process has mappings for.
const MOST_TEXT_BYTES: usize = 256 << 20;

/// Kinds of pieces, in the order in which they come.
pub(super) mod kind {
    /// [`super::Summary`], as JSON.
    pub const SUMMARY: u8 = 1;
    /// [`super::Description`], as JSON.
    pub const DESCRIPTION: u8 = 2;
    /// Of a file that the program changed while it had it mapped: which of them, and where in it.
    pub const SCRATCH: u8 = 3;
    /// Memory: where.
    pub const MEMORY: u8 = 4;
    /// Pages that the program made guards: where; the bytes are the address of their end.
    pub const GUARD: u8 = 5;
    /// Output: its number; the bytes begin with [`super::PRINTED_HEAD_BYTES`] that say where in it,
    /// and whether to standard error.
    pub const PRINTED: u8 = 6;
    /// In a file of its own: [`super::super::past::KnownPast`], as JSON.
    pub const PAST: u8 = 7;
}

/// In front of a piece of output: 8 bytes offset, 8 bytes 1 for standard error.
pub(super) const PRINTED_HEAD_BYTES: usize = 16;

/// What is to be known of a checkpoint without reading all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Nobody asked for it.
    pub is_automatic: bool,
    /// When it was made, in milliseconds since 1970.
    pub made_unix_ms: u64,
    /// The session that made it: when that began, in milliseconds since 1970, and the number of its
    /// process.
    pub(super) session: (u64, u32),
    /// The process, by its number while recording.
    pub pid: i32,
    /// The stream of its first thread, and how many events of it come before the program.
    pub(super) program: (u32, u64),
    /// The thread that it is about, by its number while recording.
    pub thread: u32,
    /// Events that this thread has consumed.
    pub events: u64,
    pub(super) turn: u64,
    /// The program counter there, as it is, be it in a stub.
    pub(super) address: u64,
    /// Of each thread that there is: its number, and how many events it has consumed.
    pub(super) counts: Vec<(u32, u64)>,
    /// The place that somebody wanted to go to, if it is exactly there.
    pub(super) arrival: Option<String>,
    pub(super) fate: Fate,
    /// How long replay took to come here, in milliseconds.
    pub after_ms: u64,
}

/// When it was made, its thread, turn, events and address.
pub(super) type Identity = (u64, u32, u64, u64, u64);

impl Summary {
    /// What no other kept checkpoint of the recording has.
    pub(super) fn identity(&self) -> Identity {
        (self.made_unix_ms, self.thread, self.turn, self.events, self.address)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { turn: self.turn, events: self.events }
    }

    /// How many events a thread has consumed there; `None`: there is no such thread.
    pub(crate) fn count(&self, thread: u32) -> Option<u64> {
        count_of(&self.counts, thread)
    }

    /// Whether the process is about to end there.
    pub fn is_end(&self) -> bool {
        self.fate != Fate::Open
    }
}

/// All but the contents of memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Description {
    /// Their filters are numbers in the list of filters.
    pub threads: Threads,
    pub filters: Filters,
    /// The signal that was announced there.
    pub announced: Option<i32>,
    /// How far the stack may grow.
    pub stack_limit: u64,
    pub mappings: Vec<SavedMapping>,
    pub scratch: Vec<ScratchFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedMapping {
    pub start: u64,
    pub end: u64,
    /// PROT_* bits.
    pub protection: u32,
    /// Nobody may change it any more.
    pub is_sealed: bool,
    pub shows: Shown,
}

/// What is mapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Shown {
    Nothing {
        grows_down: bool,
    },
    /// A file of the recording, by content.
    Content {
        content: String,
        offset: u64,
        is_shared: bool,
    },
    /// One of the files that the program changes: its number in the list.
    Scratch {
        file: usize,
        offset: u64,
    },
}

/// A file that the program changed while it had it mapped, as it is in the folder of the session's
/// own files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScratchFile {
    /// Device and inode while recording, 8 bytes each, as digits.
    pub name: String,
    pub bytes: u64,
}

impl ScratchFile {
    /// Device and inode; `None` for what is no such name.
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

    /// Whether its pages may have contents of their own.
    pub fn is_private(&self) -> bool {
        !matches!(self.shows, Shown::Content { is_shared: true, .. })
    }

    /// Whether it is the program's, and not the runtime's.
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
    /// What makes no sense in it, if anything does.
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
            return Some("it maps a file that there is not");
        }
        None
    }

    /// The private mapping in which a range lies.
    pub fn private_around(&self, range: &Range<u64>) -> Option<&SavedMapping> {
        let after = self.mappings.partition_point(|mapping| mapping.end <= range.start);
        self.mappings.get(after).filter(|mapping| {
            mapping.start <= range.start && range.end <= mapping.end && mapping.is_private()
        })
    }
}

/// The structure that the next pieces hold, which must be of this kind.
///
/// # Errors
/// They do not.
pub(super) fn read_json<T: DeserializeOwned>(
    reader: &mut CheckpointReader,
    kind: u8,
) -> retake_recording::Result<T> {
    let mut text = Vec::new();
    let mut left = 1;
    while left > 0 {
        left = match reader.next_piece()? {
            Some((name, bytes))
                if name.kind == kind
                    && name.value == text.len() as u64
                    && text.len() < MOST_TEXT_BYTES =>
            {
                text.extend_from_slice(bytes);
                name.which
            }
            _ => return Err(reader.bad("what it says about itself is not whole")),
        };
    }
    serde_json::from_slice(&text)
        .map_err(|error| reader.bad(&format!("what it says about itself makes no sense: {error}")))
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
