//! What is known of a thread once it has ended: when it ran, what it did, how long it waited. The
//! accounts go to a stream of the supervisor's own.

use crate::event_log::EventLog;
use crate::space::Space;
use retake_contract::events::TIME_COMPLETE;
use retake_kernel::{clock, shared};
use retake_model::event::ThreadAccount;
use retake_model::{EventKind, Reached, StreamId, TimePoint};
use retake_recording::{ChunkEvents, RecordingWriter, Rewrite, StreamInfo, StreamKind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// The supervisor's own stream. No thread gets this number: the runtime counts from 0.
const SUPERVISOR_STREAM: StreamId = StreamId(u32::MAX - 1);
/// The most bytes held back, so that chunks get larger.
const BATCH_BYTES: usize = 32 * 1024;

/// One more than the largest number of an event kind.
const KINDS: usize = EventKind::ALL.len() + 1;

/// The events of one stream so far, by kind, counted while they move to disk.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct EventCounts([u64; KINDS]);

impl EventCounts {
    /// Counts an event by the number of its kind.
    pub fn count(&mut self, kind: u8) {
        // An unknown kind was not written by the runtime; it may count as any kind.
        self.0[usize::from(kind) % KINDS] += 1;
    }

    fn of(&self, kinds: &[EventKind]) -> u64 {
        kinds.iter().map(|kind| self.0[*kind as usize]).sum()
    }
}

/// The accounts of all threads that have ended.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// When recording began.
    base_ns: u64,
    output: Output,
    state: Mutex<State>,
}

/// What is held while the recording is rewritten.
#[derive(Debug)]
pub(crate) struct Held {
    batch: Vec<u8>,
    events: u32,
    /// The events with all clock readings so far. A rewrite keeps them.
    pub points: Vec<u8>,
}

/// Where the accounts are written.
#[derive(Debug)]
struct Output {
    log: Arc<dyn EventLog>,
    space: Arc<Space>,
}

#[derive(Debug, Default)]
struct State {
    total: ThreadAccount,
    threads: u64,
    /// Events that are not in the stream yet.
    batch: Vec<u8>,
    batch_events: u32,
    /// The events with all clock readings so far.
    points: Vec<u8>,
    is_declared: bool,
}

impl Accounts {
    /// Creates empty accounts. `base_ns`: when recording began, on the monotonic clock.
    pub fn new(base_ns: u64, log: Arc<dyn EventLog>, space: Arc<Space>) -> Self {
        let output = Output { log, space };
        Self { base_ns, output, state: Mutex::default() }
    }

    /// Returns the account of a thread that has ended.
    pub fn of(&self, slot: &shared::Slot, counts: EventCounts) -> ThreadAccount {
        let since_base =
            |ns: u64| if ns == 0 { clock::monotonic_ns() } else { ns }.saturating_sub(self.base_ns);
        ThreadAccount {
            started_ns: since_base(slot.started_ns.load(Relaxed)),
            ended_ns: since_base(slot.ended_ns.load(Relaxed)),
            calls: counts.of(&[EventKind::Call, EventKind::Exit]),
            dispatched: slot.slow_calls.load(Relaxed),
            signals: counts.of(&[EventKind::Signal, EventKind::Fatal]),
            turns: counts.of(&[EventKind::Turn]),
            forced: counts.of(&[EventKind::Forced]),
            waits: slot.baton.waits.load(Relaxed),
            wait_ns: slot.baton.wait_ns.load(Relaxed),
        }
    }

    /// Adds the account of a thread that has ended and whose whole stream is on disk.
    pub fn close(&self, stream: StreamId, account: &ThreadAccount) -> retake_recording::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.threads += 1;
        state.total.add(account);
        state.batch.extend(account.event(stream));
        state.batch_events += 1;
        if state.batch.len() < BATCH_BYTES {
            return Ok(());
        }
        state.write(&self.output)
    }

    /// Logs a reading of the clocks. It is written at once, so that times are known up to here if
    /// the recorder is killed.
    pub fn note_time(&self) -> retake_recording::Result<()> {
        let point = TimePoint::from(clock::moment()).event(0);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.points.extend(&point);
        state.batch.extend(point);
        state.batch_events += 1;
        state.write(&self.output)
    }

    /// Logs that all events before a moment are in the recording, and how far threads had come.
    pub fn note_complete(
        &self,
        moment: TimePoint,
        reached: &[(StreamId, Reached)],
    ) -> retake_recording::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (stream, reached) in reached {
            state.batch.extend(reached.event(*stream));
        }
        state.batch.extend(moment.event(TIME_COMPLETE));
        state.batch_events += reached.len() as u32 + 1;
        state.write(&self.output)
    }

    /// Begins a rewrite of the recording. Returns the events held back here: the caller writes them
    /// with the rest, or puts them back.
    pub fn begin_rewrite<'a>(
        &self,
        writer: &'a RecordingWriter,
    ) -> retake_recording::Result<(Rewrite<'a>, Held)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.declare(&self.output)?;
        let rewrite = writer.begin_rewrite()?;
        let batch = std::mem::take(&mut state.batch);
        let events = std::mem::take(&mut state.batch_events);
        Ok((rewrite, Held { batch, events, points: state.points.clone() }))
    }

    /// Puts held events back after a failed rewrite.
    pub fn put_back(&self, held: Held) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.batch.splice(0..0, held.batch);
        state.batch_events += held.events;
    }

    /// Writes the events held back. Returns the number of threads and the sum of their accounts.
    pub fn finish(&self) -> retake_recording::Result<(u64, ThreadAccount)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(&self.output)?;
        Ok((state.threads, state.total))
    }
}

/// The declaration of the stream with the accounts.
pub(crate) fn supervisor_info() -> StreamInfo {
    let pid = std::process::id() as i32;
    StreamInfo {
        id: SUPERVISOR_STREAM,
        parent: None,
        pid,
        tid: pid,
        kind: StreamKind::Supervisor,
        label: String::new(),
    }
}

impl State {
    fn declare(&mut self, output: &Output) -> retake_recording::Result<()> {
        if !self.is_declared {
            output.space.wait(|| output.log.declare_stream(&supervisor_info()))?;
            self.is_declared = true;
        }
        Ok(())
    }

    fn write(&mut self, output: &Output) -> retake_recording::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.declare(output)?;
        let events = ChunkEvents { first: Some(0), count: self.batch_events };
        output.space.wait(|| output.log.append(SUPERVISOR_STREAM, &self.batch, events))?;
        self.batch.clear();
        self.batch_events = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::event::NO_PARENT;

    #[test]
    fn the_own_stream_can_be_named_as_a_parent() {
        assert_eq!(supervisor_info().id.0, NO_PARENT - 1);
    }
}
