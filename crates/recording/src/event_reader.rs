//! Reads the events of a stream one after another.

use retake_contract::events::event as layout;
use std::io::Read;
use std::path::PathBuf;

use retake_model::event::{EventError, HEADER_BYTES, event_size};
use retake_model::item::Reference;
use retake_model::{EventKind, EventRef, parse_event, with_referenced};

use crate::content_reader::ContentReader;
use crate::error::{Error, Result};
use crate::{Recording, StreamId, StreamReader};

/// An event with its number in the stream.
#[derive(Debug)]
pub struct Numbered<'reader> {
    /// The number of the event; the first is 0.
    pub index: u64,
    /// The kind of the event, which may be known even if the event is malformed.
    pub kind: Option<EventKind>,
    /// The event, or what is wrong with it.
    pub event: std::result::Result<EventRef<'reader>, EventError>,
}

/// Reads events from a position between two events of a stream.
#[derive(Debug)]
pub struct EventReader {
    stream: StreamId,
    path: PathBuf,
    reader: StreamReader,
    /// The bytes of the last event read. Grows only with bytes that are there, never by the size
    /// that an event claims.
    bytes: Vec<u8>,
    /// The number of the event that is read next.
    next_index: u64,
    is_cut: bool,
    /// The reader of referenced bytes, and how many of each reference are wanted.
    contents: Option<(ContentReader, usize)>,
}

impl EventReader {
    /// Creates a reader at the beginning of a stream.
    ///
    /// # Errors
    /// `UnknownStream` if there is no such stream.
    pub fn new(recording: &Recording, stream: StreamId) -> Result<Self> {
        let path = recording.path().to_path_buf();
        Ok(Self {
            stream,
            path,
            reader: recording.stream(stream)?,
            bytes: Vec::new(),
            next_index: 0,
            is_cut: false,
            contents: None,
        })
    }

    /// Makes later events carry the bytes to which they refer, as if these were outputs, up to
    /// `most` bytes for each. If the recording lacks the bytes, the event stays as it is.
    pub fn with_referenced(mut self, recording: &Recording, most: usize) -> Self {
        self.contents = Some((ContentReader::new(recording), most));
        self
    }

    /// Moves to event `index`, or before it: to the first event that starts in the same chunk.
    /// Earlier chunks are not read.
    ///
    /// # Errors
    /// If the chunk cannot be read.
    pub fn seek_before(&mut self, index: u64) -> Result<()> {
        let mut first_index = 0_u64;
        for number in 0..self.reader.chunk_count() {
            let chunk = self.reader.chunk(number)?;
            let behind = first_index.saturating_add(u64::from(chunk.event_count));
            if let (true, Some(first)) = (behind > index, chunk.first_event) {
                let offset = chunk.stream_offset.saturating_add(u64::from(first));
                self.reader.seek_to_offset(offset)?;
                self.next_index = first_index;
                return Ok(());
            }
            first_index = behind;
        }
        let end = self.reader.chunk_count();
        self.reader.seek_to_chunk(end)?;
        self.next_index = first_index;
        Ok(())
    }

    /// Whether the stream ended in the middle of an event, because its writer was stopped there or
    /// the rest is lost.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The number of the event that is read next.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// Returns the next event; `None` at the end of the stream. Passes over events that are left
    /// out.
    ///
    /// # Errors
    /// If the chunk is damaged, or if the event's size is impossible. Then no later event can be
    /// found.
    #[allow(clippy::should_implement_trait, reason = "the event borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Numbered<'_>>> {
        loop {
            match self.load() {
                Ok(true) => break,
                Ok(false) => return Ok(None),
                Err(Error::LeftOut { .. }) => match self.reader.pass_left_out()? {
                    Some(index) => self.next_index = index,
                    None => return Ok(None),
                },
                Err(error) => return Err(error),
            }
        }
        let index = self.next_index;
        self.next_index += 1;
        if let Some((contents, most)) = &mut self.contents {
            let mut read = |reference: &Reference, count: u64| {
                contents.read(reference.content, reference.offset, count).ok()
            };
            if let Some(bytes) = with_referenced(&self.bytes, *most, &mut read) {
                self.bytes = bytes;
            }
        }
        let event = parse_event(&self.bytes).map(|(event, _)| event);
        let kind = EventKind::from_number(self.bytes[layout::KIND]);
        Ok(Some(Numbered { index, kind, event }))
    }

    /// Reads the bytes of the next event. Returns false at the end of the stream.
    fn load(&mut self) -> Result<bool> {
        self.bytes.clear();
        self.read_up_to(HEADER_BYTES)?;
        if self.bytes.len() < HEADER_BYTES {
            self.is_cut = !self.bytes.is_empty();
            return Ok(false);
        }
        let size = event_size(&self.bytes).map_err(|error| Error::Malformed {
            stream: self.stream,
            index: self.next_index,
            error,
        })?;
        self.read_up_to(size - HEADER_BYTES)?;
        self.is_cut = self.bytes.len() < size;
        Ok(!self.is_cut)
    }

    fn read_up_to(&mut self, count: usize) -> Result<()> {
        let limit = count as u64;
        match self.reader.by_ref().take(limit).read_to_end(&mut self.bytes) {
            Ok(_) => Ok(()),
            Err(error) => Err(match error.downcast::<Error>() {
                Ok(error) => error,
                Err(source) => Error::Io { action: "read", path: self.path.clone(), source },
            }),
        }
    }
}
