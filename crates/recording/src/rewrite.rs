//! Rewrites a recording while it is made, without some of its streams, to keep a long recording
//! small.
//!
//! The new events file is written beside the old one and replaces it in one step. No file is
//! changed in place, so a recorder that is killed meanwhile leaves either the old file or the new
//! one. Other threads append to the old file while most of it is copied. What they added is copied
//! last, and they wait only for that part.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;

use crate::codec::{Codec, Encoder};
use crate::error::{Error, Result};
use crate::frame::{FrameHeader, FrameKind, PlacedFrame};
use crate::frame_writer::FrameWriter;
use crate::source::Source;
use crate::storage::ReservingFile;
use crate::stream_info::{StreamId, StreamInfo};
use crate::writer::{
    ChunkEvents, EVENTS_NAME, NEW_EVENTS_NAME, RecordingWriter, StreamEnd, create_private, lock,
    metadata_text,
};

/// What a rewrite does with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Keeps all of it.
    All,
    /// Keeps the beginning. Nothing more may be appended to the stream.
    Until {
        /// The number of bytes to keep.
        bytes: u64,
        /// The number of events that start in them.
        events: u64,
    },
    /// Drops the stream with its declaration. Nothing more may be appended to it.
    Nothing,
}

/// A stream whose contents a rewrite replaces. Bytes appended later follow the new ones.
#[derive(Debug, Clone)]
pub struct Replaced<'a> {
    /// The declaration of the stream.
    pub info: &'a StreamInfo,
    /// The new contents, chunk by chunk.
    pub chunks: &'a [(Vec<u8>, ChunkEvents)],
}

/// A rewrite of a recording from its state at one moment. [`RecordingWriter::begin_rewrite`]
/// creates it.
#[derive(Debug)]
pub struct Rewrite<'a> {
    writer: &'a RecordingWriter,
    source: Source,
    frames: Vec<PlacedFrame>,
}

impl RecordingWriter {
    /// Begins a rewrite, with the recording as it is now. There may be only one at a time.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn begin_rewrite(&self) -> Result<Rewrite<'_>> {
        let state = self.unfinished_state()?;
        let source = Source::open(&self.directory().join(EVENTS_NAME))?;
        Ok(Rewrite { writer: self, source, frames: state.frames.entries().to_vec() })
    }

    /// Returns the number of bytes that a stream takes in the events file.
    pub fn stored_bytes(&self, stream: StreamId) -> u64 {
        lock(&self.state).streams.get(&stream).map_or(0, |end| end.stored_bytes)
    }
}

impl Rewrite<'_> {
    /// Rewrites the recording. `keep` says what stays of each stream. The stream of `replaced` gets
    /// its new contents instead of what it held when the rewrite began. Streams declared since then
    /// are kept.
    ///
    /// # Errors
    /// `NoSpace`, `Damaged`, or an error of the operating system. The recording is then as it was,
    /// and goes on.
    pub fn run(self, keep: &dyn Fn(StreamId) -> Keep, replaced: &Replaced<'_>) -> Result<()> {
        let path = self.writer.directory().join(NEW_EVENTS_NAME);
        // A failed attempt may have left a file. The directory belongs to this recorder alone.
        let _ = fs::remove_file(&path);
        let result = self.write_to(&path, keep, replaced);
        if result.is_err() {
            let _ = fs::remove_file(&path);
        }
        result
    }

    fn write_to(
        self,
        path: &PathBuf,
        keep: &dyn Fn(StreamId) -> Keep,
        replaced: &Replaced<'_>,
    ) -> Result<()> {
        let Self { writer, source, frames } = self;
        let target = writer.directory().join(EVENTS_NAME);
        let file = create_private(path)?;
        let _ = file.try_lock(); // as in RecordingWriter::create
        let held = file.try_clone().map_err(|error| Error::io("open", path, error))?;
        let metadata = metadata_text(&lock(&writer.state).metadata, &target)?;
        let mut copy = Copy::new(FrameWriter::new(
            Box::new(ReservingFile::new(file)),
            &target,
            lock(&writer.state).frames.recording(),
        ));
        copy.frames.put_raw(FrameHeader::new(FrameKind::Metadata), &metadata)?;
        copy.put_replaced(replaced)?;
        for frame in &frames {
            let is_replaced = frame.1.stream == replaced.info.id.0;
            copy.take(
                &source,
                *frame,
                if is_replaced { Keep::Nothing } else { keep(StreamId(frame.1.stream)) },
            )?;
        }
        // Without this, the new name might reach the disk before the bytes. A power loss would then
        // leave neither the old file nor the new one.
        copy.frames.sync()?;
        let mut state = writer.unfinished_state()?;
        let source = Source::open(&target)?;
        for frame in &state.frames.entries()[frames.len()..] {
            copy.take(&source, *frame, keep(StreamId(frame.1.stream)))?;
        }
        fs::rename(path, &target).map_err(|error| Error::io("replace", &target, error))?;
        state.adopt(copy.frames, copy.streams, held);
        Ok(())
    }
}

/// Copies frames into the new file.
struct Copy {
    frames: FrameWriter,
    streams: HashMap<StreamId, StreamEnd>,
    encoder: Encoder,
    stored: Vec<u8>,
    bytes: Vec<u8>,
}

impl Copy {
    fn new(frames: FrameWriter) -> Self {
        Self {
            frames,
            streams: HashMap::new(),
            encoder: Encoder::new(),
            stored: Vec::new(),
            bytes: Vec::new(),
        }
    }

    fn put_replaced(&mut self, replaced: &Replaced<'_>) -> Result<()> {
        let id = replaced.info.id;
        self.declare(
            FrameHeader { stream: id.0, ..FrameHeader::new(FrameKind::Stream) },
            &replaced.info.encode(),
        )?;
        replaced.chunks.iter().try_for_each(|(bytes, events)| self.put_encoded(id, bytes, *events))
    }

    fn take(&mut self, source: &Source, (offset, header): PlacedFrame, keep: Keep) -> Result<()> {
        match (header.kind, keep) {
            (FrameKind::Stream | FrameKind::Chunk, Keep::Nothing) => Ok(()),
            (FrameKind::Stream, _) => {
                source.read_stored(offset, &header, &mut self.stored)?;
                let declaration = std::mem::take(&mut self.stored);
                let result = if self.streams.contains_key(&StreamId(header.stream)) {
                    Ok(())
                } else {
                    self.declare(header, &declaration)
                };
                self.stored = declaration;
                result
            }
            (FrameKind::Chunk, Keep::Until { bytes, events }) => {
                self.take_beginning(source, (offset, header), bytes, events)
            }
            (FrameKind::Chunk, Keep::All) => {
                source.read_stored(offset, &header, &mut self.stored)?;
                let stored = std::mem::take(&mut self.stored);
                let result = self.put_chunk(header, &stored);
                self.stored = stored;
                result
            }
            // The writer makes these anew, or writes them at the end.
            _ => Ok(()),
        }
    }

    /// Copies the part of a chunk that lies within the first `bytes` of its stream.
    fn take_beginning(
        &mut self,
        source: &Source,
        (offset, header): PlacedFrame,
        bytes: u64,
        events: u64,
    ) -> Result<()> {
        let id = StreamId(header.stream);
        let before = self.streams.get(&id).copied().unwrap_or_default();
        if bytes <= before.bytes {
            return Ok(());
        }
        if bytes - before.bytes >= u64::from(header.uncompressed_bytes) {
            return self.take(source, (offset, header), Keep::All);
        }
        let mut chunk = std::mem::take(&mut self.bytes);
        source.read_frame(offset, &header, &mut self.stored, &mut chunk)?;
        chunk.truncate((bytes - before.bytes) as usize);
        let count = events.saturating_sub(before.events) as u32;
        let result = self.put_encoded(
            id,
            &chunk,
            ChunkEvents { first: header.first_event.filter(|_| count > 0), count },
        );
        self.bytes = chunk;
        result
    }

    fn declare(&mut self, header: FrameHeader, declaration: &[u8]) -> Result<()> {
        let before = self.frames.end();
        self.frames.put_raw(header, declaration)?;
        let stored_bytes = self.frames.end() - before;
        self.streams
            .insert(StreamId(header.stream), StreamEnd { stored_bytes, ..StreamEnd::default() });
        Ok(())
    }

    fn put_encoded(&mut self, stream: StreamId, bytes: &[u8], events: ChunkEvents) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut encoder = std::mem::replace(&mut self.encoder, Encoder::new());
        let (stored_as, stored) = encoder.encode(bytes, Codec::Small);
        let mut header = FrameHeader {
            stream: stream.0,
            first_event: events.first,
            event_count: events.count,
            ..FrameHeader::new(FrameKind::Chunk)
        };
        header.describe_payload(stored_as, bytes.len(), stored);
        let result = self.put_chunk(header, stored);
        self.encoder = encoder;
        result
    }

    fn put_chunk(&mut self, header: FrameHeader, stored: &[u8]) -> Result<()> {
        let end = self.streams.entry(StreamId(header.stream)).or_default();
        let placed = FrameHeader { sequence: end.chunks, offset: end.bytes, ..header };
        self.frames.put(placed, stored)?;
        end.add(&placed);
        Ok(())
    }
}

impl crate::writer::State {
    /// Continues with another file. The caller has made sure that it holds what this one does.
    fn adopt(&mut self, frames: FrameWriter, streams: HashMap<StreamId, StreamEnd>, held: File) {
        self.frames = frames;
        self.streams = streams;
        self.held = Some(held);
    }
}
