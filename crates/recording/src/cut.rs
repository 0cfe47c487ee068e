//! What a recorder noted for the case that it is killed together with its guardian: up to when the
//! recording has every event, and how far the threads had come.

use std::collections::HashMap;

use retake_model::{Event, Reached};

use crate::{EventReader, Recording, StreamId, StreamKind, Warning};

/// The end of a recording that was cut off.
#[derive(Debug, Clone, Default)]
pub struct CutEnd {
    /// All chunks before this file offset are older than everything that is missing.
    pub complete_before: u64,
    /// How far threads under the sync policy had come at least. The recording has all events up to
    /// there.
    pub reached: HashMap<StreamId, Reached>,
}

impl Recording {
    /// Reads what is known of the end of a recording that was cut off. `None` if the recorder left
    /// no notes, or if a part before the end is lost.
    pub fn cut_end(&self) -> Option<CutEnd> {
        if !self.warnings().iter().all(|warning| self.is_of_end(warning)) {
            return None;
        }
        let own = self.streams().find(|stream| stream.info.kind == StreamKind::Supervisor)?;
        let mut reader = EventReader::new(self, own.info.id).ok()?;
        let (mut last, mut before) = (None, None);
        let (mut reached, mut new) = (HashMap::new(), HashMap::new());
        while let Ok(Some(numbered)) = reader.next() {
            let Ok(event) = numbered.event else { break };
            if let Event::Reached { stream, how_far } = event.decode() {
                new.insert(stream, how_far);
            }
            if event.is_complete() {
                before = last.replace(numbered.index);
                reached.extend(new.drain());
            }
        }
        // All chunks before the one with a note are older than the next note.
        let chunk = self.stream(own.info.id).ok()?.chunk_of_event(before?)?;
        Some(CutEnd { complete_before: chunk.file_offset, reached })
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
