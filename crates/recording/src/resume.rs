//! Resumes a recording whose writer is gone.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::Path;

use crate::error::{Error, Result};
use crate::frame::{FrameHeader, FrameKind};
use crate::frame_writer::FrameWriter;
use crate::recording::read_metadata_frame;
use crate::source::Source;
use crate::storage::ReservingFile;
use crate::stream_info::StreamId;
use crate::writer::{EVENTS_NAME, RecordingWriter, State, StreamEnd, lock};

/// The size of the first field of every event, which holds the event's size.
const SIZE_BYTES: usize = 4;

impl RecordingWriter {
    /// Resumes the recording in `directory` after its last whole frame. No other process may write
    /// to it. Reads only headers and the metadata.
    ///
    /// # Errors
    /// `Finished`, or an error if the recording cannot be read or written, or has no metadata.
    pub fn resume(directory: &Path) -> Result<Self> {
        let path = directory.join(EVENTS_NAME);
        let source = Source::open(&path)?;
        let mut entries = Vec::new();
        let mut streams = HashMap::<StreamId, StreamEnd>::new();
        let (mut end, mut metadata) = (0, None);
        while let Some(header) = next_frame(&source, end)? {
            let stream = StreamId(header.stream);
            match header.kind {
                FrameKind::Metadata => metadata = Some((end, header)),
                FrameKind::Stream => {
                    streams.entry(stream).or_default().stored_bytes += header.frame_bytes();
                }
                FrameKind::Chunk => streams.entry(stream).or_default().add(&header),
                FrameKind::Index | FrameKind::Trailer => {
                    return Err(Error::Finished { path: directory.to_path_buf() });
                }
                FrameKind::Content | FrameKind::ContentChunk => {}
            }
            entries.push((end, header));
            end += header.frame_bytes();
        }
        let Some(metadata) = metadata else {
            let reason = "there is no frame with them".to_owned();
            return Err(Error::BadMetadata { path, reason });
        };
        let recording = metadata.1.recording;
        let metadata = read_metadata_frame(&source, &metadata)?;
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| Error::io("open", &path, error))?;
        file.set_len(end).map_err(|error| Error::io("cut", &path, error))?;
        let storage = Box::new(ReservingFile::new(file));
        let frames = FrameWriter::resume(storage, &path, recording, end, entries);
        Ok(Self::with_state(directory, State::new(frames, streams, metadata, None)))
    }

    /// Returns how many bytes a stream has so far, and how many bytes of its last event are
    /// missing; `None` if the stream is not declared.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn end_of_stream(&self, stream: StreamId) -> Result<Option<(u64, u64)>> {
        let state = lock(&self.state);
        let Some(end) = state.streams.get(&stream) else { return Ok(None) };
        let is_chunk =
            |header: &FrameHeader| header.kind == FrameKind::Chunk && header.stream == stream.0;
        let mut behind = 0;
        for (offset, header) in
            state.frames.entries().iter().rev().filter(|(_, header)| is_chunk(header))
        {
            let Some(first) = header.first_event else {
                behind += u64::from(header.uncompressed_bytes);
                continue;
            };
            if header.is_left_out() {
                break; // what follows it begins with an event
            }
            let source = Source::open(&self.directory().join(EVENTS_NAME))?;
            let mut bytes = Vec::new();
            source.read_frame(*offset, header, &mut Vec::new(), &mut bytes)?;
            let last_ends = end_of_events(&bytes, first as usize);
            return Ok(Some((end.bytes, last_ends.saturating_sub(bytes.len() as u64 + behind))));
        }
        Ok(Some((end.bytes, 0)))
    }
}

/// Returns the header of the frame at `offset`, if the whole frame is there.
fn next_frame(source: &Source, offset: u64) -> Result<Option<FrameHeader>> {
    if offset >= source.length() {
        return Ok(None);
    }
    let header = source.read_header(offset)?.ok();
    Ok(header.filter(|header| offset + header.frame_bytes() <= source.length()))
}

/// Returns where the last event ends that begins in a piece of a stream. The first event begins at
/// `first`.
fn end_of_events(bytes: &[u8], first: usize) -> u64 {
    let mut at = first as u64;
    while let Some(size) =
        usize::try_from(at).ok().and_then(|at| bytes.get(at..)?.first_chunk::<SIZE_BYTES>())
    {
        at += u64::from(u32::from_le_bytes(*size)).max(SIZE_BYTES as u64);
    }
    at
}
