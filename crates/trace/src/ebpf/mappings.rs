//! Data that no register shows, for threads that the eBPF programs hold. They go into the threads'
//! streams before the events of their calls.

use super::thread::Thread;
use super::{calls, now_ns};
use crate::look::{Looker, Sink};
use crate::{Error, Result};
use retake_model::parse_event;
use retake_record::{EventLog, Moment, Stage};
use retake_trace_ebpf::Mappers;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

pub(super) struct Mappings {
    looker: Arc<Looker>,
    mappers: Mappers,
    /// Processes that were looked at shortly before their end.
    ending: HashSet<i32>,
}

impl Mappings {
    pub fn new(looker: Arc<Looker>, mappers: Mappers) -> Self {
        Self { looker, mappers, ending: HashSet::new() }
    }

    /// Looks at a thread that is held at the return of a call.
    pub fn at_return(
        &mut self,
        thread: &mut Thread,
        log: &dyn EventLog,
        event: &[u8],
    ) -> Result<()> {
        let malformed = |error| Error::Malformed { stream: thread.stream, index: 0, error };
        let (event, _) = parse_event(event).map_err(malformed)?;
        let Some(call) = event
            .as_call()
            .map(|call| calls::of_thread(&call, thread))
            .filter(|call| !call.failed())
        else {
            return Ok(());
        };
        let moment = Moment {
            time_ns: call.entered_ns,
            number: call.number.into(),
            arguments: call.arguments,
            result: call.result,
            ..moment(Stage::AfterMove, thread)
        };
        self.look(thread, log, |looker, sink| looker.returned_only(moment, sink))?;
        self.note(thread.process)
    }

    /// Looks at a process that ran before it was followed.
    pub fn found(&mut self, thread: &mut Thread, log: &dyn EventLog) -> Result<()> {
        let moment = moment(Stage::Mapped, thread);
        self.look(thread, log, |looker, sink| looker.at_call(&moment, sink).map(drop))?;
        self.note(thread.process)
    }

    /// Looks at a thread that is about to end or to be left. Its process may not be looked at
    /// again.
    pub fn before_end(&mut self, thread: &mut Thread, log: &dyn EventLog) -> Result<()> {
        self.ending.insert(thread.process);
        let moment = moment(Stage::BeforeUnmap, thread);
        self.look(thread, log, |looker, sink| looker.before_end(moment, sink))
    }

    /// Notes that a process has executed another program.
    pub fn executed(&mut self, thread: &mut Thread, log: &dyn EventLog) -> Result<()> {
        self.mappers.remove(thread.process);
        let process = thread.process;
        self.look(thread, log, |looker, sink| looker.at_death(process, now_ns(), sink))
    }

    /// Notes that a process is gone.
    pub fn ended(&mut self, thread: &mut Thread, log: &dyn EventLog) -> Result<()> {
        self.mappers.remove(thread.process);
        let process = thread.process;
        if self.ending.remove(&process) {
            self.looker.forget(process);
            return Ok(());
        }
        self.look(thread, log, |looker, sink| looker.at_death(process, now_ns(), sink))
    }

    fn look(
        &self,
        thread: &mut Thread,
        log: &dyn EventLog,
        how: impl FnOnce(&Looker, Sink<'_>) -> io::Result<()>,
    ) -> Result<()> {
        Ok(how(&self.looker, &mut |events| thread.event(log, events).map_err(io::Error::other))?)
    }

    fn note(&mut self, process: i32) -> Result<()> {
        if self.looker.has_mappings(process) {
            self.mappers.add(process)?;
        }
        Ok(())
    }
}

/// Returns a moment of a thread outside of calls.
fn moment(stage: Stage, thread: &Thread) -> Moment {
    Moment {
        stage,
        pid: thread.process,
        tid: thread.tid,
        time_ns: now_ns(),
        number: 0,
        arguments: [0; 6],
        result: 0,
    }
}
