//! Reading the events of a stream one after another.

use retake_contract::events::event as layout;
use std::io::Read;
use std::path::PathBuf;

use retake_model::event::{EventError, HEADER_BYTES, event_size};
use retake_model::item::Reference;
use retake_model::{EventKind, EventRef, parse_event, with_referenced};

use crate::content_reader::ContentReader;
use crate::error::{Error, Result};
use crate::{Recording, StreamId, StreamReader};

/// An event, and its number in the stream.
#[derive(Debug)]
pub struct Numbered<'reader> {
    /// The first is 0.
    pub index: u64,
    /// Its kind, which a malformed event may have too.
    pub kind: Option<EventKind>,
    /// The event, or what is wrong with it.
    pub event: std::result::Result<EventRef<'reader>, EventError>,
}

/// A position in a stream, between two events.
#[derive(Debug)]
pub struct EventReader {
    stream: StreamId,
    path: PathBuf,
    reader: StreamReader,
    /// The bytes of the event read last. Grows by what is there, never by what an event claims.
    bytes: Vec<u8>,
    /// Number of the event that is read next.
    next_index: u64,
    is_cut: bool,
    /// Where the bytes are to which events refer, and how many of each are wanted.
    contents: Option<(ContentReader, usize)>,
}

impl EventReader {
    /// At the beginning of a stream.
    ///
    /// # Errors
    /// If there is no such stream.
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

    /// From now on events have the bytes to which they refer, as if they were outputs: of each at
    /// most `most` bytes. Where the recording does not have them the event is left as it is.
    pub fn with_referenced(mut self, recording: &Recording, most: usize) -> Self {
        self.contents = Some((ContentReader::new(recording), most));
        self
    }

    /// Goes on at event `index`, or somewhere before it: what lies in chunks before that event's is
    /// not read.
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

    /// Whether the stream ended in the middle of an event: its writer was stopped there, or the
    /// rest is lost.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Number of the event that is read next.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// The next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// If the chunk is damaged, or the event's size cannot be: nothing behind it can be found then.
    #[allow(clippy::should_implement_trait, reason = "the event borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Numbered<'_>>> {
        let index = self.next_index;
        self.bytes.clear();
        self.read_up_to(HEADER_BYTES)?;
        if self.bytes.len() < HEADER_BYTES {
            self.is_cut = !self.bytes.is_empty();
            return Ok(None);
        }
        let size = event_size(&self.bytes).map_err(|error| Error::Malformed {
            stream: self.stream,
            index,
            error,
        })?;
        self.read_up_to(size - HEADER_BYTES)?;
        if self.bytes.len() < size {
            self.is_cut = true;
            return Ok(None);
        }
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
