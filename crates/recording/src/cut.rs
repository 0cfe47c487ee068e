//! What a recorder noted for the case that it is killed together with its guardian: up to when the
//! recording has every event, and how far the threads had come.

use std::collections::{BTreeMap, HashMap};

use retake_model::{Event, Reached};
use serde::{Deserialize, Serialize};

use crate::{EventReader, Metadata, Recording, StreamId, StreamKind, Warning};

/// The end of a recording that was cut off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CutEnd {
    /// For each stream, how many of its events are older than everything that is missing.
    events: BTreeMap<u32, u64>,
    /// Turn, sections and operations of threads under the sync policy. The recording has all events
    /// up to there.
    reached: BTreeMap<u32, [u64; 3]>,
}

impl CutEnd {
    /// Returns how many events of a stream are older than everything that is missing.
    pub fn events(&self, stream: StreamId) -> u64 {
        self.events.get(&stream.0).copied().unwrap_or(0)
    }

    /// Returns how far a thread had come at least.
    pub fn reached(&self, stream: StreamId) -> Reached {
        let [turn, sections, operations] = self.reached.get(&stream.0).copied().unwrap_or_default();
        Reached { turn, sections, operations }
    }
}

impl Recording {
    /// Whether some part of the recording is missing, at its end or elsewhere.
    pub fn is_cut_off(&self) -> bool {
        let Metadata { outcome, cut, .. } = self.metadata();
        !self.warnings().is_empty() || outcome.is_none() || cut.is_some()
    }

    /// Returns what is known of the end of a recording that was cut off. `None` if the recorder
    /// left no notes, or if a part before the end is lost.
    pub fn cut_end(&self) -> Option<CutEnd> {
        self.metadata().cut.clone().or_else(|| self.read_cut_end())
    }

    fn read_cut_end(&self) -> Option<CutEnd> {
        if !self.warnings().iter().all(|warning| self.is_of_end(warning)) {
            return None;
        }
        let own = self.streams().find(|stream| stream.info.kind == StreamKind::Supervisor)?;
        let mut reader = EventReader::new(self, own.info.id).ok()?;
        let (mut last, mut before) = (None, None);
        let (mut reached, mut new) = (BTreeMap::new(), HashMap::new());
        while let Ok(Some(numbered)) = reader.next() {
            let Ok(event) = numbered.event else { break };
            if let Event::Reached { stream, how_far } = event.decode() {
                let Reached { turn, sections, operations } = how_far;
                new.insert(stream.0, [turn, sections, operations]);
            }
            if event.is_complete() {
                before = last.replace(numbered.index);
                reached.extend(new.drain());
            }
        }
        // All chunks before the one with a note are older than the next note.
        let note = self.stream(own.info.id).ok()?.chunk_of_event(before?)?;
        let streams = self.streams().map(|stream| stream.info.id);
        let events = streams
            .filter_map(|stream| Some((stream.0, self.events_before(stream, note.file_offset)?)))
            .collect();
        Some(CutEnd { events, reached })
    }

    /// Returns how many events of a stream begin in chunks before a file offset.
    fn events_before(&self, stream: StreamId, offset: u64) -> Option<u64> {
        let chunks = self.stream(stream).ok()?;
        let before = (0..chunks.chunk_count())
            .map_while(|index| chunks.chunk(index).ok().filter(|chunk| chunk.file_offset < offset));
        Some(before.map(|chunk| u64::from(chunk.event_count)).sum())
    }

    /// Returns the metadata for a copy that is not cut off by itself.
    pub(crate) fn metadata_of_copy(&self) -> Metadata {
        let mut metadata = self.metadata().clone();
        if self.is_cut_off() {
            metadata.cut = Some(self.cut_end().unwrap_or_default());
        }
        metadata
    }

    /// Whether a warning tells only that the recording has no end.
    fn is_of_end(&self, warning: &Warning) -> bool {
        match warning {
            Warning::BeingRecorded
            | Warning::NoIndex { .. }
            | Warning::OldMetadata { .. }
            | Warning::CutEvent { .. } => true,
            Warning::LostBytes { file_offset, bytes, .. } => {
                file_offset.saturating_add(*bytes) >= self.file_bytes()
            }
            _ => false,
        }
    }
}
