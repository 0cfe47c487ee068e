//! An open recording as its readers share it.

use std::path::PathBuf;

use crate::catalogue::{Catalogue, CataloguedStream};
use crate::error::Result;
use crate::index::read_index;
use crate::metadata::Metadata;
use crate::scan::scan;
use crate::source::Source;
use crate::stream_info::{StreamId, StreamInfo};
use crate::warning::Warning;

/// What the recording and its readers have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub source: Source,
    pub catalogue: Catalogue,
    /// The recording's directory; `None` for a packed one.
    pub directory: Option<PathBuf>,
    pub metadata: Metadata,
    pub warnings: Vec<Warning>,
}

/// A stream and how much there is of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSummary {
    /// Its declaration.
    pub info: StreamInfo,
    /// Readable bytes.
    pub bytes: u64,
    /// Events that start in them; if the stream is cut, the last may be incomplete.
    pub event_count: u64,
    /// Readable chunks.
    pub chunk_count: usize,
}

impl Shared {
    /// The catalogue's entry of a stream.
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
    }
}

/// Finds out what `source` holds: from its index, or by a scan if it has no usable one.
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
