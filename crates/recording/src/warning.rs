//! Warnings about what a damaged recording has lost.

use std::fmt;

use crate::ContentId;
use crate::error::FramePlace;
use crate::stream_info::StreamId;

/// A defect of a recording whose rest can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A recorder is writing the recording. What is there so far can be read.
    BeingRecorded,
    /// The index is missing or damaged, so the whole file was searched for chunks.
    NoIndex {
        /// The reason.
        reason: String,
    },
    /// A part of the file has no frame.
    LostBytes {
        /// The offset of the part in the file.
        file_offset: u64,
        /// The size of the part.
        bytes: u64,
        /// What is wrong at its beginning.
        reason: String,
    },
    /// A frame is unusable.
    Damaged {
        /// The frame.
        place: FramePlace,
        /// What is wrong.
        reason: String,
    },
    /// A stream ends early, because the chunk that should come next is missing.
    StreamCut {
        /// The first chunk that could not be used.
        place: FramePlace,
        /// The number of chunks before the gap.
        kept_chunks: usize,
        /// The number of bytes in these chunks.
        kept_bytes: u64,
    },
    /// The declaration of a stream is missing.
    UndeclaredStream {
        /// The stream.
        stream: StreamId,
    },
    /// The metadata came from `recording.json`, or from an earlier frame, because the last copy is
    /// damaged.
    OldMetadata {
        /// What is wrong with the last copy.
        reason: String,
    },
    /// There were too many warnings to keep.
    More {
        /// The number of warnings that are not listed.
        count: u64,
    },
    /// A file that a program mapped or read, or the runtime, is missing.
    MissingContent {
        /// The content.
        id: ContentId,
    },
    /// A stream ends within an event: its thread was killed there, or the rest is lost.
    CutEvent {
        /// The stream.
        stream: StreamId,
        /// The number of whole events that it has.
        events: u64,
    },
    /// An event is not one that a recorder writes.
    MalformedEvent {
        /// The stream of the event.
        stream: StreamId,
        /// The number of the event in the stream.
        index: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A file in the recording does not match its name.
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
                write!(formatter, "a file that replay needs is missing: {id}")
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

/// The most warnings kept for a recording. A damaged file can cause as many as it has frames.
const MAX_WARNINGS: usize = 1000;

/// A list of warnings, with a count of those left out.
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

    /// Returns the list. Its last entry is the number of warnings left out, if there are any.
    pub(crate) fn into_list(mut self) -> Vec<Warning> {
        if self.dropped_count > 0 {
            self.list.push(Warning::More { count: self.dropped_count });
        }
        self.list
    }
}
