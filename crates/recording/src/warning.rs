//! What was lost of a damaged recording.

use std::fmt;

use crate::ContentId;
use crate::error::FramePlace;
use crate::stream_info::StreamId;

/// One thing that is not as it should be, though the rest of the recording can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A recorder is writing it: what is there so far can be read.
    BeingRecorded,
    /// The index is missing or damaged, so the whole file was searched for chunks.
    NoIndex {
        /// Why.
        reason: String,
    },
    /// No frame could be found in part of the file.
    LostBytes {
        /// Where the part begins.
        file_offset: u64,
        /// How long it is.
        bytes: u64,
        /// What is wrong at its beginning.
        reason: String,
    },
    /// A frame is unusable.
    Damaged {
        /// Which.
        place: FramePlace,
        /// What is wrong.
        reason: String,
    },
    /// A stream ends early, because the chunk that should come next is missing.
    StreamCut {
        /// The first chunk that could not be used any more.
        place: FramePlace,
        /// How many chunks precede the gap.
        kept_chunks: usize,
        /// How many bytes those have.
        kept_bytes: u64,
    },
    /// The declaration of a stream is missing.
    UndeclaredStream {
        /// Which.
        stream: StreamId,
    },
    /// The metadata came from `recording.json`, or from an earlier state, because the copy that
    /// counts is damaged.
    OldMetadata {
        /// What is wrong with it.
        reason: String,
    },
    /// There were too many warnings to keep.
    More {
        /// How many are not listed.
        count: u64,
    },
    /// A file that a program mapped is not there.
    MissingContent {
        /// Which.
        id: ContentId,
    },
    /// A stream ends within an event: its thread was killed there, or the rest is lost.
    CutEvent {
        /// Which.
        stream: StreamId,
        /// How many whole ones it has.
        events: u64,
    },
    /// An event is none that a recorder writes.
    MalformedEvent {
        /// Its stream.
        stream: StreamId,
        /// Its number there.
        index: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A file the recording holds is not what its name says.
    BadContent {
        /// What is wrong.
        reason: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeingRecorded => {
                formatter.write_str("it is still being recorded; only what is there so far is used")
            }
            Self::NoIndex { reason } => {
                write!(formatter, "the index cannot be used ({reason}); it was rebuilt")
            }
            Self::LostBytes { file_offset, bytes, reason } => {
                write!(
                    formatter,
                    "{bytes} bytes at file offset {file_offset:#x} are lost: {reason}"
                )
            }
            Self::Damaged { place, reason } => write!(formatter, "{place} is damaged: {reason}"),
            Self::StreamCut { place, kept_chunks, kept_bytes } => write!(
                formatter,
                "{place} cannot be used because the chunk before it is lost; {kept_chunks} chunks \
                ({kept_bytes} bytes) of the stream are left"
            ),
            Self::UndeclaredStream { stream } => {
                write!(formatter, "the declaration of stream {stream} is lost")
            }
            Self::OldMetadata { reason } => {
                write!(
                    formatter,
                    "the metadata are damaged ({reason}); an older or secondary copy is used"
                )
            }
            Self::More { count } => write!(formatter, "and {count} more"),
            Self::MissingContent { id } => {
                write!(formatter, "a file that a program mapped is missing: {id}")
            }
            Self::CutEvent { stream, events } => {
                write!(
                    formatter,
                    "stream {stream} ends within an event, behind {events} whole ones"
                )
            }
            Self::MalformedEvent { stream, index, reason } => {
                write!(formatter, "event {index} of stream {stream} is malformed: {reason}")
            }
            Self::BadContent { reason } => {
                write!(formatter, "a file of the recording is damaged: {reason}")
            }
        }
    }
}

/// The most warnings that are kept of one recording: a damaged file can cause as many as it has
/// frames.
const MAX_WARNINGS: usize = 1000;

/// Warnings, and a count of those too many.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    list: Vec<Warning>,
    dropped_count: u64,
}

impl Warnings {
    pub(crate) fn push(&mut self, warning: Warning) {
        if self.list.len() < MAX_WARNINGS {
            self.list.push(warning);
        } else {
            self.dropped_count += 1;
        }
    }

    /// The list, ending with the number of those not in it.
    pub(crate) fn into_list(mut self) -> Vec<Warning> {
        if self.dropped_count > 0 {
            self.list.push(Warning::More { count: self.dropped_count });
        }
        self.list
    }
}
