//! Checks whether a recording is complete: undamaged, with everything that its events refer to, and
//! with streams that end between events.

use std::collections::{BTreeMap, BTreeSet};

use retake_model::Event;

use crate::ContentId;
use crate::error::{Error, Result};
use crate::event_reader::EventReader;
use crate::recording::Recording;
use crate::scan::check_unindexed;
use crate::stream_info::StreamId;
use crate::warning::{Warning, Warnings};

/// What the events of a recording say about the rest of it.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The runtime, and files that programs mapped or read.
    pub contents: BTreeSet<ContentId>,
    /// The largest offset up to which events read in each file.
    pub read_ends: BTreeMap<ContentId, u64>,
    /// Streams that end within an event, each with its number of whole events.
    pub cut: Vec<(StreamId, u64)>,
    /// Malformed events: stream, number, and what is wrong.
    pub malformed: Vec<(StreamId, u64, String)>,
}

impl Findings {
    /// Reads all events that can be read.
    ///
    /// # Errors
    /// Those of the operating system. Damage only ends the reading of a stream.
    pub fn of(recording: &Recording) -> Result<Self> {
        let mut findings = Self::default();
        findings.contents.extend(recording.metadata().runtime());
        for stream in recording.streams() {
            findings.read(recording, stream.info.id)?;
        }
        Ok(findings)
    }

    fn read(&mut self, recording: &Recording, stream: StreamId) -> Result<()> {
        let mut reader = EventReader::new(recording, stream)?;
        loop {
            match reader.next() {
                Ok(Some(numbered)) => match numbered.event {
                    Ok(event) => self.note(&event.decode()),
                    Err(error) => {
                        self.malformed.push((stream, numbered.index, error.to_string()));
                    }
                },
                Ok(None) => break,
                Err(Error::Malformed { index, error, .. }) => {
                    self.malformed.push((stream, index, error.to_string()));
                    // The place of the next event is unknown.
                    return Ok(());
                }
                Err(Error::Damaged { .. }) => return Ok(()), // reported where chunks are read
                Err(error) => return Err(error),
            }
        }
        if reader.is_cut() {
            self.cut.push((stream, reader.next_index()));
        }
        Ok(())
    }

    fn note(&mut self, event: &Event<'_>) {
        self.contents.extend(retake_model::contents_of(event));
        let Event::Call(call) = event else { return };
        for item in call.items() {
            let Some(reference) = item.reference() else { continue };
            let end = self.read_ends.entry(reference.content).or_default();
            *end = (*end).max(reference.offset.saturating_add(item.total_bytes().into()));
        }
    }
}

impl Recording {
    /// Reads everything and returns all damage, beginning with what opening found.
    ///
    /// # Errors
    /// Only those of the operating system; damage is in the list.
    pub fn check(&self) -> Result<Vec<Warning>> {
        let mut warnings = Warnings::default();
        self.shared.warnings.iter().cloned().for_each(|warning| warnings.push(warning));
        // Without an index, opening has read all frames.
        let has_index = !self
            .shared
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::NoIndex { .. } | Warning::BeingRecorded));
        if has_index {
            check_unindexed(&self.shared.source, &mut |result| note_damage(result, &mut warnings))?;
        }
        let mut bytes = Vec::new();
        for summary in self.streams() {
            let mut reader = self.stream(summary.info.id)?;
            for index in 0..summary.chunk_count {
                if reader.chunk(index)?.is_left_out {
                    continue;
                }
                note_damage(reader.read_chunk(index, &mut bytes).map(drop), &mut warnings)?;
            }
        }
        for (id, _) in self.contents()? {
            note_damage(self.copy_content(id, &mut std::io::sink()).map(drop), &mut warnings)?;
        }
        Ok(warnings.into_list())
    }

    /// Reads all events. Returns what is wrong with them, and what they refer to but the recording
    /// lacks. Does not repeat what [`Recording::check`] finds.
    ///
    /// # Errors
    /// As [`Recording::check`].
    pub fn check_events(&self) -> Result<Vec<Warning>> {
        let mut warnings = Warnings::default();
        let findings = Findings::of(self)?;
        for id in findings.contents.into_iter().filter(|id| !self.has_content(*id)) {
            warnings.push(Warning::MissingContent { id });
        }
        for (id, bytes) in self.contents()? {
            let end = findings.read_ends.get(&id).copied().unwrap_or(0);
            if end > bytes {
                let reason = format!("a program read {end} bytes of {id}, which has {bytes}");
                warnings.push(Warning::BadContent { reason });
            }
        }
        for (stream, events) in findings.cut {
            warnings.push(Warning::CutEvent { stream, events });
        }
        for (stream, index, reason) in findings.malformed {
            warnings.push(Warning::MalformedEvent { stream, index, reason });
        }
        Ok(warnings.into_list())
    }

    /// Returns the files that the recording needs and lacks.
    ///
    /// # Errors
    /// Events cannot be read.
    pub fn missing_contents(&self) -> Result<Vec<ContentId>> {
        let needed = Findings::of(self)?.contents;
        Ok(needed.into_iter().filter(|id| !self.has_content(*id)).collect())
    }
}

fn note_damage(result: Result<()>, warnings: &mut Warnings) -> Result<()> {
    match result {
        Err(Error::Damaged { place, reason, .. }) => {
            warnings.push(Warning::Damaged { place, reason })
        }
        Err(error @ (Error::BadContent { .. } | Error::NoContent { .. })) => {
            warnings.push(Warning::BadContent { reason: error.to_string() });
        }
        result => return result,
    }
    Ok(())
}
