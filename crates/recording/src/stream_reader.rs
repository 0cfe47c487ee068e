//! Reads a stream, in sequence as `Read` or by chunk. At most one chunk is in memory.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::frame::PlacedFrame;
use crate::opened::{Shared, StreamSummary, summarise};
use crate::stream_info::StreamId;

/// The description of a chunk that has not been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkInfo {
    /// The number of the chunk within the stream.
    pub index: usize,
    /// The offset of the chunk's frame in the file.
    pub file_offset: u64,
    /// The offset of the chunk's first byte in the stream.
    pub stream_offset: u64,
    /// The uncompressed size in bytes.
    pub bytes: u32,
    /// The offset within the chunk of the first event that starts there; `None` if none does.
    pub first_event: Option<u32>,
    /// The number of events that start in the chunk.
    pub event_count: u32,
    /// Whether its bytes are left out.
    pub is_left_out: bool,
}

/// A position in a stream of a recording. A stream ends with its data, or before the first missing
/// chunk. Reading a damaged chunk returns an error that names it, after everything before it has
/// been read.
#[derive(Debug)]
pub struct StreamReader {
    shared: Arc<Shared>,
    stream: StreamId,
    /// The bytes of the chunk read last, if not empty. `next` is the number of the chunk to be read
    /// next.
    bytes: Vec<u8>,
    consumed: usize,
    next: usize,
    stored: Vec<u8>,
}

impl StreamReader {
    pub(crate) fn new(shared: Arc<Shared>, stream: StreamId) -> Result<Self> {
        let reader =
            Self { shared, stream, bytes: Vec::new(), consumed: 0, next: 0, stored: Vec::new() };
        match reader.shared.catalogued(stream) {
            Some(_) => Ok(reader),
            None => Err(Error::UnknownStream {
                path: reader.shared.source.path().to_path_buf(),
                stream,
            }),
        }
    }

    fn frames(&self) -> &[PlacedFrame] {
        self.shared.catalogued(self.stream).map_or(&[], |stream| &stream.pieces.frames)
    }

    /// Returns the stream's declaration and size.
    pub fn summary(&self) -> StreamSummary {
        let stream = self.shared.catalogued(self.stream);
        summarise(stream.expect("the stream was found when the reader was made"))
    }

    /// Returns the number of chunks of the stream.
    pub fn chunk_count(&self) -> usize {
        self.frames().len()
    }

    /// Describes chunk `index`.
    ///
    /// # Errors
    /// `NoSuchChunk`.
    pub fn chunk(&self, index: usize) -> Result<ChunkInfo> {
        let (file_offset, header) = self.frame(index)?;
        Ok(ChunkInfo {
            index,
            file_offset,
            stream_offset: header.offset,
            bytes: header.uncompressed_bytes,
            first_event: header.first_event,
            event_count: header.event_count,
            is_left_out: header.is_left_out(),
        })
    }

    fn frame(&self, index: usize) -> Result<PlacedFrame> {
        let count = self.chunk_count();
        let none = Error::NoSuchChunk { stream: self.stream, index, count };
        self.frames().get(index).copied().ok_or(none)
    }

    /// Replaces `output` with the bytes of chunk `index`. Does not move the position.
    ///
    /// # Errors
    /// `NoSuchChunk`, `Damaged`, `Io`. The contents of `output` then have no meaning.
    pub fn read_chunk(&mut self, index: usize, output: &mut Vec<u8>) -> Result<ChunkInfo> {
        let (offset, header) = self.frame(index)?;
        self.shared.source.read_frame(offset, &header, &mut self.stored, output)?;
        self.chunk(index)
    }

    /// Describes the chunk in which an event begins; `None` if there is no such event.
    pub fn chunk_of_event(&self, event: u64) -> Option<ChunkInfo> {
        let mut behind = 0;
        (0..self.chunk_count()).filter_map(|index| self.chunk(index).ok()).find(|chunk| {
            behind += u64::from(chunk.event_count);
            behind > event
        })
    }

    /// Moves to the beginning of chunk `index`, or to the end of the stream if it is one past the
    /// last.
    ///
    /// # Errors
    /// `NoSuchChunk`.
    pub fn seek_to_chunk(&mut self, index: usize) -> Result<()> {
        if index > self.chunk_count() {
            return Err(Error::NoSuchChunk {
                stream: self.stream,
                index,
                count: self.chunk_count(),
            });
        }
        self.bytes.clear();
        self.consumed = 0;
        self.next = index;
        Ok(())
    }

    /// Moves to a byte of the stream, or to the end if there is no such byte.
    ///
    /// # Errors
    /// As reading the chunk with that byte.
    pub fn seek_to_offset(&mut self, offset: u64) -> Result<()> {
        let index = self.chunk_containing(offset);
        self.seek_to_chunk(index)?;
        if index < self.chunk_count() {
            let within = offset - self.chunk(index)?.stream_offset;
            self.load_next()?;
            self.consumed = within as usize;
        }
        Ok(())
    }

    /// Returns the number of the chunk with the byte at `offset`; one past the last if there is
    /// none.
    pub fn chunk_containing(&self, offset: u64) -> usize {
        let ends_before = |(_, header): &PlacedFrame| {
            header.offset + u64::from(header.uncompressed_bytes) <= offset
        };
        self.frames().partition_point(ends_before)
    }

    /// Returns the number of the first event behind everything that is left out; 0 if nothing is.
    pub fn first_kept_event(&self) -> u64 {
        let left_out = self.frames().iter().rposition(|(_, header)| header.is_left_out());
        self.events_before(left_out.map_or(0, |index| index + 1))
    }

    /// The number of events that start before a chunk.
    fn events_before(&self, index: usize) -> u64 {
        let counts = self.frames()[..index].iter().map(|(_, header)| header.event_count);
        counts.fold(0, |sum, count| sum.saturating_add(u64::from(count)))
    }

    /// Moves behind chunks that are left out, if the next byte lies in one: to the next event that
    /// is there. Returns its number; `None` if the next byte is there, or at the end.
    ///
    /// # Errors
    /// As reading the chunk with that event.
    pub fn pass_left_out(&mut self) -> Result<Option<u64>> {
        let is_left_out = |chunk: &PlacedFrame| chunk.1.is_left_out();
        if self.consumed < self.bytes.len()
            || !self.frames().get(self.next).is_some_and(is_left_out)
        {
            return Ok(None);
        }
        let has_event = |chunk: &PlacedFrame| !is_left_out(chunk) && chunk.1.first_event.is_some();
        let behind = &self.frames()[self.next..];
        let index = self.next + behind.iter().position(has_event).unwrap_or(behind.len());
        let event = self.events_before(index);
        match self.frames().get(index) {
            Some((_, header)) => {
                let first = header.first_event.unwrap_or(0);
                self.seek_to_offset(header.offset.saturating_add(u64::from(first)))?;
            }
            None => self.seek_to_chunk(index)?,
        }
        Ok(Some(event))
    }

    /// Returns the offset in the stream of the next byte to be read.
    pub fn position(&self) -> u64 {
        match self.frames().get(self.next) {
            _ if self.consumed < self.bytes.len() => {
                self.frames()[self.next - 1].1.offset + self.consumed as u64
            }
            Some((_, header)) => header.offset,
            None => self.shared.catalogued(self.stream).map_or(0, |stream| stream.pieces.bytes),
        }
    }

    /// Loads the next chunk into `bytes`. Must not be called at the end of the stream. After an
    /// error, the same chunk is next.
    fn load_next(&mut self) -> Result<()> {
        let (offset, header) = self.frame(self.next)?;
        self.consumed = 0;
        let result =
            self.shared.source.read_frame(offset, &header, &mut self.stored, &mut self.bytes);
        if result.is_err() {
            self.bytes.clear();
        } else {
            self.next += 1;
        }
        result
    }
}

impl StreamReader {
    /// Returns how many bytes [`Read::read`] can return directly, if its buffer has room for all of
    /// them: the rest of the chunk at this position. 0 at the end of the stream.
    pub fn next_piece_bytes(&self) -> usize {
        match self.bytes.len() - self.consumed {
            0 => self
                .frames()
                .get(self.next)
                .map_or(0, |(_, header)| header.uncompressed_bytes as usize),
            left => left,
        }
    }

    /// Reads the next chunk directly into the beginning of `output`. Returns `None` if that is not
    /// possible and a buffer is needed.
    fn read_direct(&mut self, output: &mut [u8]) -> Result<Option<usize>> {
        let Some(&(offset, header)) =
            self.frames().get(self.next).filter(|_| self.consumed == self.bytes.len())
        else {
            return Ok(None);
        };
        let bytes = header.uncompressed_bytes as usize;
        if bytes == 0 || bytes > output.len() {
            return Ok(None);
        }
        self.bytes.clear();
        self.consumed = 0;
        self.shared.source.read_frame_into(
            offset,
            &header,
            &mut self.stored,
            &mut output[..bytes],
        )?;
        self.next += 1;
        Ok(Some(bytes))
    }
}

impl Read for StreamReader {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if let Some(count) = self.read_direct(output)? {
            return Ok(count);
        }
        let available = self.fill_buf()?;
        let count = available.len().min(output.len());
        output[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for StreamReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // Loops because a hostile file may have empty chunks.
        while self.consumed == self.bytes.len() && self.next < self.chunk_count() {
            self.load_next()?;
        }
        Ok(&self.bytes[self.consumed..])
    }

    fn consume(&mut self, count: usize) {
        self.consumed = (self.consumed + count).min(self.bytes.len());
    }
}
