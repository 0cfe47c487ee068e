//! What is known of a thread once it has ended: when it ran, what it did, how long it waited.
//! Written to a stream of the supervisor's own.

use crate::event_log::EventLog;
use crate::space::Space;
use retake_kernel::{clock, shared};
use retake_model::event::ThreadAccount;
use retake_model::{EventKind, StreamId, TimePoint};
use retake_recording::{ChunkEvents, RecordingWriter, Rewrite, StreamInfo, StreamKind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// No thread gets this number: the runtime counts from 0.
const SUPERVISOR_STREAM: StreamId = StreamId(u32::MAX - 1);
/// So much is kept back, for larger chunks.
const BATCH_BYTES: usize = 32 * 1024;

/// Numbers of kinds of events are below this.
const KINDS: usize = EventKind::ALL.len() + 1;

/// Events of one stream so far by kind, counted while they are moved to disk.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct EventCounts([u64; KINDS]);

impl EventCounts {
    /// Counts an event by the number of its kind.
    pub fn count(&mut self, kind: u8) {
        // What is no kind of event is counted somewhere; it was not written by the runtime.
        self.0[usize::from(kind) % KINDS] += 1;
    }

    fn of(&self, kinds: &[EventKind]) -> u64 {
        kinds.iter().map(|kind| self.0[*kind as usize]).sum()
    }
}

/// Accounts of all threads that have ended.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// When recording began.
    base_ns: u64,
    output: Output,
    state: Mutex<State>,
}

/// What is held while the recording is written anew.
#[derive(Debug)]
pub(crate) struct Held {
    batch: Vec<u8>,
    events: u32,
    /// Events of all points of the clock. They stay.
    pub points: Vec<u8>,
}

/// Where they are written.
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
    /// Events of all points of the clock so far.
    points: Vec<u8>,
    is_declared: bool,
}

impl Accounts {
    /// None so far. Recording began then, on the monotonic clock. Their stream goes to that log,
    /// and waits for space on its disk.
    pub fn new(base_ns: u64, log: Arc<dyn EventLog>, space: Arc<Space>) -> Self {
        let output = Output { log, space };
        Self { base_ns, output, state: Mutex::default() }
    }

    /// What is known of a thread that has ended.
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

    /// A thread has ended, and all that it wrote is on disk.
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

    /// Notes what the clocks show. It is written at once: should the recorder be killed, times are
    /// known up to here.
    pub fn note_time(&self) -> retake_recording::Result<()> {
        let point = TimePoint::from(clock::moment()).event();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.points.extend(&point);
        state.batch.extend(point);
        state.batch_events += 1;
        state.write(&self.output)
    }

    /// Begins to write the recording anew. What is kept back here is given back: it is written with
    /// the rest, or put back.
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

    /// The rewrite failed.
    pub fn put_back(&self, held: Held) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.batch.splice(0..0, held.batch);
        state.batch_events += held.events;
    }

    /// Writes what is kept back. Returns the number of threads and the sum of their accounts.
    pub fn finish(&self) -> retake_recording::Result<(u64, ThreadAccount)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(&self.output)?;
        Ok((state.threads, state.total))
    }
}

/// The declaration of the stream that accounts go to.
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
