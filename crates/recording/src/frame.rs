//! The frame: the unit of a recording file. It has a header of fixed size, the stored bytes, and
//! zeros up to a multiple of eight.
//!
//! Invariants: every field is little-endian. The header's checksum covers the header *and its place
//! in the file*, so a copy of a frame inside the data of another one is never taken for a frame. A
//! header that decodes is consistent in itself.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::error::FramePlace;
use crate::stream_info::StreamId;

/// The only format version that this build reads and writes.
pub const FORMAT_VERSION: u16 = 2;

/// The most uncompressed bytes a frame may carry.
pub const MAX_CHUNK_BYTES: usize = 16 << 20;

/// The size of a frame's header.
pub const HEADER_BYTES: usize = 64;

pub(crate) const MAGIC: [u8; 4] = *b"RTKF";
pub(crate) const ALIGNMENT: u64 = 8;
const NO_EVENT: u32 = u32::MAX;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// The metadata as JSON. The first frame has some; the last copy in the file counts.
    Metadata,
    /// The declaration of a stream.
    Stream,
    /// A piece of a stream.
    Chunk,
    /// The declaration of a content (packed recordings): its hash and size.
    Content,
    /// A piece of a content (packed recordings).
    ContentChunk,
    /// The offsets and headers of the frames before it.
    Index,
    /// The last frame of a finished file: where the index begins.
    Trailer,
}

/// How the bytes of a frame are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredAs {
    Raw,
    Lz4,
    Zstd,
    /// Not at all: a chunk that is left out. Its size and its events still count.
    LeftOut,
}

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub kind: FrameKind,
    pub stored_as: StoredAs,
    /// The stream number; for content frames, the content's number; otherwise 0.
    pub stream: u32,
    /// The frame's number among the frames of its kind and stream.
    pub sequence: u32,
    /// The offset of its bytes in the uncompressed stream or content. For a trailer, the file
    /// offset of the first index frame.
    pub offset: u64,
    /// The offset of the first event that starts in this chunk.
    pub first_event: Option<u32>,
    /// The number of events that start in this chunk.
    pub event_count: u32,
    pub uncompressed_bytes: u32,
    pub stored_bytes: u32,
    pub stored_hash: u64,
    /// The recording's number: the same in all its frames, and different in other recordings.
    pub recording: u64,
}

/// A frame with its offset in the file.
pub(crate) type PlacedFrame = (u64, FrameHeader);

/// Why 64 bytes are not a frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    NoMagic,
    Version(u16),
    Checksum,
    Inconsistent(&'static str),
}

impl HeaderFault {
    pub(crate) fn describe(self) -> String {
        match self {
            Self::NoMagic => "no frame starts here".to_owned(),
            Self::Version(found) => format!("its format version is {found}"),
            Self::Checksum => "the checksum of its header is wrong".to_owned(),
            Self::Inconsistent(reason) => reason.to_owned(),
        }
    }
}

impl FrameHeader {
    /// Returns a header of this kind with all other fields zero.
    pub(crate) fn new(kind: FrameKind) -> Self {
        Self {
            kind,
            stored_as: StoredAs::Raw,
            stream: 0,
            sequence: 0,
            offset: 0,
            first_event: None,
            event_count: 0,
            uncompressed_bytes: 0,
            stored_bytes: 0,
            stored_hash: 0,
            recording: 0,
        }
    }

    /// Sets the size and hash of the stored bytes.
    pub(crate) fn describe_payload(
        &mut self,
        stored_as: StoredAs,
        uncompressed_bytes: usize,
        stored: &[u8],
    ) {
        assert!(uncompressed_bytes <= MAX_CHUNK_BYTES && stored.len() <= uncompressed_bytes);
        self.stored_as = stored_as;
        self.uncompressed_bytes = uncompressed_bytes as u32;
        self.stored_bytes = stored.len() as u32;
        self.stored_hash = payload_hash(stored);
    }

    /// Returns the size of the whole frame, with its padding.
    pub(crate) fn frame_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.stored_bytes).next_multiple_of(ALIGNMENT)
    }

    /// Returns the place of this frame, for messages.
    pub(crate) fn place(&self, file_offset: u64) -> FramePlace {
        match self.kind {
            FrameKind::Chunk => FramePlace {
                file_offset,
                stream: Some(StreamId(self.stream)),
                sequence: Some(self.sequence),
            },
            FrameKind::Stream => {
                FramePlace { file_offset, stream: Some(StreamId(self.stream)), sequence: None }
            }
            _ => FramePlace::at(file_offset),
        }
    }

    /// Encodes the header for its place at `file_offset`.
    pub(crate) fn encode(&self, file_offset: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[6] = kind_number(self.kind);
        bytes[7] = stored_as_number(self.stored_as);
        bytes[8..12].copy_from_slice(&self.stream.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.first_event.unwrap_or(NO_EVENT).to_le_bytes());
        bytes[28..32].copy_from_slice(&self.event_count.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.uncompressed_bytes.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.stored_hash.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.recording.to_le_bytes());
        restamp(&mut bytes, file_offset);
        bytes
    }

    /// Decodes a header at `file_offset`, and checks all that can be checked without the rest of
    /// the file.
    pub(crate) fn decode(
        bytes: &[u8; HEADER_BYTES],
        file_offset: u64,
    ) -> Result<Self, HeaderFault> {
        if bytes[0..4] != MAGIC {
            return Err(HeaderFault::NoMagic);
        }
        if header_hash(bytes, file_offset) != read_u64(bytes, 56) {
            return Err(HeaderFault::Checksum);
        }
        let version = stated_version(bytes);
        if version != FORMAT_VERSION {
            return Err(HeaderFault::Version(version));
        }
        let first_event = read_u32(bytes, 24);
        let header = Self {
            kind: kind_of_number(bytes[6])
                .ok_or(HeaderFault::Inconsistent("its kind is unknown"))?,
            stored_as: stored_as_of_number(bytes[7])
                .ok_or(HeaderFault::Inconsistent("its compression is unknown"))?,
            stream: read_u32(bytes, 8),
            sequence: read_u32(bytes, 12),
            offset: read_u64(bytes, 16),
            first_event: (first_event != NO_EVENT).then_some(first_event),
            event_count: read_u32(bytes, 28),
            uncompressed_bytes: read_u32(bytes, 32),
            stored_bytes: read_u32(bytes, 36),
            stored_hash: read_u64(bytes, 40),
            recording: read_u64(bytes, 48),
        };
        header.check().map_err(HeaderFault::Inconsistent)?;
        Ok(header)
    }

    /// Whether the chunk's bytes are left out.
    pub(crate) fn is_left_out(&self) -> bool {
        self.stored_as == StoredAs::LeftOut
    }

    /// Adds the next chunk to one that is left out. Returns false if their sizes do not fit into
    /// one header.
    pub(crate) fn leave_out_too(&mut self, next: &Self) -> bool {
        let bytes = self.uncompressed_bytes.checked_add(next.uncompressed_bytes);
        let count = self.event_count.checked_add(next.event_count);
        let next_first = next.first_event.map(|first| self.uncompressed_bytes.checked_add(first));
        let (Some(bytes), Some(count), None | Some(Some(_))) = (bytes, count, next_first) else {
            return false;
        };
        self.first_event = self.first_event.or(next_first.flatten());
        (self.uncompressed_bytes, self.event_count) = (bytes, count);
        true
    }

    /// Returns the header of this chunk if its bytes are left out.
    pub(crate) fn left_out(&self) -> Self {
        let mut header = *self;
        (header.stored_as, header.stored_bytes) = (StoredAs::LeftOut, 0);
        header.stored_hash = payload_hash(&[]);
        header
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.uncompressed_bytes as usize > MAX_CHUNK_BYTES && !self.is_left_out() {
            return Err("it claims more bytes than a frame may carry");
        }
        let sizes_agree = match self.stored_as {
            StoredAs::Raw => self.stored_bytes == self.uncompressed_bytes,
            // Bytes that do not get smaller are stored uncompressed.
            StoredAs::Lz4 | StoredAs::Zstd => self.stored_bytes < self.uncompressed_bytes,
            StoredAs::LeftOut => self.stored_bytes == 0,
        };
        if !sizes_agree {
            return Err("its stored and uncompressed sizes contradict each other");
        }
        if !events_fit(self.uncompressed_bytes as usize, self.first_event, self.event_count) {
            return Err("its event count contradicts its size");
        }
        let may_be_compressed = matches!(self.kind, FrameKind::Chunk | FrameKind::ContentChunk);
        if self.kind == FrameKind::Chunk && self.uncompressed_bytes == 0 {
            return Err("it is a chunk without bytes");
        }
        if self.stored_as != StoredAs::Raw && !may_be_compressed {
            return Err("a frame of its kind is never compressed");
        }
        if self.is_left_out() && self.kind != FrameKind::Chunk {
            return Err("a frame of its kind is never left out");
        }
        Ok(())
    }
}

/// Whether `count` events, the first at `first`, can start in a chunk of `bytes`. This crate does
/// not know event sizes, so an event counts as at least one byte.
pub(crate) fn events_fit(bytes: usize, first: Option<u32>, count: u32) -> bool {
    match first {
        None => count == 0,
        Some(first) => count > 0 && u64::from(first) + u64::from(count) <= bytes as u64,
    }
}

/// Returns the checksum of a frame's stored bytes.
pub(crate) fn payload_hash(stored: &[u8]) -> u64 {
    xxh3_64(stored)
}

/// Returns the format version that a frame states, even if nothing else in it can be understood.
/// The version has the same place in all formats.
pub(crate) fn stated_version(bytes: &[u8; HEADER_BYTES]) -> u16 {
    u16::from_le_bytes([bytes[4], bytes[5]])
}

/// Gives a header the correct checksum for its place at `file_offset`.
pub(crate) fn restamp(bytes: &mut [u8; HEADER_BYTES], file_offset: u64) {
    let checksum = header_hash(bytes, file_offset);
    bytes[56..64].copy_from_slice(&checksum.to_le_bytes());
}

fn header_hash(bytes: &[u8; HEADER_BYTES], file_offset: u64) -> u64 {
    xxh3_64_with_seed(&bytes[..56], file_offset)
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

fn kind_number(kind: FrameKind) -> u8 {
    match kind {
        FrameKind::Metadata => 1,
        FrameKind::Stream => 2,
        FrameKind::Chunk => 3,
        FrameKind::Content => 4,
        FrameKind::ContentChunk => 5,
        FrameKind::Index => 6,
        FrameKind::Trailer => 7,
    }
}

fn kind_of_number(number: u8) -> Option<FrameKind> {
    Some(match number {
        1 => FrameKind::Metadata,
        2 => FrameKind::Stream,
        3 => FrameKind::Chunk,
        4 => FrameKind::Content,
        5 => FrameKind::ContentChunk,
        6 => FrameKind::Index,
        7 => FrameKind::Trailer,
        _ => return None,
    })
}

pub(crate) fn stored_as_number(stored_as: StoredAs) -> u8 {
    match stored_as {
        StoredAs::Raw => 0,
        StoredAs::Lz4 => 1,
        StoredAs::Zstd => 2,
        StoredAs::LeftOut => 3,
    }
}

pub(crate) fn stored_as_of_number(number: u8) -> Option<StoredAs> {
    Some(match number {
        0 => StoredAs::Raw,
        1 => StoredAs::Lz4,
        2 => StoredAs::Zstd,
        3 => StoredAs::LeftOut,
        _ => return None,
    })
}
