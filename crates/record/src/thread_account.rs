//! What is known of a thread once it has ended: when it ran, what it did, how long it waited. Written to a stream of the supervisor's own.

use crate::shared_state::Recorder;
use crate::space::wait_for_space;
use retake_kernel::{clock, shared};
use retake_model::event::{HEADER_BYTES, ThreadAccount};
use retake_model::{EventKind, StreamId};
use retake_recording::{ChunkEvents, StreamInfo, StreamKind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

/// No thread gets this number: the runtime counts from 0.
const SUPERVISOR_STREAM: StreamId = StreamId(u32::MAX - 1);
/// So much is kept back, for larger chunks.
const BATCH_BYTES: usize = 32 * 1024;

/// Events of one stream so far, counted while they are moved to disk.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct EventCounts {
    pub calls: u64,
    pub signals: u64,
    pub turns: u64,
    pub forced: u64,
}

impl EventCounts {
    /// Counts an event by the number of its kind.
    pub fn count(&mut self, kind: u8) {
        let counter = match EventKind::from_number(kind) {
            Some(EventKind::Call | EventKind::Exit) => &mut self.calls,
            Some(EventKind::Signal | EventKind::Fatal) => &mut self.signals,
            Some(EventKind::Turn) => &mut self.turns,
            Some(EventKind::Forced) => &mut self.forced,
            _ => return,
        };
        *counter += 1;
    }
}

/// Accounts of all threads that have ended.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// When recording began.
    base_ns: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: ThreadAccount,
    threads: u64,
    /// Events that are not in the stream yet.
    batch: Vec<u8>,
    is_declared: bool,
}

impl Accounts {
    pub fn new() -> Self {
        Self { base_ns: clock::monotonic_ns(), state: Mutex::default() }
    }

    /// A thread has ended, and all that it wrote is on disk.
    pub fn close(&self, recorder: &Recorder, slot: &shared::Slot, counts: EventCounts) -> retake_recording::Result<()> {
        let lines = &slot.lines;
        let since_base = |ns: u64| if ns == 0 { clock::monotonic_ns() } else { ns }.saturating_sub(self.base_ns);
        let account = ThreadAccount {
            started_ns: since_base(lines.started_ns.load(Relaxed)),
            ended_ns: since_base(lines.ended_ns.load(Relaxed)),
            calls: counts.calls,
            dispatched: lines.slow_calls.load(Relaxed),
            signals: counts.signals,
            turns: counts.turns,
            forced: counts.forced,
            waits: lines.baton_waits.load(Relaxed),
            wait_ns: lines.baton_wait_ns.load(Relaxed),
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.threads += 1;
        state.total.add(&account);
        state.batch.extend(account.event(StreamId(slot.stream.load(Relaxed))));
        if state.batch.len() < BATCH_BYTES {
            return Ok(());
        }
        state.write(recorder)
    }

    /// Writes what is kept back. Returns the number of threads and the sum of their accounts.
    pub fn finish(&self, recorder: &Recorder) -> retake_recording::Result<(u64, ThreadAccount)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(recorder)?;
        Ok((state.threads, state.total))
    }
}

impl State {
    fn write(&mut self, recorder: &Recorder) -> retake_recording::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        if !self.is_declared {
            let pid = std::process::id() as i32;
            let info = StreamInfo { id: SUPERVISOR_STREAM, parent: None, pid, tid: pid, kind: StreamKind::Supervisor, label: String::new() };
            wait_for_space(|| recorder.log.declare_stream(&info))?;
            self.is_declared = true;
        }
        let event_bytes = HEADER_BYTES + ThreadAccount::BYTES;
        let events = ChunkEvents { first: Some(0), count: (self.batch.len() / event_bytes) as u32 };
        wait_for_space(|| recorder.log.append(SUPERVISOR_STREAM, &self.batch, events))?;
        self.batch.clear();
        Ok(())
    }
}
