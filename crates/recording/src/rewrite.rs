//! Rewrites a recording while it is made, without some of its streams, to keep a long recording
//! small.
//!
//! The new events file is written beside the old one and replaces it in one step. No file is
//! changed in place, so a recorder that is killed meanwhile leaves either the old file or the new
//! one. Other threads append to the old file while most of it is copied. What they added is copied
//! last, and they wait only for that part.

use std::collections::{BTreeMap, HashMap};
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

/// A place between two events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The number of bytes before it.
    pub bytes: u64,
    /// The number of events before it.
    pub events: u64,
}

/// What a rewrite does with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Keeps all of it.
    All,
    /// Leaves out what comes before an event of the stream. A last chunk that ends there is kept,
    /// and so are the chunks with the first two events, with which processes begin, and with the
    /// two events before a program.
    From {
        /// Where what is kept begins.
        place: Place,
        /// The number of events before the program that the process executes there.
        program: u64,
    },
    /// Keeps the beginning. Nothing more may be appended to the stream.
    Until(Place),
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

    /// Returns the bytes that [`Keep::From`] would leave out of the file, if what is kept of these
    /// streams begins at these bytes.
    pub fn stored_before(&self, from: &BTreeMap<u32, Place>) -> u64 {
        let is_past = |(_, header): &&PlacedFrame| {
            header.kind == FrameKind::Chunk
                && !header.is_left_out()
                && header.offset > 0
                && from.get(&header.stream).is_some_and(|place| end_of(header) <= place.bytes)
        };
        lock(&self.state)
            .frames
            .entries()
            .iter()
            .filter(is_past)
            .map(|(_, header)| header.frame_bytes())
            .sum()
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
        let last: HashMap<u32, u64> = chunks_of(&frames).collect();
        for frame in &frames {
            let is_replaced = frame.1.stream == replaced.info.id.0;
            let keep = match keep(StreamId(frame.1.stream)) {
                _ if is_replaced => Keep::Nothing,
                Keep::From { place, .. }
                    if last.get(&frame.1.stream) == Some(&frame.0)
                        && end_of(&frame.1) <= place.bytes =>
                {
                    Keep::All
                }
                keep => keep,
            };
            copy.take(&source, *frame, keep)?;
        }
        // Without this, the new name might reach the disk before the bytes. A power loss would then
        // leave neither the old file nor the new one.
        copy.frames.sync()?;
        let mut state = writer.unfinished_state()?;
        let source = Source::open(&target)?;
        for frame in &state.frames.entries()[frames.len()..] {
            let keep = match keep(StreamId(frame.1.stream)) {
                Keep::From { .. } => Keep::All,
                keep => keep,
            };
            copy.take(&source, *frame, keep)?;
        }
        copy.put_all_left_out()?;
        fs::rename(path, &target).map_err(|error| Error::io("replace", &target, error))?;
        state.adopt(copy.frames, copy.streams, held);
        Ok(())
    }
}

/// Copies frames into the new file.
/// The number of events with which a process begins (START, EXEC), and a program: the call that
/// executes it, and EXEC.
const FIRST_EVENTS: u64 = 2;

/// Where a chunk ends in its stream.
fn end_of(header: &FrameHeader) -> u64 {
    header.offset.saturating_add(u64::from(header.uncompressed_bytes))
}

/// The stream and the place of each chunk.
fn chunks_of(frames: &[PlacedFrame]) -> impl Iterator<Item = (u32, u64)> {
    let is_chunk = |(_, header): &&PlacedFrame| header.kind == FrameKind::Chunk;
    frames.iter().filter(is_chunk).map(|(offset, header)| (header.stream, *offset))
}

struct Copy {
    frames: FrameWriter,
    streams: HashMap<StreamId, StreamEnd>,
    /// For each stream, chunks to be left out that are not written yet, as one.
    left_out: HashMap<u32, FrameHeader>,
    encoder: Encoder,
    stored: Vec<u8>,
    bytes: Vec<u8>,
}

impl Copy {
    fn new(frames: FrameWriter) -> Self {
        Self {
            frames,
            streams: HashMap::new(),
            left_out: HashMap::new(),
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
            (FrameKind::Chunk, Keep::Until(place)) => {
                self.take_beginning(source, (offset, header), place)
            }
            (FrameKind::Chunk, _) if header.is_left_out() => self.leave_out(header),
            (FrameKind::Chunk, Keep::From { place, program })
                if header.offset < place.bytes && !self.is_spared(&header, program) =>
            {
                self.take_end(source, (offset, header), place)
            }
            (FrameKind::Chunk, _) => {
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

    /// The number of events that start before the next chunk of a stream.
    fn events_before(&self, stream: u32) -> u64 {
        let written = self.streams.get(&StreamId(stream)).map_or(0, |end| end.events);
        let left_out = self.left_out.get(&stream).map_or(0, |one| one.event_count);
        written + u64::from(left_out)
    }

    /// Whether a chunk has one of the first events of its stream or of a program.
    fn is_spared(&self, header: &FrameHeader, program: u64) -> bool {
        let before = self.events_before(header.stream);
        let behind = before + u64::from(header.event_count);
        before < FIRST_EVENTS || before < program && behind + FIRST_EVENTS > program
    }

    /// Leaves out the part of a chunk that lies before a place, and copies the rest.
    fn take_end(
        &mut self,
        source: &Source,
        (offset, header): PlacedFrame,
        place: Place,
    ) -> Result<()> {
        if end_of(&header) <= place.bytes {
            return self.leave_out(header);
        }
        let mut chunk = std::mem::take(&mut self.bytes);
        source.read_frame(offset, &header, &mut self.stored, &mut chunk)?;
        let before = place.events.saturating_sub(self.events_before(header.stream));
        let before = u32::try_from(before).unwrap_or(u32::MAX).min(header.event_count);
        let bytes = (place.bytes - header.offset) as u32;
        self.leave_out(FrameHeader {
            first_event: header.first_event.filter(|_| before > 0),
            event_count: before,
            uncompressed_bytes: bytes,
            ..header
        })?;
        let count = header.event_count - before;
        let events = ChunkEvents { first: (count > 0).then_some(0), count };
        let result = self.put_encoded(StreamId(header.stream), &chunk[bytes as usize..], events);
        self.bytes = chunk;
        result
    }

    fn leave_out(&mut self, header: FrameHeader) -> Result<()> {
        let merged = self.left_out.get_mut(&header.stream).map(|one| one.leave_out_too(&header));
        if merged == Some(true) {
            return Ok(());
        }
        self.put_left_out(header.stream)?;
        self.left_out.insert(header.stream, header.left_out());
        Ok(())
    }

    fn put_left_out(&mut self, stream: u32) -> Result<()> {
        self.left_out.remove(&stream).map_or(Ok(()), |header| self.put_next(header, &[]))
    }

    fn put_all_left_out(&mut self) -> Result<()> {
        let streams: Vec<u32> = self.left_out.keys().copied().collect();
        streams.into_iter().try_for_each(|stream| self.put_left_out(stream))
    }

    /// Copies the part of a chunk that lies within the first `bytes` of its stream.
    fn take_beginning(
        &mut self,
        source: &Source,
        (offset, header): PlacedFrame,
        Place { bytes, events }: Place,
    ) -> Result<()> {
        let id = StreamId(header.stream);
        self.put_left_out(header.stream)?;
        let before = self.streams.get(&id).copied().unwrap_or_default();
        if bytes <= before.bytes {
            return Ok(());
        }
        if bytes - before.bytes >= u64::from(header.uncompressed_bytes) {
            return self.take(source, (offset, header), Keep::All);
        }
        let count = events.saturating_sub(before.events) as u32;
        let events = ChunkEvents { first: header.first_event.filter(|_| count > 0), count };
        if header.is_left_out() {
            return self.leave_out(FrameHeader {
                first_event: events.first,
                event_count: count,
                uncompressed_bytes: (bytes - before.bytes) as u32,
                ..header
            });
        }
        let mut chunk = std::mem::take(&mut self.bytes);
        source.read_frame(offset, &header, &mut self.stored, &mut chunk)?;
        chunk.truncate((bytes - before.bytes) as usize);
        let result = self.put_encoded(id, &chunk, events);
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
        self.put_left_out(header.stream)?;
        self.put_next(header, stored)
    }

    fn put_next(&mut self, header: FrameHeader, stored: &[u8]) -> Result<()> {
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
