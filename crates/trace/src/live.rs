//! Shows the events of traced threads as they come, in the order in which calls returned.

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

/// The callback that gets each observation. One thread at a time calls it.
pub type Observer = Box<dyn FnMut(Observation) + Send>;

struct Thread {
    events: EventBuffer,
    interpreter: Interpreter,
}

struct State {
    threads: HashMap<u32, Thread>,
    /// Observations that are not shown yet, because another thread may have an earlier one.
    waiting: Vec<Observation>,
    /// The time before the last look at the rings. All earlier events have been taken in.
    complete_ns: u64,
    /// The time at which that look began.
    began_ns: u64,
    observer: Observer,
    error: Option<Error>,
}

/// Interprets and sorts events, and passes the observations on.
pub(crate) struct Live(Mutex<State>);

impl std::fmt::Debug for Live {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Live")
    }
}

impl Live {
    /// Makes a log that passes observations to `observer`.
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

    /// Takes the first error of all.
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

    /// Shows all observations up to a time for which no earlier ones can still come.
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
        // All events logged before this look began are here. A thread may have read the clock just
        // before that and logged just after, so the display lags behind by one more look.
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
