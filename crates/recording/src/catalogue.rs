//! What a recording file holds and where, built up frame by frame.
//!
//! Invariant: the catalogued chunks of a stream are its first ones, without a gap. The first chunk
//! that does not follow ends the stream with a warning.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::ContentId;
use crate::error::Result;
use crate::frame::{FrameHeader, FrameKind, PlacedFrame, read_u64};
use crate::metadata::MAX_METADATA_BYTES;
use crate::source::Source;
use crate::stream_info::{StreamId, StreamInfo};
use crate::warning::{Warning, Warnings};

/// Consecutive pieces of something, in order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub frames: Vec<PlacedFrame>,
    pub bytes: u64,
    /// Whether a piece was missing. Then no more are accepted.
    cut: bool,
}

impl Pieces {
    /// Accepts the next piece. The error says why it does not follow the last one.
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

/// What `--keep-last` left out of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Events.
    pub events: u64,
    /// Bytes in which they start.
    pub bytes: u64,
}

/// A stream in the catalogue.
#[derive(Debug)]
pub(crate) struct CataloguedStream {
    pub info: StreamInfo,
    pub pieces: Pieces,
    pub event_count: u64,
    pub left_out: LeftOut,
}

/// A file carried inside a packed recording.
#[derive(Debug)]
pub(crate) struct CataloguedContent {
    pub bytes: u64,
    pub pieces: Pieces,
}

/// All that was found in a recording file.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub metadata: Vec<PlacedFrame>,
    pub streams: BTreeMap<StreamId, CataloguedStream>,
    pub contents: BTreeMap<ContentId, CataloguedContent>,
    content_numbers: BTreeMap<u32, ContentId>,
    pub warnings: Warnings,
}

impl Catalogue {
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
                    CataloguedStream {
                        info,
                        pieces: Pieces::default(),
                        event_count: 0,
                        left_out: LeftOut::default(),
                    },
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
                left_out: LeftOut::default(),
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
            if header.is_left_out() {
                stream.left_out.bytes += u64::from(header.uncompressed_bytes);
                stream.left_out.events += u64::from(header.event_count);
            }
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
        // A missing piece shows when the file is read, because the file's size is known.
        let result = content
            .map_or(Err("it belongs to no file"), |content| content.pieces.push(offset, header));
        if let Err(reason) = result {
            self.warnings
                .push(Warning::Damaged { place: header.place(offset), reason: reason.to_owned() });
        }
    }

    /// Reads the payload of a declaration. If it is damaged, adds a warning and returns `None`.
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

/// The size of a content's declaration: its hash and its size.
pub(crate) const CONTENT_DECLARATION_BYTES: usize = 40;
const MAX_DECLARATION_BYTES: usize = 4096;
const _: () = assert!(MAX_DECLARATION_BYTES < MAX_METADATA_BYTES);
