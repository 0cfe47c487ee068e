//! Traced threads' events kept on disk as they come, to be put in order afterwards. A spool has the form of a recording, so that one that was
//! cut off by a crash is read like any other; it cannot be replayed.

use crate::state;
use retake_record::EventLog;
use retake_recording::{ChunkEvents, Codec, ContentId, Metadata, Outcome, Recording, RecordingWriter, Result, Store, StreamId, StreamInfo};
use retake_trace_format::StartKind;

/// What a spool's metadata call it.
const SETTING: &str = "trace";

/// Where its metadata say what is missing.
const MISSING: &str = "missing";

/// What is missing in a spool or recording, and why; `None` if it is whole.
pub(crate) fn missing(recording: &Recording) -> Option<String> {
    let metadata = recording.metadata();
    let mut reasons: Vec<String> = metadata.settings.get(MISSING).into_iter().cloned().collect();
    if metadata.outcome.is_none() {
        reasons.push("retake was stopped before the program had ended".to_owned());
    }
    reasons.extend(recording.warnings().iter().map(ToString::to_string));
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Marks metadata as those of a spool.
pub(crate) fn mark(metadata: &mut Metadata) {
    metadata.settings.insert(SETTING.to_owned(), "spool".to_owned());
}

/// Whether these are the metadata of a spool.
pub(crate) fn is_spool(metadata: &Metadata) -> bool {
    metadata.settings.contains_key(SETTING)
}

/// Writes one. Compression would cost the program more time than the disk does.
#[derive(Debug)]
pub(crate) struct Spool(pub RecordingWriter);

impl EventLog for Spool {
    fn declare_stream(&self, info: &StreamInfo) -> Result<()> {
        self.0.declare_stream(info)
    }

    fn append(&self, stream: StreamId, bytes: &[u8], events: ChunkEvents) -> Result<()> {
        self.0.append(stream, bytes, events, Codec::Raw)
    }

    fn keep_file(&self, _store: &Store, _content: ContentId) -> Result<()> {
        Ok(())
    }

    fn at_exec(&self, pid: i32) -> Vec<u8> {
        state::of_process(pid, StartKind::Exec).map(|start| state::to_event(&start)).unwrap_or_default()
    }

    fn incomplete(&self, reason: &str) {
        let note = |metadata: &mut Metadata| {
            let reasons = metadata.settings.entry(MISSING.to_owned()).or_default();
            *reasons += if reasons.is_empty() { "" } else { "; " };
            *reasons += reason;
        };
        let _ = self.0.update_metadata(note); // a full disk has been told of already
    }

    fn finish(&self, outcome: &Outcome) -> Result<()> {
        self.0.finish(outcome)
    }
}
