//! Turns the records from the rings into events, and puts those of each thread in order.

use super::calls::{end_exec, held_call};
use super::mappings::Mappings;
use super::now_ns;
use super::thread::{Exec, Thread};
use crate::event_bytes::{self, END};
use crate::state;
use crate::walk::Memory;
use crate::{Error, Result};
use retake_kernel::process;
use retake_model::event::{AS_THREAD, BY_FORK, BY_NOBODY};
use retake_record::EventLog;
use retake_recording::{StreamId, StreamInfo, StreamKind};
use retake_trace_ebpf::record::OwnedRecord;
use retake_trace_ebpf::{Body, Record, Rings};
use retake_trace_format::StartKind;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The most passes over the rings in one look. Passes repeat while a record waits for one in
/// another ring. If two are not enough, records were lost.
const MOST_LOOKS: usize = 4;
/// The time between hand-overs of events while they come.
const HAND_ON_NS: u64 = 20_000_000;

pub(super) struct Collector {
    /// Separate from the state, because records are borrowed from the rings.
    rings: Option<Rings>,
    state: State,
}

impl Collector {
    pub fn new(
        log: Arc<dyn EventLog>,
        rings: Rings,
        data_limit: u64,
        mappings: Option<Mappings>,
    ) -> Self {
        let state = State {
            log,
            data_limit,
            mappings,
            threads: HashMap::new(),
            by_tid: HashMap::new(),
            early: BTreeMap::new(),
            held: HashSet::new(),
            next_stream: 0,
            has_begun: false,
            handed_on_ns: 0,
            error: None,
        };
        Self { rings: Some(rings), state }
    }

    /// Takes in the contents of the rings. Returns whether there was anything.
    pub fn drain(&mut self) -> bool {
        let Some(rings) = &mut self.rings else { return false };
        let state = &mut self.state;
        let mut something = false;
        for _ in 0..MOST_LOOKS {
            let looked: Result<()> = rings.drain(|record| {
                something = true;
                state.accept(&record);
                Ok(())
            });
            debug_assert!(looked.is_ok());
            state.accept_early();
            if state.early.is_empty() {
                break;
            }
        }
        state.hand_on(false);
        something
    }

    /// Adds a thread that the eBPF programs were told to follow. `is_running` marks threads of
    /// processes that ran before.
    pub fn begin(&mut self, thread: u64, process: i32, tid: i32, is_running: bool) -> Result<()> {
        self.state.begin_named(thread, process, tid, is_running)?;
        self.state.hand_on(true);
        self.state.error.take().map_or(Ok(()), Err)
    }

    /// Notes that a held thread goes on, after taking in all that it wrote.
    pub fn release(&mut self, tid: i32) {
        self.drain();
        self.state.held.remove(&tid);
    }

    /// Returns whether a thread waits to go on.
    pub fn somebody_is_held(&self) -> bool {
        self.state.held.iter().any(|tid| !process::is_gone(*tid))
    }

    /// Notes that a process is before the first instruction of a new program.
    pub fn executed(&mut self, tid: i32) {
        self.drain();
        let result = self.state.executed(tid);
        self.state.note(result);
        self.state.hand_on(true);
    }

    /// Returns whether [`Collector::ends`] is to be called before threads end.
    pub fn looks(&self) -> bool {
        self.state.mappings.is_some()
    }

    /// Notes that a thread is about to end.
    pub fn ends(&mut self, tid: i32) {
        self.drain();
        let result = self.state.ends(tid);
        self.state.note(result);
    }

    /// Notes that no thread is followed from here on.
    pub fn leaves(&mut self) {
        let tids: Vec<i32> = self.state.by_tid.keys().copied().collect();
        for tid in tids {
            let result = self.state.ends(tid);
            self.state.note(result);
        }
    }

    /// Returns whether the first program was executed.
    pub fn has_begun(&self) -> bool {
        self.state.has_begun
    }

    /// Hands the remaining events over.
    ///
    /// # Errors
    /// The first error of all.
    pub fn finish(&mut self) -> Result<()> {
        self.rings = None;
        if !self.state.early.is_empty() {
            let reason = format!("what came before {} events was lost", self.state.early.len());
            self.state.log.incomplete(&reason);
        }
        self.state.hand_on(true);
        self.state.error.take().map_or(Ok(()), Err)
    }
}

struct State {
    log: Arc<dyn EventLog>,
    data_limit: u64,
    /// Present if data that no register shows are wanted.
    mappings: Option<Mappings>,
    threads: HashMap<u64, Thread>,
    by_tid: HashMap<i32, u64>,
    /// Records that arrived before their predecessors, by thread and sequence.
    early: BTreeMap<(u64, u32), OwnedRecord>,
    /// Threads that the eBPF programs have stopped.
    held: HashSet<i32>,
    next_stream: u32,
    has_begun: bool,
    handed_on_ns: u64,
    /// The first error. After it records are only counted.
    error: Option<Error>,
}

impl State {
    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    fn accept(&mut self, record: &Record<'_>) {
        if record.is_stopped {
            self.held.insert(record.tid as i32);
        }
        if !self.is_next(record) {
            self.early.insert((record.thread, record.sequence), record.to_owned());
            return;
        }
        let result = self.process(record);
        self.note(result);
    }

    /// Returns whether all records that belong before this one have arrived.
    fn is_next(&self, record: &Record<'_>) -> bool {
        match (&record.body, self.threads.get(&record.thread)) {
            (Body::Start { parent, .. }, _) => self.threads.contains_key(parent),
            (_, Some(thread)) => thread.next == record.sequence,
            (_, None) => false,
        }
    }

    fn accept_early(&mut self) {
        loop {
            let early = std::mem::take(&mut self.early);
            let count = early.len();
            early.into_values().for_each(|record| self.accept(&record.record()));
            if self.early.len() == count || self.early.is_empty() {
                return;
            }
        }
    }

    fn process(&mut self, record: &Record<'_>) -> Result<()> {
        if let Body::Start { parent, process, tid, is_thread, time_ns } = record.body {
            return self.begin(
                record.thread,
                (process as i32, tid as i32),
                Some((parent, is_thread)),
                time_ns,
            );
        }
        let Some(thread) = self.threads.get_mut(&record.thread) else { return Ok(()) };
        thread.next += 1;
        if self.error.is_some() && !matches!(record.body, Body::End { .. }) {
            return Ok(());
        }
        let log = &*self.log;
        match record.body {
            Body::Call(event) => thread.call(log, event)?,
            Body::Held { event, before, is_faulted } => {
                let memory = Memory { pid: thread.tid, data_limit: self.data_limit };
                if let Some(mappings) = &mut self.mappings {
                    mappings.at_return(thread, log, event)?;
                }
                let event = held_call(memory, thread, event, before, is_faulted)?;
                thread.call(log, &event)?;
            }
            Body::Inputs(items) => thread.inputs = items.to_vec(),
            Body::Event(event) => thread.event(log, event)?,
            Body::Exec { call, path, is_faulted } => {
                thread.exec = Some(Exec { call, path: path.to_vec(), is_faulted });
                // After an exec the thread has the number of its process.
                if self.by_tid.get(&thread.tid) == Some(&record.thread) {
                    self.by_tid.remove(&thread.tid);
                }
                thread.tid = record.tid as i32;
                self.by_tid.insert(thread.tid, record.thread);
            }
            Body::End { status } => self.ended(record.thread, status)?,
            Body::Start { .. } => {}
            Body::Malformed => {
                return Err(Error::System(std::io::Error::other(
                    "a record from the kernel is malformed: this is a defect of retake",
                )));
            }
        }
        Ok(())
    }

    /// Begins a stream. `made_by` is the thread that made the new one, and whether the new one is a
    /// thread of the same process.
    fn begin(
        &mut self,
        id: u64,
        (process, tid): (i32, i32),
        made_by: Option<(u64, bool)>,
        time_ns: u64,
    ) -> Result<()> {
        let stream = self.next_stream;
        self.next_stream += 1;
        let maker = made_by.and_then(|(maker, _)| self.threads.get_mut(&maker));
        let parent = maker.map(|maker| {
            maker.children.push(stream);
            maker.stream
        });
        let (kind, how) = match made_by {
            None => (StreamKind::Initial, BY_NOBODY),
            Some((_, false)) => (StreamKind::Process, BY_FORK),
            Some((_, true)) => (StreamKind::Thread, AS_THREAD),
        };
        self.declare(stream, parent, process, tid, kind)?;
        let mut thread = Thread::new(stream, process, tid, 1);
        thread.event(&*self.log, &event_bytes::start(process, tid, parent, how, time_ns))?;
        self.threads.insert(id, thread);
        self.by_tid.insert(tid, id);
        Ok(())
    }

    fn declare(
        &self,
        stream: u32,
        parent: Option<u32>,
        process: i32,
        tid: i32,
        kind: StreamKind,
    ) -> Result<()> {
        let info = StreamInfo {
            id: StreamId(stream),
            parent: parent.map(StreamId),
            pid: process,
            tid,
            kind,
            label: String::new(),
        };
        Ok(self.log.declare_stream(&info)?)
    }

    fn begin_named(&mut self, id: u64, process: i32, tid: i32, is_running: bool) -> Result<()> {
        self.begin(id, (process, tid), None, now_ns())?;
        let Some(thread) = self.threads.get_mut(&id) else { return Ok(()) };
        // The eBPF programs wrote no record of its beginning.
        thread.next = 0;
        if is_running && process == tid {
            self.has_begun = true;
            if let Ok(start) = state::of_process(process, StartKind::Attach) {
                thread.event(&*self.log, &state::to_event(&start))?;
            }
            if let Some(mappings) = &mut self.mappings {
                mappings.found(thread, &*self.log)?;
            }
        }
        Ok(())
    }

    fn ends(&mut self, tid: i32) -> Result<()> {
        let thread = self.by_tid.get(&tid).and_then(|id| self.threads.get_mut(id));
        match (&mut self.mappings, thread) {
            (Some(mappings), Some(thread)) => mappings.before_end(thread, &*self.log),
            _ => Ok(()),
        }
    }

    fn executed(&mut self, tid: i32) -> Result<()> {
        self.has_begun = true;
        let Some(thread) = self.by_tid.get(&tid).and_then(|id| self.threads.get_mut(id)) else {
            return Ok(());
        };
        end_exec(thread, &*self.log)?;
        if let Some(mappings) = &mut self.mappings {
            mappings.executed(thread, &*self.log)?;
        }
        match state::of_process(tid, StartKind::Exec) {
            Ok(start) => thread.event(&*self.log, &state::to_event(&start)),
            // The process was killed meanwhile.
            Err(_) => Ok(()),
        }
    }

    fn ended(&mut self, id: u64, status: u32) -> Result<()> {
        let Some(mut thread) = self.threads.remove(&id) else { return Ok(()) };
        self.held.remove(&thread.tid);
        if self.by_tid.get(&thread.tid) == Some(&id) {
            self.by_tid.remove(&thread.tid);
        }
        end_exec(&mut thread, &*self.log)?;
        let is_last = !self.threads.values().any(|other| other.process == thread.process);
        if let Some(mappings) = self.mappings.as_mut().filter(|_| is_last) {
            mappings.ended(&mut thread, &*self.log)?;
        }
        if status & 0x7f != 0 {
            thread.event(&*self.log, &event_bytes::event(END, 0, i64::from(status), &[]))?;
        }
        thread.flush(&*self.log)
    }

    /// Hands over the events of all threads, if it is time.
    fn hand_on(&mut self, at_once: bool) {
        if !self.has_begun {
            // Nothing is kept of a program that cannot be executed.
            return;
        }
        let now = now_ns();
        if !at_once && now.saturating_sub(self.handed_on_ns) < HAND_ON_NS {
            return;
        }
        self.handed_on_ns = now;
        for thread in self.threads.values_mut() {
            if let Err(error) = thread.flush(&*self.log) {
                self.error.get_or_insert(error);
            }
        }
        self.log.drained();
    }
}
