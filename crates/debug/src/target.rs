//! Which process of a recording is debugged, and from where on.

use crate::alone::is_alone;
use crate::crash::Crash;
use crate::error::{DebugError, Result};
use crate::scan::Scan;
use retake_model::EventKind;
use retake_recording::{Recording, StreamId, StreamKind, StreamSummary};
use retake_replay::Wanted;
use std::collections::HashMap;

/// The process that a session is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The stream of its first thread.
    pub stream: StreamId,
    /// Its number while recording.
    pub pid: i32,
    /// How many events of that stream come before the program that is debugged: the last that the process executed.
    pub first_event: u64,
    /// The call that executed it: offset in the stream, and bytes. None where the recorder did, or where it is a copy of its parent.
    pub exec_call: Option<(u64, usize)>,
    /// The streams from the first process to it.
    pub path: Vec<u32>,
}

impl Target {
    /// The process with this number, or the one that crashed, or the first.
    ///
    /// # Errors
    /// There is none, or the recording cannot be read.
    pub fn choose(recording: &Recording, pid: Option<i32>) -> Result<Self> {
        let streams: Vec<StreamSummary> = recording.streams().filter(|stream| stream.info.kind != StreamKind::Supervisor).collect();
        let chosen = match pid {
            Some(pid) => streams.iter().rfind(|stream| is_process(stream) && stream.info.pid == pid),
            None => crashed(recording, &streams)?.or_else(|| streams.first()),
        };
        let named = || pid.map_or("there".to_owned(), |pid| format!("number {pid}"));
        let chosen = chosen.ok_or_else(|| DebugError::NoSuchProcess(named()))?;
        let stream = chosen.info.id;
        let (first_event, exec_call) = program_start(recording, stream)?;
        Ok(Self { stream, pid: chosen.info.pid, first_event, exec_call, path: path_to(&streams, stream) })
    }

    /// As the replay is told.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn wanted(&self, recording: &Recording) -> Result<Wanted> {
        let is_alone = is_alone(recording, self)?;
        Ok(Wanted { stream: self.stream.0, events: self.first_event, path: self.path.clone(), is_alone })
    }
}

fn is_process(stream: &StreamSummary) -> bool {
    stream.info.kind != StreamKind::Thread
}

/// The process that crashed first.
fn crashed<'a>(recording: &Recording, streams: &'a [StreamSummary]) -> Result<Option<&'a StreamSummary>> {
    let Some(crash) = Crash::find(recording, None)? else { return Ok(None) };
    Ok(streams.iter().find(|first| is_process(first) && first.info.pid == crash.pid && first.info.id <= crash.stream))
}

/// How many events come before the last program of a process: it begins with an EXEC event, or with a START event as a copy of its parent.
/// And the call that did it.
fn program_start(recording: &Recording, stream: StreamId) -> Result<(u64, Option<(u64, usize)>)> {
    let mut scan = Scan::new(recording, stream)?;
    let (mut first_event, mut exec_call, mut last_call) = (1, None, None);
    while let Some(event) = scan.next() {
        match event.kind {
            Some(EventKind::Exec) => (first_event, exec_call) = (event.index + 1, last_call),
            Some(EventKind::Call) => last_call = Some((event.offset, event.size)),
            _ => {}
        }
    }
    Ok((first_event, exec_call))
}

fn path_to(streams: &[StreamSummary], stream: StreamId) -> Vec<u32> {
    let parents: HashMap<StreamId, Option<StreamId>> = streams.iter().map(|stream| (stream.info.id, stream.info.parent)).collect();
    let mut path = vec![stream.0];
    let mut at = stream;
    // A damaged recording may send us round in circles: parents were there before.
    while let Some(parent) = parents.get(&at).copied().flatten().filter(|parent| *parent < at) {
        path.push(parent.0);
        at = parent;
    }
    path.reverse();
    path
}
