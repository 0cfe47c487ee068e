//! Keeps events of traced threads on disk as they come, to be put in order afterwards. A spool has
//! the form of a recording, so that one cut off by a crash can be read like any other. It cannot be
//! replayed.

use crate::look::Looker;
use crate::state;
use retake_kernel::clock;
use retake_record::{EventLog, Moment};
use retake_recording::{
    ChunkEvents, Codec, ContentId, Metadata, Outcome, Recording, RecordingWriter, Result, Store,
    StreamId, StreamInfo,
};
use retake_trace_format::StartKind;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The key that marks a spool in its metadata.
const SETTING: &str = "trace";

/// The key in the metadata for what is missing.
const MISSING: &str = "missing";

/// Returns what is missing in a spool or recording, and why. `None` if it is complete.
pub(crate) fn missing(recording: &Recording) -> Option<String> {
    let metadata = recording.metadata();
    let mut reasons: Vec<String> = metadata.settings.get(MISSING).into_iter().cloned().collect();
    if metadata.outcome.is_none() {
        reasons.push("retake was stopped before the program had ended".to_owned());
    }
    reasons.extend(recording.warnings().iter().map(ToString::to_string));
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Returns whether these are the metadata of a spool.
pub(crate) fn is_spool(metadata: &Metadata) -> bool {
    metadata.settings.contains_key(SETTING)
}

/// Writes a spool, uncompressed. Compression would cost the program more time than writing to disk
/// does.
#[derive(Debug)]
pub(crate) struct Spool {
    writer: RecordingWriter,
    looker: Arc<Looker>,
}

impl Spool {
    /// Makes a spool in a new folder.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn create(folder: &Path, metadata: &Metadata) -> Result<Self> {
        let mut metadata = metadata.clone();
        metadata.settings.insert(SETTING.to_owned(), "spool".to_owned());
        Ok(Self { writer: RecordingWriter::create(folder, &metadata)?, looker: Arc::default() })
    }

    /// Returns the looker for data that no register shows.
    pub fn looker(&self) -> Arc<Looker> {
        Arc::clone(&self.looker)
    }
}

impl EventLog for Spool {
    fn declare_stream(&self, info: &StreamInfo) -> Result<()> {
        self.looker.begun(info);
        self.writer.declare_stream(info)
    }

    fn append(&self, stream: StreamId, bytes: &[u8], events: ChunkEvents) -> Result<()> {
        self.writer.append(stream, bytes, events, Codec::Raw)
    }

    fn keep_file(&self, _store: &Store, _content: ContentId) -> Result<()> {
        Ok(())
    }

    fn at_exec(&self, pid: i32) -> Vec<u8> {
        state::of_process(pid, StartKind::Exec)
            .map(|start| state::to_event(&start))
            .unwrap_or_default()
    }

    fn at_call(
        &self,
        moment: &Moment,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<i64> {
        self.looker.at_call(moment, sink)
    }

    fn at_death(&self, pid: i32, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.looker.at_death(pid, clock::real_time_ns()?, sink)
    }

    fn incomplete(&self, reason: &str) {
        let note = |metadata: &mut Metadata| {
            let reasons = metadata.settings.entry(MISSING.to_owned()).or_default();
            *reasons += if reasons.is_empty() { "" } else { "; " };
            *reasons += reason;
        };
        // Errors, such as a full disk, have been reported already.
        let _ = self.writer.update_metadata(note);
    }

    fn finish(&self, outcome: &Outcome) -> Result<()> {
        self.writer.finish(outcome)
    }
}
