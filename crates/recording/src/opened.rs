//! An open recording, shared by its readers.

use std::path::PathBuf;

use crate::catalogue::{Catalogue, CataloguedStream, LeftOut};
use crate::error::Result;
use crate::held_images::HeldImage;
use crate::index::read_index;
use crate::metadata::Metadata;
use crate::scan::scan;
use crate::source::Source;
use crate::stream_info::{StreamId, StreamInfo};
use crate::warning::Warning;

/// What a recording and its readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub source: Source,
    pub catalogue: Catalogue,
    /// The recording's directory; `None` for a packed one.
    pub directory: Option<PathBuf>,
    pub metadata: Metadata,
    /// The images, if the recording was being made when it was opened.
    pub held_images: Vec<HeldImage>,
    pub warnings: Vec<Warning>,
}

/// A stream and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSummary {
    /// The declaration of the stream.
    pub info: StreamInfo,
    /// The number of readable bytes.
    pub bytes: u64,
    /// The number of events that start in them. If the stream is cut, the last one may be
    /// incomplete.
    pub event_count: u64,
    /// The number of readable chunks.
    pub chunk_count: usize,
    /// The part of the bytes and events that is left out.
    pub left_out: LeftOut,
}

impl Shared {
    /// Returns a stream's entry in the catalogue.
    pub(crate) fn catalogued(&self, stream: StreamId) -> Option<&CataloguedStream> {
        self.catalogue.streams.get(&stream)
    }
}

pub(crate) fn summarise(stream: &CataloguedStream) -> StreamSummary {
    StreamSummary {
        info: stream.info.clone(),
        bytes: stream.pieces.bytes,
        event_count: stream.event_count,
        chunk_count: stream.pieces.frames.len(),
        left_out: stream.left_out,
    }
}

/// Returns what `source` holds: from its index, or by a scan if there is no usable index.
pub(crate) fn catalogue_of(source: &Source) -> Result<Catalogue> {
    let mut catalogue = Catalogue::default();
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
