//! Finds out what threads did after the last events of their streams, in a recording that was cut
//! off.
//!
//! A thread may have done more in its last turn than its stream says, and the turns of other
//! threads come after that. But the recorder notes moments before which the recording has every
//! event. If another thread took a later turn before such a moment, nothing of the turns before it
//! is missing. Under the sync policy the recorder also notes how many sections and operations,
//! which leave no events, each thread had ended.

use retake_model::Event;
use retake_model::event::TurnKind;
use retake_recording::{CutEnd, EventReader, Recording, StreamId};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A domain of turns: a process's own, or that of processes that share memory.
pub(crate) type Domain = Option<i32>;

/// The answers to REQUEST_CUT_END.
#[derive(Debug, Default)]
pub(crate) struct CutEnds {
    known: OnceLock<Option<CutEnd>>,
    /// For each domain, a turn before which all turns are whole; 0 if none is known.
    whole_before: Mutex<HashMap<Domain, u64>>,
}

impl CutEnds {
    /// Answers a thread whose last turn was `turn`: the two values of the answer.
    pub fn of(
        &self,
        recording: &Recording,
        stream: StreamId,
        domain: Domain,
        turn: u64,
    ) -> (i64, i64) {
        let Some(end) = self.known.get_or_init(|| recording.cut_end()) else { return (0, 0) };
        let reached = end.reached(stream);
        let sections = if reached.turn == turn { reached.sections } else { 0 };
        let mut whole_before = self.whole_before.lock().unwrap_or_else(PoisonError::into_inner);
        let find = || last_turn(recording, domain, end);
        let is_whole = turn < *whole_before.entry(domain).or_insert_with(find);
        (reached.operations as i64, (sections << 1) as i64 | i64::from(is_whole))
    }
}

/// Returns the domain's last turn among the events that are older than everything that is missing.
fn last_turn(recording: &Recording, domain: Domain, end: &CutEnd) -> u64 {
    let streams = recording
        .streams()
        .filter(|stream| domain.is_none_or(|pid| stream.info.pid == pid))
        .map(|stream| stream.info.id);
    let found =
        streams.filter_map(|stream| last_of_stream(recording, stream, domain, end.events(stream)));
    // A process numbers its turns anew after it executes a program.
    found.max().map_or(0, |(_, turn)| turn)
}

/// The counter of the last stamp before the last turn of a stream's first events, and the turn.
fn last_of_stream(
    recording: &Recording,
    stream: StreamId,
    domain: Domain,
    events: u64,
) -> Option<(u64, u64)> {
    let mut reader = EventReader::new(recording, stream).ok()?;
    let (mut counter, mut last) = (0_u64, None);
    while reader.next_index() < events {
        let Ok(Some(numbered)) = reader.next() else { break };
        let Ok(event) = numbered.event else { break };
        counter = event.counter(counter).unwrap_or(counter);
        let Event::Turn { turn, how } = event.decode() else { continue };
        let is_of_domain = match how {
            TurnKind::Again | TurnKind::FirstThread => domain.is_some(),
            TurnKind::Shared => domain.is_none(),
            TurnKind::Given | TurnKind::Unknown(_) => false,
        };
        if is_of_domain {
            last = Some((counter, turn));
        }
    }
    last
}
