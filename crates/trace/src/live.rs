//! Traced threads' events shown as they come, in the order in which calls returned.

use crate::events::EventBuffer;
use crate::interpret::Interpreter;
use crate::observation::Observation;
use crate::state;
use crate::{Error, Result};
use retake_kernel::clock;
use retake_record::EventLog;
use retake_recording::{ChunkEvents, ContentId, Outcome, Store, StreamId, StreamInfo};
use retake_trace_format::{StartKind, TraceRecord};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who sees the observations. Called by one thread at a time.
pub type Observer = Box<dyn FnMut(Observation) + Send>;

struct Thread {
    events: EventBuffer,
    interpreter: Interpreter,
}

struct State {
    threads: HashMap<u32, Thread>,
    /// Not shown yet: another thread may have done something earlier.
    waiting: Vec<Observation>,
    /// Everything up to here has been in the rings when they were looked at last.
    complete_ns: u64,
    /// When they began to be looked at.
    began_ns: u64,
    observer: Observer,
    error: Option<Error>,
}

/// Interprets and sorts events, and hands them on.
pub(crate) struct Live(Mutex<State>);

impl std::fmt::Debug for Live {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Live")
    }
}

impl Live {
    /// Hands observations to `observer`.
    pub fn new(observer: Observer) -> Arc<Self> {
        let state = State {
            threads: HashMap::new(),
            waiting: Vec::new(),
            complete_ns: 0,
            began_ns: 0,
            observer,
            error: None,
        };
        Arc::new(Self(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was wrong with an event, if anything.
    pub fn take_error(&self) -> Option<Error> {
        self.state().error.take()
    }
}

impl State {
    fn append(&mut self, stream: StreamId, bytes: &[u8]) -> Result<()> {
        let Some(thread) = self.threads.get_mut(&stream.0) else { return Ok(()) };
        thread.events.extend(bytes);
        while let Some(event) = thread.events.next(stream.0)? {
            self.waiting.extend(thread.interpreter.event(&event, &mut |_| None).observations);
        }
        Ok(())
    }

    /// Shows what happened up to a moment; it must be such that nothing earlier can still come.
    fn show(&mut self, until_ns: u64) {
        self.waiting.sort_by_key(Observation::completed_ns);
        let count =
            self.waiting.partition_point(|observation| observation.completed_ns() <= until_ns);
        for observation in self.waiting.drain(..count) {
            (self.observer)(observation);
        }
    }
}

impl EventLog for Live {
    fn declare_stream(&self, info: &StreamInfo) -> retake_recording::Result<()> {
        let mut state = self.state();
        let parent = info
            .parent
            .and_then(|parent| state.threads.get(&parent.0))
            .map_or(0, |thread| thread.interpreter.process());
        let thread =
            Thread { events: EventBuffer::default(), interpreter: Interpreter::new(info, parent) };
        state.threads.insert(info.id.0, thread);
        Ok(())
    }

    fn append(
        &self,
        stream: StreamId,
        bytes: &[u8],
        _events: ChunkEvents,
    ) -> retake_recording::Result<()> {
        let mut state = self.state();
        if let Err(error) = state.append(stream, bytes) {
            state.error.get_or_insert(error);
        }
        Ok(())
    }

    fn keep_file(&self, _store: &Store, _content: ContentId) -> retake_recording::Result<()> {
        Ok(())
    }

    fn at_exec(&self, pid: i32) -> Vec<u8> {
        state::of_process(pid, StartKind::Exec)
            .map(|start| state::to_event(&start))
            .unwrap_or_default()
    }

    fn incomplete(&self, reason: &str) {
        (self.state().observer)(Observation::Record(TraceRecord::Incomplete(reason.to_owned())));
    }

    fn drained(&self) {
        let mut state = self.state();
        // What was logged before this look began is here. A thread may have read the clock just
        // before that and logged just after, so what is shown lags behind by one more look.
        let began_ns = state.began_ns;
        let until_ns = std::mem::replace(&mut state.complete_ns, began_ns);
        state.began_ns = clock::real_time_ns().unwrap_or(0);
        state.show(until_ns);
    }

    fn finish(&self, _outcome: &Outcome) -> retake_recording::Result<()> {
        self.state().show(u64::MAX);
        Ok(())
    }
}
