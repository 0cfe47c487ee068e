//! What a recording file holds and where: built from the index, or by a scan when there is no
//! usable index.
//!
//! Invariant: the chunks of a stream in the catalogue are its first ones, without a gap. The first
//! chunk that does not follow ends its stream, and a warning says so.

use std::collections::BTreeMap;

use crate::ContentId;
use crate::error::{FramePlace, Result};
use crate::frame::{FrameHeader, FrameKind, HEADER_BYTES, read_u64};
use crate::frame_writer::INDEX_ENTRY_BYTES;
use crate::metadata::MAX_METADATA_BYTES;
use crate::scan::scan;
use crate::source::Source;
use crate::stream_info::{StreamId, StreamInfo};
use crate::warning::{Warning, Warnings};

/// A frame and where it is.
pub(crate) type PlacedFrame = (u64, FrameHeader);

/// Consecutive pieces of something, in order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub frames: Vec<PlacedFrame>,
    pub bytes: u64,
    /// True once a piece was missing: no more are accepted.
    cut: bool,
}

impl Pieces {
    /// Accepts the next piece; the error is why it does not follow.
    fn push(&mut self, offset: u64, header: FrameHeader) -> std::result::Result<(), &'static str> {
        if self.cut {
            return Ok(());
        }
        if header.sequence as usize != self.frames.len() || header.offset != self.bytes {
            self.cut = true;
            return Err("a chunk before it is missing or damaged");
        }
        self.bytes += u64::from(header.uncompressed_bytes);
        self.frames.push((offset, header));
        Ok(())
    }
}

/// One stream of the catalogue.
#[derive(Debug)]
pub(crate) struct CataloguedStream {
    pub info: StreamInfo,
    pub pieces: Pieces,
    pub event_count: u64,
}

/// One file carried inside a packed recording.
#[derive(Debug)]
pub(crate) struct CataloguedContent {
    pub bytes: u64,
    pub pieces: Pieces,
}

/// Everything found in a recording file.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub metadata: Vec<PlacedFrame>,
    pub streams: BTreeMap<StreamId, CataloguedStream>,
    pub contents: BTreeMap<ContentId, CataloguedContent>,
    content_numbers: BTreeMap<u32, ContentId>,
    pub warnings: Warnings,
}

impl Catalogue {
    /// Finds out what `source` holds.
    pub(crate) fn build(source: &Source) -> Result<Self> {
        let mut catalogue = Self::default();
        match read_index(source)? {
            Ok(entries) => entries
                .into_iter()
                .try_for_each(|(offset, header)| catalogue.add(source, offset, header))?,
            Err(reason) => {
                let warning = match source.is_being_recorded() {
                    true => Warning::BeingRecorded,
                    false => Warning::NoIndex { reason },
                };
                catalogue.warnings.push(warning);
                scan(source, &mut catalogue)?;
            }
        }
        Ok(catalogue)
    }

    /// Adds one frame. A damaged declaration becomes a warning; only a failing disk is an error.
    pub(crate) fn add(&mut self, source: &Source, offset: u64, header: FrameHeader) -> Result<()> {
        match header.kind {
            FrameKind::Metadata => self.metadata.push((offset, header)),
            FrameKind::Stream => self.add_stream(source, offset, header)?,
            FrameKind::Chunk => self.add_chunk(offset, header),
            FrameKind::Content => self.add_content(source, offset, header)?,
            FrameKind::ContentChunk => self.add_content_chunk(offset, header),
            FrameKind::Index | FrameKind::Trailer => {}
        }
        Ok(())
    }

    fn add_stream(&mut self, source: &Source, offset: u64, header: FrameHeader) -> Result<()> {
        let id = StreamId(header.stream);
        let Some(bytes) = self.read_declaration(source, offset, header)? else {
            return Ok(());
        };
        let place = header.place(offset);
        match StreamInfo::decode(id, &bytes) {
            Err(reason) => {
                self.warnings.push(Warning::Damaged { place, reason: reason.to_owned() })
            }
            Ok(_) if self.streams.contains_key(&id) => {
                let reason =
                    "the stream is declared twice, or has chunks before its declaration".to_owned();
                self.warnings.push(Warning::Damaged { place, reason });
            }
            Ok(info) => {
                self.streams.insert(
                    id,
                    CataloguedStream { info, pieces: Pieces::default(), event_count: 0 },
                );
            }
        }
        Ok(())
    }

    fn add_chunk(&mut self, offset: u64, header: FrameHeader) {
        let id = StreamId(header.stream);
        let warnings = &mut self.warnings;
        let stream = self.streams.entry(id).or_insert_with(|| {
            warnings.push(Warning::UndeclaredStream { stream: id });
            CataloguedStream {
                info: StreamInfo::lost(id),
                pieces: Pieces::default(),
                event_count: 0,
            }
        });
        let (kept_chunks, was_cut) = (stream.pieces.frames.len(), stream.pieces.cut);
        if stream.pieces.push(offset, header).is_err() {
            warnings.push(Warning::StreamCut {
                place: header.place(offset),
                kept_chunks,
                kept_bytes: stream.pieces.bytes,
            });
        } else if !was_cut {
            stream.event_count += u64::from(header.event_count);
        }
    }

    fn add_content(&mut self, source: &Source, offset: u64, header: FrameHeader) -> Result<()> {
        let Some(bytes) = self.read_declaration(source, offset, header)? else {
            return Ok(());
        };
        let Ok(declaration) = <[u8; CONTENT_DECLARATION_BYTES]>::try_from(bytes) else {
            let reason = "the declaration of a file has the wrong size".to_owned();
            self.warnings.push(Warning::Damaged { place: header.place(offset), reason });
            return Ok(());
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(&declaration[..32]);
        let id = ContentId(hash);
        let is_new =
            !self.contents.contains_key(&id) && !self.content_numbers.contains_key(&header.stream);
        if !is_new {
            let reason = format!("the file with content {id} is declared twice");
            self.warnings.push(Warning::Damaged { place: header.place(offset), reason });
            return Ok(());
        }
        self.content_numbers.insert(header.stream, id);
        let content =
            CataloguedContent { bytes: read_u64(&declaration, 32), pieces: Pieces::default() };
        self.contents.insert(id, content);
        Ok(())
    }

    fn add_content_chunk(&mut self, offset: u64, header: FrameHeader) {
        let content =
            self.content_numbers.get(&header.stream).and_then(|id| self.contents.get_mut(id));
        // A missing piece shows when the file is asked for: its size is known.
        let result = content
            .map_or(Err("it belongs to no file"), |content| content.pieces.push(offset, header));
        if let Err(reason) = result {
            self.warnings
                .push(Warning::Damaged { place: header.place(offset), reason: reason.to_owned() });
        }
    }

    /// The payload of a declaration, or `None` and a warning if it is damaged.
    fn read_declaration(
        &mut self,
        source: &Source,
        offset: u64,
        header: FrameHeader,
    ) -> Result<Option<Vec<u8>>> {
        let place = header.place(offset);
        if header.stored_bytes as usize > MAX_DECLARATION_BYTES {
            let reason = "a declaration cannot be so large".to_owned();
            self.warnings.push(Warning::Damaged { place, reason });
            return Ok(None);
        }
        let mut bytes = Vec::new();
        match source.read_frame(offset, &header, &mut Vec::new(), &mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(crate::Error::Damaged { reason, .. }) => {
                self.warnings.push(Warning::Damaged { place, reason });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Bytes of the declaration of a content: its hash, its size.
pub(crate) const CONTENT_DECLARATION_BYTES: usize = 40;
const MAX_DECLARATION_BYTES: usize = 4096;
const _: () = assert!(MAX_DECLARATION_BYTES < MAX_METADATA_BYTES);

/// The entries of the index, or why there is no usable one.
fn read_index(source: &Source) -> Result<std::result::Result<Vec<PlacedFrame>, String>> {
    let Some(trailer_offset) = source.length().checked_sub(HEADER_BYTES as u64) else {
        return Ok(Err("the file is too short".to_owned()));
    };
    let trailer = match source.read_header(trailer_offset)? {
        Ok(header) if header.kind == FrameKind::Trailer => header,
        _ => {
            return Ok(Err("the recording was not finished, or its end is missing".to_owned()));
        }
    };
    let mut entries = Vec::new();
    let mut offset = trailer.offset;
    let mut sequence = 0;
    let mut bytes = Vec::new();
    while offset < trailer_offset {
        let place = FramePlace::at(offset);
        let header = match source.read_header(offset)? {
            Ok(header) => header,
            Err(fault) => {
                return Ok(Err(format!(
                    "{place}, part of the index, is damaged: {}",
                    fault.describe()
                )));
            }
        };
        let expected = header.kind == FrameKind::Index
            && header.sequence == sequence
            && header.recording == trailer.recording;
        if !expected {
            return Ok(Err(format!("{place} should be part of the index")));
        }
        match source.read_stored(offset, &header, &mut bytes) {
            Ok(()) => {}
            Err(crate::Error::Damaged { reason, .. }) => {
                return Ok(Err(format!("{place}, part of the index: {reason}")));
            }
            Err(error) => return Err(error),
        }
        if let Err(reason) = decode_entries(&bytes, trailer.recording, trailer.offset, &mut entries)
        {
            return Ok(Err(format!("{place}, part of the index: {reason}")));
        }
        offset += header.frame_bytes();
        sequence += 1;
    }
    Ok(if offset == trailer_offset {
        Ok(entries)
    } else {
        Err("the index overlaps the trailer".to_owned())
    })
}

/// Appends the entries in `bytes` to `entries`; they must be of this recording, in order, apart,
/// and before the index.
fn decode_entries(
    bytes: &[u8],
    recording: u64,
    index_offset: u64,
    entries: &mut Vec<PlacedFrame>,
) -> std::result::Result<(), &'static str> {
    let (parts, []) = bytes.as_chunks::<INDEX_ENTRY_BYTES>() else {
        return Err("its size is not that of whole entries");
    };
    let mut free_from = entries.last().map_or(0, |(offset, header)| offset + header.frame_bytes());
    for part in parts {
        let offset = read_u64(part, 0);
        let mut header_bytes = [0; HEADER_BYTES];
        header_bytes.copy_from_slice(&part[8..]);
        let header = FrameHeader::decode(&header_bytes, offset)
            .map_err(|_| "an entry is not the header of a frame")?;
        let end =
            offset.checked_add(header.frame_bytes()).ok_or("an entry lies outside the file")?;
        if offset < free_from || end > index_offset {
            return Err("an entry is out of order or lies outside the file");
        }
        if header.recording != recording {
            return Err("an entry is of another recording");
        }
        free_from = end;
        entries.push((offset, header));
    }
    Ok(())
}
