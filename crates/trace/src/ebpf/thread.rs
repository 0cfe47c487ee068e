//! The state of a thread between its records.

use crate::Result;
use crate::event_bytes;
use retake_record::EventLog;
use retake_trace_ebpf::record::ExecCall;

/// The size at which a thread's events are handed over, if they are not asked for before. It fits
/// into the processor's own cache, from which they are hashed and written.
const BATCH_BYTES: usize = 256 << 10;

/// An exec that has succeeded. It is reported when the thread is stopped at it.
#[derive(Debug)]
pub(super) struct Exec {
    pub call: Option<ExecCall>,
    pub path: Vec<u8>,
    pub is_faulted: bool,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub stream: u32,
    pub process: i32,
    pub tid: i32,
    /// The sequence number of the next record.
    pub next: u32,
    /// The input items of the current call.
    pub inputs: Vec<u8>,
    /// The streams of threads that the call has made.
    pub children: Vec<u32>,
    pub exec: Option<Exec>,
    batch: Vec<u8>,
    batch_events: u32,
}

impl Thread {
    pub fn new(stream: u32, process: i32, tid: i32, next: u32) -> Self {
        Self {
            stream,
            process,
            tid,
            next,
            inputs: Vec::new(),
            children: Vec::new(),
            exec: None,
            batch: Vec::new(),
            batch_events: 0,
        }
    }

    /// Adds an event.
    pub fn event(&mut self, log: &dyn EventLog, event: &[u8]) -> Result<()> {
        self.make_room(log, event.len())?;
        self.batch.extend_from_slice(event);
        self.batch_events += 1;
        Ok(())
    }

    /// Adds a CALL event, with the items that were taken before it returned.
    pub fn call(&mut self, log: &dyn EventLog, event: &[u8]) -> Result<()> {
        self.event(log, event)?;
        if self.inputs.is_empty() && self.children.is_empty() {
            return Ok(());
        }
        let at = self.batch.len() - event.len();
        let mut items = std::mem::take(&mut self.inputs);
        items.extend(self.children.drain(..).flat_map(event_bytes::child_item));
        event_bytes::add_items(&mut self.batch, at, &items);
        Ok(())
    }

    fn make_room(&mut self, log: &dyn EventLog, bytes: usize) -> Result<()> {
        if self.batch.len() + bytes > BATCH_BYTES {
            self.flush(log)?;
        }
        Ok(())
    }

    /// Hands the gathered events over.
    pub fn flush(&mut self, log: &dyn EventLog) -> Result<()> {
        if self.batch_events == 0 {
            return Ok(());
        }
        let result = event_bytes::append(log, self.stream, &self.batch, self.batch_events);
        self.batch.clear();
        self.batch.shrink_to(2 * BATCH_BYTES);
        self.batch_events = 0;
        result
    }
}
